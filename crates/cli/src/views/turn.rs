//! The result of `chat --json`.

use serde::Serialize;
use vestal_agent::{CostSum, Outcome, TurnError, TurnResult};

use crate::error::Failure;
use crate::exit::Exit;

/// One turn and what came of it.
#[derive(Debug, Default, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a field of a public interface")]
pub(crate) struct TurnView {
    conversation: Option<String>,
    /// The same under the name that other agents' scripts know.
    session_id: Option<String>,
    /// What the model said last; none of a turn that failed, which has no answer.
    final_response: Option<String>,
    last_reasoning: Option<String>,
    api_calls: u32,
    tool_calls: u32,
    completed: bool,
    failed: bool,
    /// Whether the response is not the whole answer.
    partial: bool,
    interrupted: bool,
    turn_exit_reason: &'static str,
    model: Option<String>,
    provider: Option<String>,
    input_tokens: u64,
    output_tokens: u64,
    cache_read_tokens: u64,
    cache_write_tokens: u64,
    reasoning_tokens: u64,
    total_tokens: u64,
    last_prompt_tokens: u64,
    estimated_cost_usd: Option<f64>,
    cost_status: &'static str,
    cost_source: Option<&'static str>,
    duration_ms: u64,
    pending_steer: Vec<String>,
    exit_code: u8,
    error: Option<String>,
    /// A name for the provider's failure that stays the same.
    error_code: Option<&'static str>,
    /// What to do about the error.
    advice: Vec<String>,
}

impl TurnView {
    /// Returns the view of a turn that never began, or of which nothing is known.
    pub(crate) fn of_failure(failure: &Failure) -> Self {
        let interrupted = matches!(failure.exit(), Exit::Terminated(_));
        let mut view = Self {
            failed: !interrupted,
            interrupted,
            turn_exit_reason: if interrupted { "interrupted" } else { "failed" },
            cost_status: "unknown",
            ..Self::default()
        };
        view.set_failure(failure);
        view
    }

    /// Returns the view of a turn.
    pub(crate) fn of(result: &TurnResult, exit: Exit) -> Self {
        let failed = matches!(result.outcome, Outcome::Failed(_));
        let completed = result.outcome.is_completed();
        let response = text(&result.text).filter(|_| !failed);
        let usage = &result.usage;
        let cost = Cost::of(result.cost, !result.provider.is_empty());
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
            interrupted: matches!(result.outcome, Outcome::Interrupted),
            turn_exit_reason: result.outcome.word(),
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
            exit_code: exit.code(),
            error: result.outcome.error(),
            error_code: match &result.outcome {
                Outcome::Failed(TurnError::Model(error)) => Some(error.code()),
                _ => None,
            },
            advice: Vec::new(),
        }
    }

    /// Says why there is no whole answer.
    pub(crate) fn set_failure(&mut self, failure: &Failure) {
        self.error = Some(failure.message().unwrap_or("nobody reads the output").to_owned());
        self.advice = failure.advice().to_vec();
        self.exit_code = failure.exit().code();
    }
}

fn text(text: &str) -> Option<String> {
    (!text.trim().is_empty()).then(|| text.trim().to_owned())
}

/// What a turn cost, as far as it is known.
#[derive(Debug, PartialEq)]
pub(crate) struct Cost {
    pub(crate) usd: Option<f64>,
    pub(crate) status: &'static str,
    pub(crate) source: Option<&'static str>,
}

impl Cost {
    /// Returns what calls cost together; without an answer nothing is known.
    #[expect(clippy::cast_precision_loss, reason = "costs are far below 2^52 millionths")]
    pub(crate) fn of(sum: CostSum, answered: bool) -> Self {
        let usd = sum.micro_usd as f64 / 1e6;
        let source = if sum.estimated { "prices" } else { "provider" };
        match (answered, sum.unknown_calls, sum.micro_usd) {
            (true, 0, _) => {
                let status = if sum.estimated { "estimated" } else { "known" };
                Self { usd: Some(usd), status, source: Some(source) }
            }
            (true, _, 1..) => Self { usd: Some(usd), status: "partial", source: Some(source) },
            _ => Self { usd: None, status: "unknown", source: None },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_that_nobody_knows_is_not_called_zero() {
        let sum =
            |micro_usd, unknown_calls, estimated| CostSum { micro_usd, unknown_calls, estimated };
        let cost = |usd, status, source| Cost { usd, status, source };
        assert_eq!(Cost::of(sum(0, 0, false), false), cost(None, "unknown", None));
        assert_eq!(Cost::of(sum(0, 2, false), true), cost(None, "unknown", None));
        assert_eq!(
            Cost::of(sum(1500, 0, true), true),
            cost(Some(0.0015), "estimated", Some("prices"))
        );
        assert_eq!(
            Cost::of(sum(1500, 1, false), true),
            cost(Some(0.0015), "partial", Some("provider"))
        );
        assert_eq!(Cost::of(sum(0, 0, false), true), cost(Some(0.0), "known", Some("provider")));
    }

    #[test]
    fn a_turn_that_never_began_says_why() {
        let failure = Failure::new("no model is configured").advise("set one").with_exit(Exit::No);
        let json = serde_json::to_value(TurnView::of_failure(&failure)).unwrap();
        assert_eq!(json["error"], "no model is configured");
        assert_eq!(json["exit_code"], 1);
        assert_eq!((&json["failed"], &json["completed"]), (&true.into(), &false.into()));
        assert_eq!(json["final_response"], serde_json::Value::Null);
    }
}
