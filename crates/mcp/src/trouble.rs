//! Why a server cannot be used.

use std::time::Duration;

use vestal_agent::redact::Redactor;

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
    /// Returns the same with what is known besides, if that may explain it.
    pub(crate) fn with(self, words: &str) -> Self {
        match self {
            Self::Failed(text) => Self::Failed(text + words),
            Self::Late { within, hint } => Self::Late { within, hint: hint + words },
            other => other,
        }
    }

    /// Returns the same without the secrets in it: much of it may be a server's own words.
    pub(crate) fn masked(self, redactor: &Redactor) -> Self {
        let masked = |text: String| redactor.redact(&text).into_owned();
        match self {
            Self::Settings(text) => Self::Settings(masked(text)),
            Self::NotFound(text) => Self::NotFound(masked(text)),
            Self::Failed(text) => Self::Failed(masked(text)),
            Self::Late { within, hint } => Self::Late { within, hint: masked(hint) },
            Self::Unauthorized(text) => Self::Unauthorized(masked(text)),
        }
    }

    /// Reports whether trying again later may help.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Settings(_) | Self::NotFound(_) | Self::Unauthorized(_) => false,
            Self::Failed(_) | Self::Late { .. } => true,
        }
    }
}
