//! The result of a turn.

use std::time::Duration;

use serde::Serialize;
use vestal_conversations::ConversationId;
use vestal_model::{Cost, CostSource, ModelError, TokenUsage};

/// How a turn ended.
#[derive(Debug)]
pub enum TurnOutcome {
    /// The model answered.
    Completed,
    /// The model was stopped at the limit of its calls; its last words are a
    /// summary of where things stand.
    BudgetExhausted,
    /// The turn was interrupted.
    Interrupted,
    /// The provider refused to continue with this conversation.
    Refused,
    /// The model repeated itself and was stopped.
    Looping {
        /// How it showed.
        reason: String,
    },
    /// The turn could not be carried on.
    Failed(TurnError),
}

/// Why a turn could not be carried on. Everything said until then is stored.
#[derive(Debug, thiserror::Error)]
pub enum TurnError {
    /// No provider gave an answer.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The model said nothing, several times over.
    #[error("the model {model} gave an empty answer {times} times")]
    Empty {
        /// The model.
        model: String,
        /// How often.
        times: u32,
    },
    /// The conversation is too long and cannot be made shorter.
    #[error(
        "the conversation does not fit into the model's context even when summarised and with shortened results: {0}"
    )]
    TooLong(String),
    /// What was said could not be stored.
    #[error("failed to store the conversation: {0}")]
    Store(#[from] vestal_conversations::Error),
}

impl TurnOutcome {
    /// Returns it in a word, which is a public name.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::BudgetExhausted => "budget_exhausted",
            Self::Interrupted => "interrupted",
            Self::Refused => "refused",
            Self::Looping { .. } => "looping",
            Self::Failed(_) => "failed",
        }
    }

    /// Reports whether the model ended the turn by itself.
    pub const fn is_completed(&self) -> bool {
        matches!(self, Self::Completed)
    }

    /// Returns what went wrong, as text.
    pub fn error(&self) -> Option<String> {
        match self {
            Self::Completed | Self::Interrupted => None,
            Self::BudgetExhausted => Some("the limit of model calls was reached".to_owned()),
            Self::Refused => Some("the provider refused to answer".to_owned()),
            Self::Looping { reason } => Some(reason.clone()),
            Self::Failed(error) => Some(error.to_string()),
        }
    }
}

/// The result of a turn, and what it used.
#[derive(Debug)]
pub struct TurnResult {
    /// The conversation.
    pub conversation: ConversationId,
    /// How it ended.
    pub outcome: TurnOutcome,
    /// The last answer of the model; of an interrupted or failed turn, as far as it came.
    pub text: String,
    /// What it thought before that, as far as it may be shown.
    pub reasoning: String,
    /// Calls of the model.
    pub model_calls: u32,
    /// Calls of tools.
    pub tool_calls: u32,
    /// Tokens of all calls together, children's not included.
    pub usage: TokenUsage,
    /// What they cost.
    pub cost: CostSum,
    /// The provider that answered last.
    pub provider: String,
    /// The model that answered last.
    pub model: String,
    /// Tokens of the last request, as the provider counted them.
    pub last_prompt_tokens: u64,
    /// What was said to steer the turn and came too late for it.
    pub pending_steer: Vec<String>,
    /// How long it took.
    pub took: Duration,
}

/// What several calls cost together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CostSum {
    /// What is known, in millionths of a US dollar.
    pub micro_usd: u64,
    /// Calls whose cost nobody knows.
    pub unknown_calls: u32,
    /// Whether configured prices, not the provider's word, are in it.
    pub estimated: bool,
}

impl CostSum {
    pub(crate) fn add(&mut self, cost: Cost) {
        match cost {
            Cost::Unknown => self.unknown_calls += 1,
            Cost::Known { micro_usd, source } => {
                self.micro_usd = self.micro_usd.saturating_add(micro_usd);
                self.estimated |= source == CostSource::Prices;
            }
        }
    }
}
