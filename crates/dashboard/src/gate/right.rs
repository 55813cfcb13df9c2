//! Who somebody is, and what a route asks of them.

use serde::{Deserialize, Serialize};

/// What a route asks of a caller. Each includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Right {
    /// Everybody who reaches the server. Such a route tells nothing about the home.
    Public,
    /// Somebody who has logged in: reads.
    Viewer,
    /// Somebody who may change something.
    Operator,
}

impl Right {
    /// Returns the word that is stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Viewer => "viewer",
            Self::Operator => "operator",
        }
    }

    /// Reads a stored word. An unknown one gives no right at all.
    pub(crate) fn of_word(word: &str) -> Self {
        match word {
            "operator" => Self::Operator,
            "viewer" => Self::Viewer,
            _ => Self::Public,
        }
    }
}

/// Somebody whom the gate has let in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Principal {
    /// The name that the audit log has.
    pub name: String,
    /// What they may do.
    pub right: Right,
    /// How they came in: `link`, `password`, `proxy` or `insecure`.
    pub method: &'static str,
}
