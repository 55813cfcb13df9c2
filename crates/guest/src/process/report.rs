//! What a supervisor tells of its job.

use std::os::fd::OwnedFd;

use minicbor::{Decode, Encode};

/// A step of starting a command that can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum FailedStep {
    /// Changing to the directory it was to start in.
    #[n(0)]
    Chdir,
    /// Executing the program or shell.
    #[n(1)]
    Exec,
    /// Forking.
    #[n(2)]
    Fork,
    /// Anything before that.
    #[n(3)]
    Setup,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum WaitStatus {
    /// By itself, with this code.
    #[n(0)]
    Exited(#[n(0)] u8),
    /// By this signal.
    #[n(1)]
    Signaled(#[n(0)] i32),
}

/// News of a launch, in this order: `Started`, `Ended`, `Left` (any number of
/// times, also none), `Empty`; or `Failed`, `Empty`.
#[derive(Debug)]
pub enum Report {
    /// The program runs.
    Started {
        /// Its process id.
        pid: u32,
        /// Its start time in clock ticks since boot.
        pid_start: u64,
    },
    /// The program could not be started.
    Failed {
        /// What failed.
        step: FailedStep,
        /// The operating system's error number.
        errno: i32,
    },
    /// The shell or program has ended.
    Ended {
        /// How.
        status: WaitStatus,
        /// The complete dump of the state a session's shell ended with, for
        /// [`crate::session::SavedSession::harvest`]; the offset is at its start.
        /// Absent when none was wanted or the shell was killed or replaced by
        /// `exec`: the session is as it was. There is no earlier word of the
        /// exit code: a shell that dies of a signal runs its EXIT trap first and
        /// would there report the code of some command before.
        state: Option<OwnedFd>,
    },
    /// The shell has ended, and this many processes it started live on.
    Left {
        /// How many.
        processes: u32,
    },
    /// No process of the job is left. The supervisor is ready for another launch.
    Empty,
}
