//! What a guard decides.

/// It may be done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Clearance {
    /// What a person said to it, for the result; none if nobody was asked.
    pub approved_by_person: Option<String>,
}

/// It may not be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// Who refused.
    pub status: RefusalStatus,
    /// What the model reads: what happened, and what to do instead.
    pub message: String,
}

/// Who refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalStatus {
    /// A rule that no approval lifts.
    Blocked,
    /// A person, by word or by silence.
    Denied,
    /// Nobody: there was no one to ask.
    Unattended,
}

impl RefusalStatus {
    /// Returns the word for it that results carry.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Denied => "denied",
            Self::Unattended => "unattended",
        }
    }
}
