//! Exit codes.

use std::io;
use std::process::ExitCode;

use vestal_runtime::{SignalListeners, Termination, Terminations};
use vestal_worker::WorkerExit;

use crate::error::CommandFailure;

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All went well.
    Success,
    /// It worked, and what was asked about is not in order, or was declined.
    No,
    /// The command line makes no sense.
    Usage,
    /// No model provider gave an answer.
    Provider,
    /// The agent was stopped before it was done: by its budget, or because it
    /// went round in circles.
    Stopped,
    /// The model provider refused to answer.
    Refused,
    /// The time given was up.
    TimedOut,
    /// Vestal itself failed.
    Failed,
    /// The directory for the command is not there.
    NoWorkdir,
    /// The reader of the output is gone.
    BrokenPipe,
    /// A signal asked the program to end.
    Terminated(Termination),
    /// The exit code of a command in a sandbox.
    Command(u8),
    /// How a worker of the board ended.
    Worker(WorkerExit),
    /// A gateway wants to be started again.
    Restart,
    /// A gateway cannot start before something is changed.
    Permanent,
}

impl Exit {
    /// Returns the number the caller sees.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::No => 1,
            Self::Usage => 2,
            Self::Provider => 3,
            Self::Stopped => 4,
            Self::Refused => 5,
            Self::TimedOut => 124,
            Self::Failed => 125,
            Self::NoWorkdir => 126,
            // What a shell reports for a writer that SIGPIPE ended.
            Self::BrokenPipe => 141,
            Self::Terminated(signal) => 128 + signal.number(),
            Self::Command(code) => code,
            Self::Worker(exit) => exit.code(),
            Self::Restart => 75,
            Self::Permanent => 78,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}

/// Everybody in this program who listens, so that the console knows whether a signal is its own to
/// obey.
static LISTENERS: SignalListeners = SignalListeners::new();

/// Begins to listen. The signals no longer end the program by themselves.
pub(crate) fn listen() -> io::Result<Terminations> {
    LISTENERS.listen()
}

/// As [`listen`], for a command that cannot do without.
pub(crate) fn listen_or_fail() -> Result<Terminations, CommandFailure> {
    listen().map_err(|error| CommandFailure::io("listen for signals", &error))
}
