//! The dispatcher, its options, and dispatching a board once.
//!
//! A pass decides about some boards together: it takes snapshots, plans, and records what it is about to do in
//! one short transaction per board. Starting and stopping workers takes time and happens afterwards, each by itself and
//! outside of any lock.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use tokio::task::JoinSet;
use vestal_board::dispatch::{Bucket, DispatchPolicy, DispatchResult, Spawned};
use vestal_board::{Board, Outcome, Result, TaskId};
use vestal_config::Environment;
use vestal_process::EndTimeouts;

use crate::gc::GcPolicy;
use crate::git::{GIT_TIMEOUT, Git};
use crate::launcher::Launcher;
use crate::liveness::{RunKey, WorkerProcesses};
use crate::load::MemoryRoom;
use crate::locks::IfHeld;
use crate::pass::Pass;

/// Options of a dispatcher.
pub struct DispatcherOptions {
    /// The file that dispatchers of this host lock while they decide.
    pub lock: PathBuf,
    /// The policy that plans are made by.
    pub policy: DispatchPolicy,
    /// Returns how many more workers this host has room for; `None` for no such limit.
    pub room: Option<MemoryRoom>,
    /// Starts workers.
    pub launcher: Arc<dyn Launcher>,
    /// Returns the existing profiles.
    pub profiles: Arc<dyn Fn() -> BTreeSet<String> + Send + Sync>,
    /// The environment that git is run with.
    pub environment: Environment,
    /// How long a worker may take to stop.
    pub timeouts: EndTimeouts,
    /// How often to look at the boards even without a change.
    pub interval: Duration,
    /// The retention policy of the daily clean-up; `None` for no clean-up.
    pub retention: Option<GcPolicy>,
    /// Receives events as they happen.
    pub on_event: Arc<dyn Fn(DispatchEvent) + Send + Sync>,
}

/// Workers that a host may run however little memory it has.
const MIN_WORKERS: u64 = 2;

/// How long a worker may take to stop by default: enough to end its commands in the sandbox and to
/// report.
pub const STOP_TIMEOUTS: EndTimeouts =
    EndTimeouts { grace: Duration::from_secs(25), kill: Duration::from_secs(10) };

/// Carries out plans. Clones share the workers they started.
#[derive(Clone)]
pub struct Dispatcher {
    pub(crate) shared: Arc<DispatcherShared>,
}

pub(crate) struct DispatcherShared {
    pub(crate) options: DispatcherOptions,
    pub(crate) git: Git,
    pub(crate) children: WorkerProcesses,
    /// Runs that this process is stopping or sweeping.
    pub(crate) locked_runs: Mutex<HashSet<RunKey>>,
    /// Directories in which this process is starting workers.
    pub(crate) locked_dirs: Mutex<HashSet<PathBuf>>,
    /// Events that were emitted and are not repeated.
    pub(crate) reported: Mutex<HashSet<String>>,
}

impl Dispatcher {
    /// Returns a dispatcher.
    pub fn new(options: DispatcherOptions) -> Self {
        let git = Git::new(&options.environment, GIT_TIMEOUT);
        let shared = DispatcherShared {
            options,
            git,
            children: WorkerProcesses::default(),
            locked_runs: Mutex::default(),
            locked_dirs: Mutex::default(),
            reported: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    pub(crate) fn options(&self) -> &DispatcherOptions {
        &self.shared.options
    }

    pub(crate) fn policy(&self) -> &DispatchPolicy {
        &self.shared.options.policy
    }

    /// Returns the policy while this many workers run on this host.
    pub(crate) fn policy_with(&self, workers: u64) -> DispatchPolicy {
        let mut policy = self.policy().clone();
        if let Some(room) = self.options().room.as_ref().and_then(|room| room()) {
            let most = workers.saturating_add(room).max(MIN_WORKERS);
            let most = u32::try_from(most).unwrap_or(u32::MAX);
            policy.caps.host = Some(policy.caps.host.map_or(most, |cap| cap.min(most)));
        }
        policy
    }

    pub(crate) fn emit(&self, event: DispatchEvent) {
        (self.shared.options.on_event)(event);
    }

    /// Emits an event unless the same was emitted before.
    pub(crate) fn emit_once(&self, event: DispatchEvent) {
        if lock(&self.shared.reported).insert(event.to_string()) {
            self.emit(event);
        }
    }

    /// Dispatches the tasks of a board once. The other boards of `all` count towards the caps that
    /// all boards share.
    ///
    /// Returns when all planned workers are started and stopped.
    #[boxed]
    pub async fn tick(
        &self,
        board: &Board,
        all: &[Board],
        mode: DispatchMode,
    ) -> Result<DispatchResult> {
        match mode {
            DispatchMode::DryRun => self.look(board, all).await,
            DispatchMode::Real => {
                let passed = self.pass(std::slice::from_ref(board), all, IfHeld::Skip).await?;
                match passed.into_iter().next() {
                    Some(pass) => Ok(self.finish(pass?).await),
                    None => Ok(DispatchResult::default()),
                }
            }
        }
    }

    async fn finish(&self, pass: Pass) -> DispatchResult {
        let Pass { mut result, launches, stops, sweeps, events, .. } = pass;
        for event in events {
            self.emit(event);
        }
        let shown = self.policy().shown;
        let mut jobs: JoinSet<Option<Spawned>> = JoinSet::new();
        let planned: Vec<_> = launches.iter().map(|pending| pending.run.task_id.clone()).collect();
        for pending in launches {
            let dispatcher = self.clone();
            jobs.spawn(async move { dispatcher.launch(pending).await });
        }
        for pending in stops {
            let dispatcher = self.clone();
            jobs.spawn(async move {
                dispatcher.stop(pending).await;
                None
            });
        }
        for pending in sweeps {
            let dispatcher = self.clone();
            jobs.spawn(async move {
                dispatcher.clean_up(pending).await;
                None
            });
        }
        let mut spawned = Vec::new();
        while let Some(done) = jobs.join_next().await {
            match done {
                Ok(started) => spawned.extend(started),
                Err(error) => tracing::error!(%error, "a task of the dispatcher panicked"),
            }
        }
        // In the order of the plan, not of completion.
        spawned.sort_by_key(|one| planned.iter().position(|task| *task == one.task_id));
        result.spawned = Bucket::default();
        for one in spawned {
            result.spawned.add(one, shown);
        }
        result
    }
}

impl fmt::Debug for Dispatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dispatcher").field("lock", &self.options().lock).finish_non_exhaustive()
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the plan is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DispatchMode {
    /// Only returns what would be done. Nothing is written, no process is signalled.
    DryRun,
    /// Carries it out.
    Real,
}

/// Something that a dispatcher did or found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DispatchEvent {
    /// A worker was started.
    Started {
        /// The board.
        board: String,
        /// The task.
        task: TaskId,
        /// The profile that works.
        profile: String,
        /// Where.
        workspace: String,
    },
    /// A worker could not be started.
    NotStarted {
        /// The board.
        board: String,
        /// The task.
        task: TaskId,
        /// Why.
        error: String,
    },
    /// A worker exited after it had reported.
    Finished {
        /// The board.
        board: String,
        /// The task.
        task: TaskId,
        /// How its run ended.
        outcome: Outcome,
    },
    /// A run ended without a report of its worker, and the board was corrected.
    Ended {
        /// The board.
        board: String,
        /// The task.
        task: TaskId,
        /// How.
        outcome: Outcome,
        /// Why.
        reason: String,
    },
    /// A worker whose run had ended was stopped.
    Stopped {
        /// The board.
        board: String,
        /// The task.
        task: TaskId,
    },
    /// A worker survived SIGKILL; it keeps its task.
    Survived {
        /// The board.
        board: String,
        /// The task.
        task: TaskId,
        /// Its remaining processes.
        pids: Vec<u32>,
    },
    /// Tasks are assigned to a profile that does not exist. Emitted once.
    UnknownProfile {
        /// Its name.
        name: String,
    },
    /// A clean-up removed something.
    Collected {
        /// The board.
        board: String,
        /// What.
        what: crate::gc::CollectedLeftovers,
    },
    /// The working tree of a finished task was kept. Emitted once.
    KeptTree {
        /// The tree.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Something failed and is tried again. Emitted once.
    Problem {
        /// The board, where it is about one.
        board: Option<String>,
        /// What.
        what: String,
    },
}

impl fmt::Display for DispatchEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started { board, task, profile, workspace } => {
                write!(f, "{board}: started {task} as {profile} @ {workspace}")
            }
            Self::NotStarted { board, task, error } => {
                write!(f, "{board}: could not start {task}: {error}")
            }
            Self::Finished { board, task, outcome } => write!(f, "{board}: {task} {outcome}"),
            Self::Ended { board, task, outcome, reason } => {
                write!(f, "{board}: {task} {outcome}: {reason}")
            }
            Self::Stopped { board, task } => write!(f, "{board}: stopped the worker of {task}"),
            Self::Survived { board, task, pids } => {
                write!(f, "{board}: the worker of {task} cannot be killed (processes {pids:?})")
            }
            Self::UnknownProfile { name } => {
                write!(f, "profile {name} does not exist; its tasks wait to be claimed by hand")
            }
            Self::Collected { board, what } => write!(f, "{board}: removed {what}"),
            Self::KeptTree { path, reason } => write!(f, "kept {}: {reason}", path.display()),
            Self::Problem { board: Some(board), what } => write!(f, "{board}: {what}"),
            Self::Problem { board: None, what } => f.write_str(what),
        }
    }
}
