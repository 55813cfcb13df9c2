//! Why a server cannot be used.

use std::time::Duration;

/// Why a server cannot be used. What it says is for people and for the model:
/// it names what is wrong and what to do, and no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// The settings ask for what cannot be done. Trying again would not help.
    #[error("{0}")]
    Settings(String),
    /// Its program is nowhere.
    #[error("{0}")]
    NotFound(String),
    /// Its program could not be started, or ended, or did not answer as it should.
    #[error("{0}")]
    Failed(String),
    /// It did not answer in time.
    #[error("it did not answer within {} s{hint}", .within.as_secs())]
    Late {
        /// How long it had.
        within: Duration,
        /// What is known besides.
        hint: String,
    },
    /// It wants to know who asks.
    #[error("{0}")]
    Unauthorized(String),
}

impl Trouble {
    /// Reports whether trying again later may help.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Settings(_) | Self::NotFound(_) | Self::Unauthorized(_) => false,
            Self::Failed(_) | Self::Late { .. } => true,
        }
    }
}
