//! Turns of a conversation with the agent: what `chat --json` prints.

use serde::{Deserialize, Serialize};
use vestal_agent::{CostSum, TurnError, TurnOutcome, TurnResult};

use crate::ErrorView;

/// How a turn ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnExitReason {
    /// The model answered.
    Completed,
    /// The limit of model calls was reached.
    BudgetExhausted,
    /// A person interrupted it.
    Interrupted,
    /// The provider refused to answer.
    Refused,
    /// The model went round in circles.
    Looping,
    /// The turn could not be carried on, or never began.
    #[default]
    Failed,
}

impl From<&TurnOutcome> for TurnExitReason {
    fn from(outcome: &TurnOutcome) -> Self {
        match outcome {
            TurnOutcome::Completed => Self::Completed,
            TurnOutcome::BudgetExhausted => Self::BudgetExhausted,
            TurnOutcome::Interrupted => Self::Interrupted,
            TurnOutcome::Refused => Self::Refused,
            TurnOutcome::Looping { .. } => Self::Looping,
            TurnOutcome::Failed(_) => Self::Failed,
        }
    }
}

/// How much is known of a cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostStatus {
    /// The provider said it.
    Known,
    /// It was reckoned with configured prices.
    Estimated,
    /// Some calls have no known cost.
    Partial,
    /// It is unknown.
    #[default]
    Unknown,
}

/// Where a cost comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostOrigin {
    /// The provider said it.
    Provider,
    /// Configured prices.
    Prices,
}

/// What calls cost, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KnownCost {
    /// In US dollars; null if unknown.
    pub usd: Option<f64>,
    /// How much is known.
    pub status: CostStatus,
    /// Where it comes from.
    pub source: Option<CostOrigin>,
}

impl KnownCost {
    /// Returns what calls cost together; without an answer nothing is known.
    pub fn new(sum: CostSum, answered: bool) -> Self {
        let usd = Some(dollars(sum.micro_usd));
        let source = Some(if sum.estimated { CostOrigin::Prices } else { CostOrigin::Provider });
        let known = if sum.estimated { CostStatus::Estimated } else { CostStatus::Known };
        match (answered, sum.unknown_calls, sum.micro_usd) {
            (true, 0, _) => Self { usd, status: known, source },
            (true, _, 1..) => Self { usd, status: CostStatus::Partial, source },
            _ => Self { usd: None, status: CostStatus::Unknown, source: None },
        }
    }
}

/// Returns millionths of a dollar as dollars.
#[expect(clippy::cast_precision_loss, reason = "exact up to nine billion dollars")]
pub fn dollars(micro_usd: u64) -> f64 {
    micro_usd as f64 / 1e6
}

/// One turn and what came of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a member of a public interface")]
pub struct TurnView {
    /// The conversation; null of a turn that never began.
    pub conversation: Option<String>,
    /// The same under the name that other agents' scripts know.
    pub session_id: Option<String>,
    /// What the model said last; null of a turn that failed, which has no answer.
    pub final_response: Option<String>,
    /// What it thought before that, as far as it may be shown.
    pub last_reasoning: Option<String>,
    /// Calls of the model.
    pub api_calls: u32,
    /// Calls of tools.
    pub tool_calls: u32,
    /// Whether the model came to its end by itself.
    pub completed: bool,
    /// Whether the turn could not be carried on.
    pub failed: bool,
    /// Whether the response is not the whole answer.
    pub partial: bool,
    /// Whether a person interrupted it.
    pub interrupted: bool,
    /// How it ended.
    pub turn_exit_reason: TurnExitReason,
    /// The model that answered last.
    pub model: Option<String>,
    /// The provider that answered last.
    pub provider: Option<String>,
    /// Tokens that were sent, of all calls together.
    pub input_tokens: u64,
    /// Tokens that came back.
    pub output_tokens: u64,
    /// Tokens read from the provider's cache.
    pub cache_read_tokens: u64,
    /// Tokens written to the provider's cache.
    pub cache_write_tokens: u64,
    /// Tokens that the model thought with.
    pub reasoning_tokens: u64,
    /// All tokens.
    pub total_tokens: u64,
    /// Tokens of the last request, as the provider counted them.
    pub last_prompt_tokens: u64,
    /// What it cost, where that is known.
    pub estimated_cost_usd: Option<f64>,
    /// How much of the cost is known.
    pub cost_status: CostStatus,
    /// Where the cost comes from.
    pub cost_source: Option<CostOrigin>,
    /// How long it took.
    pub duration_ms: u64,
    /// What was said to steer the turn and came too late for it.
    pub pending_steer: Vec<String>,
    /// The exit code of `chat`.
    pub exit_code: u8,
    /// Why there is no whole answer.
    pub error: Option<String>,
    /// A name for the provider's failure that stays the same.
    pub error_code: Option<String>,
    /// What to do about the error.
    pub advice: Vec<String>,
}

impl TurnView {
    /// Returns the view of a turn that never began, or of which nothing is known.
    pub fn not_begun(reason: TurnExitReason, error: ErrorView, exit_code: u8) -> Self {
        let interrupted = reason == TurnExitReason::Interrupted;
        let mut view =
            Self { failed: !interrupted, interrupted, turn_exit_reason: reason, ..Self::default() };
        view.set_error(error, exit_code);
        view
    }

    /// Returns the view of a turn.
    pub fn new(result: &TurnResult, exit_code: u8) -> Self {
        let failed = matches!(result.outcome, TurnOutcome::Failed(_));
        let completed = result.outcome.is_completed();
        let response = text(&result.text).filter(|_| !failed);
        let usage = &result.usage;
        let cost = KnownCost::new(result.cost, !result.provider.is_empty());
        Self {
            conversation: Some(result.conversation.to_string()),
            session_id: Some(result.conversation.to_string()),
            partial: response.is_some() && !completed,
            final_response: response,
            last_reasoning: text(&result.reasoning),
            api_calls: result.model_calls,
            tool_calls: result.tool_calls,
            completed,
            failed,
            interrupted: matches!(result.outcome, TurnOutcome::Interrupted),
            turn_exit_reason: (&result.outcome).into(),
            model: text(&result.model),
            provider: text(&result.provider),
            input_tokens: usage.input,
            output_tokens: usage.output,
            cache_read_tokens: usage.cache_read,
            cache_write_tokens: usage.cache_write,
            reasoning_tokens: usage.reasoning,
            total_tokens: usage.total(),
            last_prompt_tokens: result.last_prompt_tokens,
            estimated_cost_usd: cost.usd,
            cost_status: cost.status,
            cost_source: cost.source,
            duration_ms: u64::try_from(result.took.as_millis()).unwrap_or(u64::MAX),
            pending_steer: result.pending_steer.clone(),
            exit_code,
            error: result.outcome.error(),
            error_code: match &result.outcome {
                TurnOutcome::Failed(TurnError::Model(error)) => Some(error.code().to_owned()),
                _ => None,
            },
            advice: Vec::new(),
        }
    }

    /// Says why there is no whole answer.
    pub fn set_error(&mut self, error: ErrorView, exit_code: u8) {
        self.error = Some(error.error);
        self.advice = error.advice;
        self.exit_code = exit_code;
    }
}

fn text(text: &str) -> Option<String> {
    (!text.trim().is_empty()).then(|| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_that_nobody_knows_is_not_called_zero() {
        let sum =
            |micro_usd, unknown_calls, estimated| CostSum { micro_usd, unknown_calls, estimated };
        let cost = |usd, status, source| KnownCost { usd, status, source };
        let unknown = cost(None, CostStatus::Unknown, None);
        assert_eq!(KnownCost::new(sum(0, 0, false), false), unknown);
        assert_eq!(KnownCost::new(sum(0, 2, false), true), unknown);
        let (prices, provider) = (Some(CostOrigin::Prices), Some(CostOrigin::Provider));
        assert_eq!(
            KnownCost::new(sum(1500, 0, true), true),
            cost(Some(0.0015), CostStatus::Estimated, prices)
        );
        assert_eq!(
            KnownCost::new(sum(1500, 1, false), true),
            cost(Some(0.0015), CostStatus::Partial, provider)
        );
        assert_eq!(
            KnownCost::new(sum(0, 0, false), true),
            cost(Some(0.0), CostStatus::Known, provider)
        );
    }

    #[test]
    fn a_turn_that_never_began_says_why() {
        let error =
            ErrorView { error: "no model is configured".into(), advice: vec!["set one".into()] };
        let view = TurnView::not_begun(TurnExitReason::Failed, error, 1);
        let expected = TurnView {
            failed: true,
            exit_code: 1,
            error: Some("no model is configured".into()),
            advice: vec!["set one".into()],
            ..TurnView::default()
        };
        assert_eq!(view, expected);
        let interrupted = ErrorView { error: "interrupted".into(), advice: Vec::new() };
        let view = TurnView::not_begun(TurnExitReason::Interrupted, interrupted, 130);
        assert!(view.interrupted && !view.failed, "{view:?}");
    }
}
