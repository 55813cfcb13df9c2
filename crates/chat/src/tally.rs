//! What the calls of the model took, as far as this chat has seen them.

use vestal_model::Cost;

/// What the calls of the model took.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Tokens of the last request and its answer.
    pub(crate) used: u64,
    /// The model that answered last.
    pub(crate) model: Option<String>,
    pub(crate) micro_usd: u64,
    pub(crate) known_calls: u32,
    pub(crate) unknown_calls: u32,
}

impl Tally {
    /// Counts what a call cost.
    pub(crate) fn pay(&mut self, cost: Cost) {
        match cost {
            Cost::Unknown => self.unknown_calls += 1,
            Cost::Known { micro_usd, .. } => {
                self.known_calls += 1;
                self.micro_usd = self.micro_usd.saturating_add(micro_usd);
            }
        }
    }
}
