//! What a call took.

use serde::{Deserialize, Serialize};

/// Tokens of a call, or of several together, as the provider counted them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens read, those from the provider's cache not included.
    pub input: u64,
    /// Tokens written, reasoning included.
    pub output: u64,
    /// Tokens read from the provider's cache.
    #[serde(default)]
    pub cache_read: u64,
    /// Tokens written to the provider's cache.
    #[serde(default)]
    pub cache_write: u64,
    /// Of those written, what was reasoning.
    #[serde(default)]
    pub reasoning: u64,
}

impl Usage {
    /// Returns all tokens the model had to read.
    pub const fn prompt(&self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }

    /// Returns all tokens, read and written.
    pub const fn total(&self) -> u64 {
        self.prompt().saturating_add(self.output)
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.reasoning = self.reasoning.saturating_add(other.reasoning);
    }
}

/// What a call cost, and who says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Cost {
    /// Nobody knows: the provider does not say and no price is configured.
    Unknown,
    /// Known, in millionths of a US dollar.
    Known {
        /// The amount.
        micro_usd: u64,
        /// Who says so.
        source: CostSource,
    },
}

/// Who says what a call cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostSource {
    /// The provider, with its answer.
    Provider,
    /// The configured prices.
    Prices,
}
