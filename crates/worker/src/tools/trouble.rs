//! Why a call came to nothing, in words for the model.

use vestal_agent::ToolOutput;
use vestal_agent::tools::BadArgument;
use vestal_board::Error;

/// Why a call came to nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// An argument cannot be used.
    #[error("{0}")]
    Argument(BadArgument),
    /// The board refused, or failed.
    #[error(transparent)]
    Board(#[from] Error),
    /// Something else.
    #[error("{0}")]
    Other(String),
}

impl From<BadArgument> for Trouble {
    fn from(bad: BadArgument) -> Self {
        Self::Argument(bad)
    }
}

impl From<String> for Trouble {
    fn from(words: String) -> Self {
        Self::Other(words)
    }
}

impl From<&str> for Trouble {
    fn from(words: &str) -> Self {
        Self::Other(words.to_owned())
    }
}

impl From<Trouble> for ToolOutput {
    fn from(trouble: Trouble) -> Self {
        Self::error(trouble.to_string())
    }
}
