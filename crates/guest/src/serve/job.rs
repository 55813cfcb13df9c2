//! A job as the event loop keeps it.

use std::os::fd::OwnedFd;
use std::time::Instant;

use vestal_wire::{EnvVar, Exit, JobInfo, JobState, StartJob};

use super::follower::Follower;
use super::ids::{Address, SupervisorId};
use super::stdin::Stdin;
use super::timers::TimerId;
use crate::log::{JobLog, LogStream};
use crate::process::LaunchCommand;

/// A job on record.
#[derive(Debug)]
pub(super) struct Job {
    /// What is known of it, except for what [`Job::info`] adds.
    pub(super) record: JobInfo,
    pub(super) log: JobLog,
    pub(super) followers: Vec<Follower>,
    pub(super) watchers: Vec<Watcher>,
    /// What it needs until it is over: processes, pipes, a session to save.
    pub(super) live: Option<Box<Live>>,
    /// Whether it is among those to be pumped.
    pub(super) queued: bool,
}

/// A caller that waits for something of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Watcher {
    pub(super) to: Address,
    pub(super) awaits: Awaits,
}

/// What a watcher waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Awaits {
    /// The shell has ended and the session is settled.
    End,
    /// No process is left.
    Gone,
}

/// Where a job is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Its session is being saved by the command before.
    Waiting,
    /// A supervisor has been told to start it.
    Launching,
    /// The shell runs.
    Running,
    /// The exit code is known; the session's state is about to be saved.
    Saving,
    /// The shell has ended and the session is settled.
    Settled,
}

/// Who had a job killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Killer {
    Timeout,
    Caller,
}

/// What a job needs until it is over.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) phase: Phase,
    pub(super) began: Instant,
    /// How to launch it; gone when it has started.
    pub(super) plan: Option<Box<Plan>>,
    /// The environments that the session's state is compared with.
    pub(super) environs: Option<Box<Environs>>,
    pub(super) supervisor: Option<SupervisorId>,
    /// Where its output comes from.
    pub(super) outlets: [Option<Outlet>; 2],
    pub(super) stdin: Stdin,
    pub(super) timeout: Option<TimerId>,
    pub(super) killer: Option<Killer>,
    /// Its turn in its session, if it is to be saved.
    pub(super) turn: Option<u64>,
    /// How many bytes the streams had when the shell ended, as far as known.
    pub(super) ends: [Option<u64>; 2],
    /// Bytes a terminal may still hold from before the shell's end.
    pub(super) terminal_rest: Option<usize>,
    /// The session's directory, where the command was given one of its own:
    /// that is for this command only.
    pub(super) session_dir: Option<Vec<u8>>,
    /// The state its shell left.
    pub(super) dump: Option<OwnedFd>,
    /// Its supervisor died; what it left is being killed.
    pub(super) orphaned: bool,
}

/// How to launch a job.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) start: StartJob,
    pub(super) command: LaunchCommand,
    /// Directories to try when the session's own is gone.
    pub(super) fallbacks: Vec<Vec<u8>>,
    /// The session's directory that is gone.
    pub(super) vanished: Option<Vec<u8>>,
}

/// Environments of a launch.
#[derive(Debug)]
pub(super) struct Environs {
    pub(super) base: Vec<EnvVar>,
    pub(super) job: Vec<EnvVar>,
}

/// Our end of a pipe or terminal that a job writes to.
#[derive(Debug)]
pub(super) struct Outlet {
    pub(super) fd: OwnedFd,
    /// Whether the poller watches it.
    pub(super) watched: bool,
    pub(super) kind: OutletKind,
}

/// What an outlet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutletKind {
    /// A pipe of the usual size.
    Pipe,
    /// A pipe that was made larger, or could not be.
    LargePipe,
    Terminal,
}

impl Job {
    pub(super) const fn new(record: JobInfo, log: JobLog, live: Option<Box<Live>>) -> Self {
        Self { record, log, followers: Vec::new(), watchers: Vec::new(), live, queued: false }
    }

    /// Returns what is known of the job now.
    pub(super) fn info(&self) -> JobInfo {
        let [stdout, stderr] = LogStream::ALL.map(|stream| self.log.stream(stream));
        JobInfo {
            stdout_bytes: stdout.total(),
            stderr_bytes: stderr.total(),
            stdout_omitted: stdout.omitted(),
            stderr_omitted: stderr.omitted(),
            stdin_open: self.live.as_ref().is_some_and(|live| live.stdin.is_open()),
            ..self.record.clone()
        }
    }

    /// Returns how the job ended, if it has.
    pub(super) const fn exit(&self) -> Option<Exit> {
        match self.record.state {
            JobState::Ended(exit) => Some(exit),
            JobState::Starting | JobState::Running => None,
        }
    }

    /// Returns where the streams end for those who follow the job to its end, if
    /// that is known.
    pub(super) fn ends(&self) -> Option<[u64; 2]> {
        self.exit()?;
        let [stdout, stderr] = LogStream::ALL.map(|stream| {
            let total = self.log.stream(stream).total();
            match &self.live {
                Some(live) => live.ends[stream.index()].map(|end| end.max(total)),
                None => Some(total),
            }
        });
        Some([stdout?, stderr?])
    }

    /// Returns whether the shell has ended and the session is settled.
    pub(super) fn is_settled(&self) -> bool {
        self.live.as_ref().is_none_or(|live| live.phase == Phase::Settled)
    }

    /// Returns whether no process of the job can be left.
    pub(super) fn is_gone(&self) -> bool {
        let bare = |live: &Live| live.supervisor.is_none() && !live.orphaned;
        self.is_settled() && self.live.as_deref().is_none_or(bare)
    }

    /// Returns whether nothing can happen to the job any more.
    pub(super) fn is_over(&self) -> bool {
        self.is_gone()
            && self.live.as_ref().is_none_or(|live| live.outlets.iter().all(Option::is_none))
    }

    /// Returns whether it could be forgotten.
    pub(super) fn is_forgettable(&self) -> bool {
        self.live.is_none() && self.followers.is_empty() && self.watchers.is_empty()
    }
}

impl Live {
    /// Returns the state of a job that has not been launched.
    pub(super) fn new(plan: Box<Plan>) -> Self {
        let reads = plan.start.pty.is_some() || plan.start.stdin == vestal_wire::Stdin::Piped;
        let stdin = if reads { Stdin::planned() } else { Stdin::closed() };
        Self {
            phase: Phase::Waiting,
            began: Instant::now(),
            plan: Some(plan),
            environs: None,
            supervisor: None,
            outlets: [None, None],
            stdin,
            timeout: None,
            killer: None,
            turn: None,
            ends: [None, None],
            terminal_rest: None,
            session_dir: None,
            dump: None,
            orphaned: false,
        }
    }
}
