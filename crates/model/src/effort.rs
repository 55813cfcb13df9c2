//! How much a model thinks before it answers.

use serde::{Deserialize, Serialize};

/// How much a model thinks, in the words that providers use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReasoningEffort {
    /// Not at all.
    None,
    /// As little as it can.
    Minimal,
    /// A little.
    Low,
    /// As much as most tasks need.
    Medium,
    /// Much.
    High,
    /// As much as it can.
    XHigh,
}

impl ReasoningEffort {
    /// All of them, the least first.
    pub const ALL: [Self; 6] =
        [Self::None, Self::Minimal, Self::Low, Self::Medium, Self::High, Self::XHigh];

    /// Returns the word for it, the same in settings, commands and requests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::XHigh => "xhigh",
        }
    }

    /// Returns the effort that a word stands for.
    pub fn from_word(word: &str) -> Option<Self> {
        let word = word.trim();
        Self::ALL.into_iter().find(|effort| word.eq_ignore_ascii_case(effort.as_str()))
    }

    /// Returns the tokens it stands for where an API wants a number; none where
    /// the model shall not think.
    pub(crate) const fn budget(self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Minimal => Some(1024),
            Self::Low => Some(4096),
            Self::Medium => Some(10_240),
            Self::High => Some(24_576),
            Self::XHigh => Some(49_152),
        }
    }
}

impl std::fmt::Display for ReasoningEffort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How much a model thinks; what is not said is left to the provider.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReasoningOptions {
    /// In a word. Where an API wants a number of tokens, it is the number that
    /// is usual for the word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<ReasoningEffort>,
    /// Tokens that it may think with. It counts before the word where an API
    /// takes a number, and for nothing where it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_tokens: Option<u64>,
}

impl ReasoningOptions {
    /// Leaves it to the provider.
    pub const AUTO: Self = Self { effort: None, budget_tokens: None };

    /// Returns options with a word and without a number.
    pub const fn effort(effort: ReasoningEffort) -> Self {
        Self { effort: Some(effort), budget_tokens: None }
    }

    /// Reports whether anything is said at all.
    pub const fn is_auto(self) -> bool {
        self.effort.is_none() && self.budget_tokens.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_stands_for_itself_in_every_place() {
        for effort in ReasoningEffort::ALL {
            assert_eq!(ReasoningEffort::from_word(effort.as_str()), Some(effort));
            assert_eq!(serde_json::to_value(effort).unwrap(), effort.as_str());
        }
        assert_eq!(ReasoningEffort::from_word(" High "), Some(ReasoningEffort::High));
        assert_eq!(ReasoningEffort::from_word("much"), None);
        let budgets = ReasoningEffort::ALL.map(ReasoningEffort::budget);
        assert!(budgets.is_sorted(), "{budgets:?}");
    }
}
