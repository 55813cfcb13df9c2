//! Limits of times, outputs and results.

use std::sync::Arc;
use std::time::Duration;

/// Bytes of a result that go into the conversation, at most.
pub(crate) const RESULT_BYTES: usize = 100_000;

/// The part of a model's context that one result may take, as a divisor.
const RESULT_SHARE: u64 = 7;

/// The part that all results of one answer may take, as a divisor.
const ANSWER_SHARE: u64 = 2;

/// Bytes of a result that are worth having.
pub(crate) const LEAST_RESULT: usize = 500;

/// Bytes that make a token, roughly.
const BYTES_PER_TOKEN: u64 = 4;

/// Limits that the settings name. [`crate::settings`] reads them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolLimits {
    /// Time a command may take in the foreground.
    pub command_timeout: Duration,
    /// Bytes of a command's output that the model gets.
    pub output_bytes: usize,
    /// Lines of a file that the model gets at once.
    pub output_lines: usize,
    /// Characters of a line that the model gets.
    pub line_length: usize,
    /// Bytes of any one result that go into the conversation. In a turn it is
    /// less where the model's context is small.
    pub result_bytes: usize,
    /// Time a script of the model's may take.
    pub code_timeout: Duration,
    /// Tool calls such a script may make.
    pub code_tool_calls: u32,
    /// Time a person has to answer a question.
    pub clarify_timeout: Duration,
}

impl ToolLimits {
    /// Returns the limits of one of `calls` calls of an answer, where the model
    /// holds so many tokens, if anybody has said.
    #[must_use]
    pub(crate) fn within(self: &Arc<Self>, context: Option<u64>, calls: usize) -> Arc<Self> {
        let Some(context) = context else { return Arc::clone(self) };
        let calls = u64::try_from(calls.max(1)).unwrap_or(u64::MAX);
        let tokens = (context / RESULT_SHARE).min(context / ANSWER_SHARE / calls);
        let bytes = usize::try_from(tokens.saturating_mul(BYTES_PER_TOKEN)).unwrap_or(usize::MAX);
        let bytes = bytes.max(LEAST_RESULT);
        if bytes >= self.result_bytes {
            return Arc::clone(self);
        }
        Arc::new(Self { result_bytes: bytes, ..Self::clone(self) })
    }
}

impl Default for ToolLimits {
    fn default() -> Self {
        Self {
            command_timeout: Duration::from_mins(3),
            output_bytes: 50_000,
            output_lines: 2_000,
            line_length: 2_000,
            result_bytes: RESULT_BYTES,
            code_timeout: Duration::from_mins(5),
            code_tool_calls: 50,
            clarify_timeout: Duration::from_hours(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_takes_a_small_part_of_the_context_and_all_of_an_answer_half() {
        let limits = Arc::new(ToolLimits::default());
        let bytes = |context, calls| limits.within(context, calls).result_bytes;
        assert_eq!(bytes(None, 9), 100_000);
        assert_eq!(bytes(Some(1_000_000), 1), 100_000);
        assert_eq!(bytes(Some(8_000), 1), 8_000 / 7 * 4);
        assert_eq!(bytes(Some(8_000), 3), 8_000 / 7 * 4);
        assert_eq!(bytes(Some(8_000), 10), 400 * 4);
        assert_eq!(bytes(Some(8_000), 1_000), 500);
    }
}
