//! Keeps a conversation within the model's context: what is long past gives way
//! to a summary, the rest stays word for word.

mod cut;
mod estimate;
mod summary;

pub(crate) use cut::cut;
pub(crate) use estimate::{tokens, tokens_of};
pub(crate) use summary::{
    Room, SUMMARY_INSTRUCTIONS, as_message, clipped, from_what_is_known, transcript,
};

/// When and how far conversations are compressed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Compression {
    /// Whether they are.
    pub enabled: bool,
    /// The part of the model's context above which they are.
    pub threshold: f64,
    /// The part of that threshold that the last messages may take.
    pub target_ratio: f64,
    /// Messages at the beginning that the summary quotes word for word.
    pub protect_first: usize,
    /// Messages at the end that stay, unless they are too long.
    pub protect_last: usize,
}

impl Default for Compression {
    fn default() -> Self {
        Self {
            enabled: true,
            threshold: 0.5,
            target_ratio: 0.2,
            protect_first: 3,
            protect_last: 20,
        }
    }
}

impl Compression {
    /// Returns the tokens above which a request is too long. `fixed` are those
    /// that every request has, for instructions and tools: no summary makes them
    /// fewer, so the threshold is a part of what they leave.
    pub(crate) fn ceiling(&self, context_length: u64, fixed: u64) -> u64 {
        fixed + scaled(context_length.saturating_sub(fixed), self.threshold)
    }

    /// Returns the tokens that the last messages may take.
    pub(crate) fn tail_budget(&self, context_length: u64) -> u64 {
        scaled(scaled(context_length, self.threshold), self.target_ratio.max(0.05))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a part of a number of tokens; nobody needs the last one"
)]
fn scaled(tokens: u64, part: f64) -> u64 {
    (tokens as f64 * part) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_request_has_does_not_use_up_the_threshold_of_a_small_model() {
        let compression = Compression { threshold: 0.5, ..Compression::default() };
        assert_eq!(compression.ceiling(200_000, 0), 100_000);
        assert_eq!(compression.ceiling(8_000, 4_200), 4_200 + 1_900);
        assert_eq!(compression.ceiling(4_000, 4_200), 4_200);
    }
}
