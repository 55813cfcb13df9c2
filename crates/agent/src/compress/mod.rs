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
    /// Returns the tokens above which a conversation is compressed.
    pub(crate) fn ceiling(&self, context_length: u64) -> u64 {
        scaled(context_length, self.threshold)
    }

    /// Returns the tokens that the last messages may take.
    pub(crate) fn tail_budget(&self, context_length: u64) -> u64 {
        scaled(self.ceiling(context_length), self.target_ratio.max(0.05))
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
