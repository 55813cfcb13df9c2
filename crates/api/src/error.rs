//! What went wrong, for programs.

use serde::{Deserialize, Serialize};

/// Why something was not done, and what to do about it: what a verb that was given `--json` prints when it fails.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorView {
    /// What to do next.
    pub advice: Vec<String>,
    /// What happened.
    pub error: String,
}

/// One of several tasks that something was asked for and not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskErrorView {
    /// What to do next.
    pub advice: Vec<String>,
    /// What happened; null if the reader of the output is gone.
    pub error: Option<String>,
    /// The task.
    pub task: String,
}
