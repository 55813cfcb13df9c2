//! How a worker ends.

/// How a worker ended. The board knows it already; the exit code tells whoever
/// started the worker the same, in case that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The task is done, or waits to be looked at, or was looked at.
    Done,
    /// The task is blocked or put off.
    Waiting,
    /// The worker itself failed.
    Failed,
    /// The model's provider lets it do no more for now.
    Quota,
    /// The model ended without a word about the task.
    NoReport,
    /// Somebody else holds the task.
    Lost,
    /// It took too long.
    TimedOut,
    /// A signal asked it to end.
    Terminated,
}

impl Ending {
    /// Returns the exit code, which is a public name.
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Waiting => 10,
            Self::Failed => 70,
            Self::Quota => 75,
            Self::NoReport => 76,
            Self::Lost => 77,
            Self::TimedOut => 124,
            Self::Terminated => 143,
        }
    }
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Done => "done",
            Self::Waiting => "waiting",
            Self::Failed => "failed",
            Self::Quota => "out of quota",
            Self::NoReport => "no report",
            Self::Lost => "lost its task",
            Self::TimedOut => "out of time",
            Self::Terminated => "told to end",
        })
    }
}

/// How a worker ended, and what there is to say about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// How.
    pub ending: Ending,
    /// What went wrong, where something did.
    pub trouble: Option<String>,
}
