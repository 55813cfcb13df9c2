//! `/usage`: what the conversation took, by model.

use vestal_conversations::Totals;
use vestal_tui::{Line, style};

use super::{store, table};
use crate::chat::Chat;
use crate::text;

pub(super) async fn run(chat: &mut Chat) {
    let id = chat.about.id.clone();
    let usage = match chat.agent.store().usage(Some(&id)).await {
        Ok(usage) => usage,
        Err(error) => return chat.trouble(&store::trouble(&error)),
    };
    if usage.is_empty() {
        return chat.note("no model has answered in this conversation yet");
    }
    for taken in &usage {
        let name = format!("{}:{}", taken.provider, taken.model);
        chat.say(Line::styled(name, style::BOLD));
        let Totals { calls, usage, .. } = &taken.totals;
        let mut rows = vec![
            ("calls", calls.to_string()),
            ("input", format!("{} tokens", text::tokens(usage.prompt()))),
        ];
        if usage.cache_read > 0 {
            rows.push(("of it cached", format!("{} tokens", text::tokens(usage.cache_read))));
        }
        rows.push(("output", format!("{} tokens", text::tokens(usage.output))));
        if usage.reasoning > 0 {
            rows.push(("of it thoughts", format!("{} tokens", text::tokens(usage.reasoning))));
        }
        rows.push(("cost", cost(&taken.totals)));
        table::say(chat, &rows);
    }
    if usage.len() > 1 {
        let total = usage.iter().fold(Totals::default(), |mut sum, taken| {
            sum.calls += taken.totals.calls;
            sum.micro_usd = sum.micro_usd.saturating_add(taken.totals.micro_usd);
            sum.unpriced += taken.totals.unpriced;
            sum
        });
        table::say(chat, &[("together", cost(&total))]);
    }
}

/// Returns what something cost, and how far that is known.
pub(super) fn cost(totals: &Totals) -> String {
    let Totals { calls, micro_usd, unpriced, .. } = totals;
    match (*unpriced, *calls) {
        (0, _) => text::dollars(*micro_usd),
        (unpriced, calls) if unpriced >= calls => "unknown (model.prices can say)".to_owned(),
        (unpriced, _) => {
            let unpriced = usize::try_from(unpriced).unwrap_or(usize::MAX);
            format!(
                "at least {}; of {} it is unknown",
                text::dollars(*micro_usd),
                text::count(unpriced, "call")
            )
        }
    }
}
