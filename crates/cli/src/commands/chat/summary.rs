//! What a turn took, in a line.

use vestal_agent::{Outcome, TurnResult};
use vestal_api::{CostStatus, KnownCost};

use crate::console::{status, text};
use crate::context::Context;
use crate::values::quoted;

/// Says what a turn took and how to go on, to a person at a terminal.
pub(super) fn tell(context: &Context, result: &TurnResult) {
    if status::is_possible() {
        context.console.aside(&line(result, context.profile()));
    }
}

fn line(result: &TurnResult, profile: Option<&str>) -> String {
    let mut said = vec![result.conversation.short().to_owned()];
    if matches!(result.outcome, Outcome::Interrupted) {
        said.push("interrupted".to_owned());
    }
    said.push(text::count(result.usage.total(), "token"));
    let cost = KnownCost::new(result.cost, !result.provider.is_empty());
    if let Some(usd) = cost.usd {
        let about = if cost.status == CostStatus::Partial { "at least " } else { "" };
        said.push(format!("{about}${usd:.4}"));
    }
    said.push(text::took(result.took));
    let profile = profile.map(|name| format!(" -p {}", quoted(name))).unwrap_or_default();
    said.push(format!("to go on: vestal{profile} chat -c -q …"));
    said.join(" · ")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use vestal_agent::CostSum;
    use vestal_model::Usage;

    use super::*;

    #[test]
    fn the_line_says_what_it_took_and_how_to_go_on() {
        let mut result = TurnResult {
            conversation: "20261115-103001-k3f9ab".parse().unwrap(),
            outcome: Outcome::Completed,
            text: String::new(),
            reasoning: String::new(),
            model_calls: 2,
            tool_calls: 1,
            usage: Usage { input: 1200, output: 34, ..Usage::default() },
            cost: CostSum { micro_usd: 12_300, unknown_calls: 0, estimated: true },
            provider: "mine".to_owned(),
            model: "m".to_owned(),
            last_prompt_tokens: 1200,
            pending_steer: Vec::new(),
            took: Duration::from_millis(3400),
        };
        assert_eq!(
            line(&result, None),
            "k3f9ab · 1234 tokens · $0.0123 · 3.4s · to go on: vestal chat -c -q …"
        );
        result.outcome = Outcome::Interrupted;
        result.cost = CostSum { unknown_calls: 1, ..CostSum::default() };
        assert_eq!(
            line(&result, Some("work")),
            "k3f9ab · interrupted · 1234 tokens · 3.4s · to go on: vestal -p work chat -c -q …"
        );
    }
}
