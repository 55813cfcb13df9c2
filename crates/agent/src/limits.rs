//! How much of anything is too much.

use std::time::Duration;

/// Limits that the settings name. [`crate::settings`] reads them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Time a command may take in the foreground.
    pub command_timeout: Duration,
    /// Bytes of a command's output that the model gets.
    pub output_bytes: usize,
    /// Lines of a file that the model gets at once.
    pub output_lines: usize,
    /// Characters of a line that the model gets.
    pub line_length: usize,
    /// Time a script of the model's may take.
    pub code_timeout: Duration,
    /// Tool calls such a script may make.
    pub code_tool_calls: u32,
    /// Time a person has to answer a question.
    pub clarify_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            command_timeout: Duration::from_mins(3),
            output_bytes: 50_000,
            output_lines: 2_000,
            line_length: 2_000,
            code_timeout: Duration::from_mins(5),
            code_tool_calls: 50,
            clarify_timeout: Duration::from_hours(1),
        }
    }
}
