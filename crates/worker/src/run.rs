//! A worker from start to exit: it checks that it holds the task, works, and reports.
//! Around the work it renews the lease and watches the clock and the signals.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use vestal_agent::redact::Redactor;
use vestal_board::dispatch::FailurePolicy;
use vestal_board::verbs::Heartbeat;
use vestal_board::{
    Authority, Block, Board, Error, Fence, LogPolicy, Outcome, Run, RunEnd, RunId, RunProcess,
    Task, TaskId, log_path,
};
use vestal_config::{ProfileName, Settings};
use vestal_runtime::{Termination, Terminations};
use vestal_sandbox::{CLOSE_WITHIN, Engine};

use crate::context::{AgentBoard, ReportedState};
use crate::limits::ProcessLimits;
use crate::log::TaskLog;
use crate::report::{Resolution, WorkerExit, WorkerReport};
use crate::workspace::WORKSPACE_VARIABLE;

/// How long the work may take to stop. A tool call that does not return is abandoned earlier.
const STOP_WITHIN: Duration = Duration::from_secs(20);

/// What a worker needs.
pub struct WorkerParts {
    /// The board.
    pub board: Board,
    /// The task.
    pub task: TaskId,
    /// The run that holds it for this worker.
    pub run: RunId,
    /// The settings of its profile.
    pub settings: Arc<Settings>,
    /// Where its commands run.
    pub engine: Engine,
    /// Masks secrets in everything stored or shown.
    pub redactor: Arc<Redactor>,
    /// How long its lease lasts without renewal.
    pub lease: Duration,
    /// What happens to tasks that fail.
    pub failures: FailurePolicy,
    /// How its log is rotated.
    pub log: LogPolicy,
    /// Its limits on this host.
    pub limits: ProcessLimits,
    /// The signals that ask this process to stop.
    pub signals: Terminations,
}

/// Works on a task until there is something to report, and reports it.
#[boxed]
pub async fn run(parts: WorkerParts) -> WorkerReport {
    let (worker, mut signals) = match Worker::new(parts).await {
        Ok(ready) => ready,
        Err(report) => return report,
    };
    let (task, run) = (&worker.task.id, worker.run.id);
    let span = tracing::info_span!("task", %task, %run);
    worker.run(&mut signals).instrument(span).await
}

/// A worker that holds its task.
pub(crate) struct Worker {
    pub(crate) board: Board,
    pub(crate) settings: Arc<Settings>,
    pub(crate) engine: Engine,
    pub(crate) redactor: Arc<Redactor>,
    pub(crate) limits: ProcessLimits,
    lease: Duration,
    failures: FailurePolicy,
    pub(crate) fence: Fence,
    pub(crate) task: Task,
    pub(crate) run: Run,
    pub(crate) log: TaskLog,
    pub(crate) kanban: AgentBoard,
    pub(crate) activity: ActivityFlag,
    /// Cancelled when the work has to end.
    pub(crate) stop: CancellationToken,
}

impl Worker {
    /// Checks that the run still holds the task. Nothing is changed before that.
    async fn new(parts: WorkerParts) -> Result<(Self, Terminations), WorkerReport> {
        let failed = |error: String| WorkerReport::new(WorkerExit::Failed, Some(error));
        let path = log_path(parts.board.dir(), &parts.task);
        let log = TaskLog::open(&path, parts.log, Arc::clone(&parts.redactor))
            .map_err(|error| failed(format!("cannot open the log {}: {error}", path.display())))?;
        let profile = parts.settings.home().profile().clone();
        let held = held(&parts, &profile).await.map_err(|error| {
            log.write(&format!("run {} failed: {error}", parts.run));
            failed(error.to_string())
        })?;
        let Some((task, run)) = held else {
            let report = lost(parts.run, &parts.task);
            log.write(report.error.as_deref().unwrap_or_default());
            return Err(report);
        };
        let fence = Fence { task: task.id.clone(), run: run.id, profile };
        let board = parts.board;
        let kanban = AgentBoard::for_worker(board.clone(), fence.clone(), run.role, parts.lease);
        let worker = Self {
            board,
            settings: parts.settings,
            engine: parts.engine,
            redactor: parts.redactor,
            limits: parts.limits,
            lease: parts.lease,
            failures: parts.failures,
            fence,
            task,
            run,
            log,
            kanban,
            activity: ActivityFlag::default(),
            stop: CancellationToken::new(),
        };
        Ok((worker, parts.signals))
    }

    async fn run(&self, signals: &mut Terminations) -> WorkerReport {
        // A session of its own: it can be killed with everything it starts, and a signal to another
        // process group does not reach it.
        if let Err(error) = vestal_process::lead_session() {
            self.log.write(&format!("warning: cannot start a session of its own: {error}"));
        }
        self.log.write(&format!(
            "run {} begins: {} {:?} as {} (process {})",
            self.run.id,
            self.run.role,
            self.task.title,
            self.fence.profile,
            std::process::id(),
        ));
        tracing::info!(role = %self.run.role, "run begins");
        self.note_start().await;
        let report = self.work(signals).await;
        let (exit, error) = (&report.exit, report.error.as_deref());
        tracing::info!(%exit, error, "run ends");
        let detail = report.error.as_ref().map(|error| format!(": {error}"));
        self.log.write(&format!(
            "run {} ends: {} (exit code {}){}",
            self.run.id,
            report.exit,
            report.exit.code(),
            detail.unwrap_or_default()
        ));
        report
    }

    /// Records which process this is, in case the dispatcher died before it could. From then on the
    /// worker can be watched and stopped.
    async fn note_start(&self) {
        let board = &self.board;
        let noted = match vestal_process::ProcessId::current() {
            Ok(me) => {
                let host = board.host().clone();
                let process = RunProcess { host, pid: me.pid, start: me.start };
                let given = self.settings.environment().non_empty(WORKSPACE_VARIABLE);
                let place = given.map(|place| place.to_string_lossy().into_owned());
                let place = place.unwrap_or_else(|| self.task.workspace.kind().to_owned());
                board.started(&self.fence, process, &place).await.map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        // If the task was lost meanwhile, the first heartbeat notices.
        if let Err(error) = noted {
            self.log.write(&format!("warning: the start could not be recorded: {error}"));
        }
    }

    async fn work(&self, signals: &mut Terminations) -> WorkerReport {
        let deadline = match self.deadline().await {
            Ok(deadline) => deadline,
            Err(error) => {
                return self.report(Resolution::End(Outcome::Crashed, error.to_string())).await;
            }
        };
        let mut work = Box::pin(self.attempt());
        let mut stop = None;
        let worked = tokio::select! {
            biased;
            worked = &mut work => Ok(worked),
            why = self.until_stop(deadline, signals) => {
                self.log.write(&format!("stopping: {}", in_words(why)));
                stop = Some(why);
                self.stop.cancel();
                // After the first signal the work may finish cleaning up; a second one ends it at once.
                tokio::select! {
                    biased;
                    _ = signals.next() => Err("a second signal came before cleanup was done"),
                    worked = tokio::time::timeout(STOP_WITHIN, &mut work) => {
                        worked.map_err(|_| "the work did not stop in time")
                    }
                }
            }
        };
        drop(work);
        let resolution = match worked {
            Ok(resolution) => resolution,
            Err(error) => {
                // The dispatcher finds and ends what is left, by its session.
                let exit = stop.map_or(WorkerExit::Terminated, |why| match why {
                    StopCause::Signal(_) => WorkerExit::Terminated,
                    StopCause::Lost => WorkerExit::Lost,
                    StopCause::TimedOut => WorkerExit::TimedOut,
                });
                return WorkerReport::new(exit, Some(error.to_owned()));
            }
        };
        let report = match (self.kanban.reported(), stop, resolution) {
            (Some(ReportedState::Finished), ..) => WorkerReport::new(WorkerExit::Done, None),
            (Some(ReportedState::Waits), ..) => WorkerReport::new(WorkerExit::Waiting, None),
            (Some(ReportedState::Lost), ..) | (None, Some(StopCause::Lost), _) => {
                lost(self.run.id, &self.task.id)
            }
            (None, Some(StopCause::TimedOut), _) => {
                let limit = self.run.max_runtime.unwrap_or_default().as_secs();
                let reason = format!("it took longer than its limit of {limit} s");
                self.report(Resolution::End(Outcome::TimedOut, reason)).await
            }
            (None, Some(StopCause::Signal(_)), _) => {
                let reason = "a signal asked the worker to stop".to_owned();
                self.report(Resolution::End(Outcome::Terminated, reason)).await
            }
            (None, None, Some(resolution)) => self.report(resolution).await,
            (None, None, None) => {
                let reason = "the worker ended without a result".to_owned();
                self.report(Resolution::End(Outcome::Crashed, reason)).await
            }
        };
        if !self.engine.close(CLOSE_WITHIN).await {
            self.log.write("warning: a sandbox of this process was not removed in time");
        }
        report
    }

    /// Returns when the run's time is up, by the board's clock.
    async fn deadline(&self) -> Result<Option<Instant>, Error> {
        let Some(limit) = self.run.max_runtime else { return Ok(None) };
        let now = self.board.read().await?.now();
        let left = limit.saturating_sub(self.run.started_at.until(now));
        Ok(Instant::now().checked_add(left))
    }

    /// Records on the board how the run ended.
    async fn report(&self, resolution: Resolution) -> WorkerReport {
        let exit = resolution.exit();
        let reason = self.redactor.redact(resolution.reason()).into_owned();
        let board = &self.board;
        let recorded = match resolution {
            Resolution::End(outcome, _) => {
                let exit_code = Some(i32::from(exit.code()));
                let end = RunEnd { outcome, error: reason.clone(), exit_code };
                board.end_run(self.run.id, end, &self.failures).await.map(drop)
            }
            Resolution::Block(kind, _) => {
                let by = Authority::Worker(self.fence.clone());
                let block = Block { reason: reason.clone(), kind: Some(kind) };
                board.block(&by, &self.task.id, block).await.map(drop)
            }
        };
        match recorded {
            Ok(()) => WorkerReport::new(exit, Some(reason)),
            Err(Error::Fenced { .. } | Error::NotFound { .. }) => lost(self.run.id, &self.task.id),
            Err(error) => WorkerReport::new(
                exit,
                Some(format!("{reason}; the board could not be updated: {error}")),
            ),
        }
    }

    /// Waits until the worker has to stop.
    async fn until_stop(&self, deadline: Option<Instant>, signals: &mut Terminations) -> StopCause {
        tokio::select! {
            biased;
            signal = signals.next() => StopCause::Signal(signal),
            () = self.lease_lost() => StopCause::Lost,
            () = until(deadline) => StopCause::TimedOut,
        }
    }

    /// Renews the lease until it is lost.
    async fn lease_lost(&self) {
        let third = (self.lease / 3).max(Duration::from_millis(100));
        let mut ticks = tokio::time::interval(third.min(ACTIVITY));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut renewed: Option<Instant> = None;
        let mut recorded: Option<Instant> = None;
        let mut failing = false;
        loop {
            ticks.tick().await;
            let due = |since: Option<Instant>, after: Duration| {
                since.is_none_or(|since| since.elapsed() >= after)
            };
            let active = due(recorded, ACTIVITY) && self.activity.take();
            if !active && !due(renewed, third) {
                continue;
            }
            let beat = Heartbeat { lease: self.lease, activity: active, note: None };
            match self.board.heartbeat(&self.fence, beat).await {
                Ok(_) => {
                    renewed = Some(Instant::now());
                    if active {
                        recorded = renewed;
                    }
                    failing = false;
                }
                Err(Error::Fenced { .. } | Error::NotFound { .. }) => return,
                Err(error) => {
                    // The worker holds the task until another takes it, so the work and the
                    // renewals continue.
                    if !std::mem::replace(&mut failing, true) {
                        self.log.write(&format!("warning: the lease was not renewed: {error}"));
                    }
                    if active {
                        self.activity.note();
                    }
                }
            }
        }
    }
}

fn lost(run: RunId, task: &TaskId) -> WorkerReport {
    WorkerReport::new(WorkerExit::Lost, Some(format!("run {run} does not hold {task} any more")))
}

/// Returns the task and the run, if that is the one that holds it.
async fn held(parts: &WorkerParts, profile: &ProfileName) -> Result<Option<(Task, Run)>, Error> {
    let mut read = parts.board.read().await?;
    let (Some(task), Some(run)) = (read.task(&parts.task).await?, read.run(parts.run).await?)
    else {
        return Ok(None);
    };
    let is_mine = task.current_run == Some(run.id)
        && run.task_id == task.id
        && run.is_open()
        && run.profile.as_ref() == Some(profile);
    Ok(is_mine.then_some((task, run)))
}

fn in_words(stop: StopCause) -> &'static str {
    match stop {
        StopCause::Signal(_) => "received a signal",
        StopCause::Lost => "another run holds the task",
        StopCause::TimedOut => "its time is up",
    }
}

/// How often activity is recorded, at most.
const ACTIVITY: Duration = Duration::from_mins(1);

/// Why a worker has to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StopCause {
    /// It received a signal.
    Signal(Termination),
    /// Another run holds its task.
    Lost,
    /// It took too long.
    TimedOut,
}

/// Whether anything happened since the last heartbeat. Clones share the flag.
#[derive(Debug, Clone, Default)]
pub(crate) struct ActivityFlag(Arc<AtomicBool>);

impl ActivityFlag {
    pub(crate) fn note(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
