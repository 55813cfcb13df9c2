//! `/usage`: what the conversation took, by model, and its children.

use vestal_agent::ChildrenUsage;
use vestal_conversations::{ModelTotals, Totals};
use vestal_tui::{Line, style};

use super::{store, table};
use crate::chat::Chat;
use crate::text;

pub(super) async fn run(chat: &mut Chat) {
    let id = chat.about.id.clone();
    let usage = match chat.agent.usage(&id).await {
        Ok(usage) => usage,
        Err(error) => return chat.trouble(&store::trouble(&error)),
    };
    let ChildrenUsage { count, models } = &usage.children;
    if usage.own.is_empty() && *count == 0 {
        return chat.note("no model has answered in this conversation yet");
    }
    for taken in &usage.own {
        show(chat, &format!("{}:{}", taken.provider, taken.model), &taken.totals);
    }
    if *count > 0 {
        let name = text::count(usize::try_from(*count).unwrap_or(usize::MAX), "delegated part");
        show(chat, &format!("{name}, whoever was asked"), &together(models));
    }
    if usage.own.len() + usize::from(*count > 0) > 1 {
        let all = together(usage.own.iter().chain(models));
        let calls = text::count(usize::try_from(all.calls).unwrap_or(usize::MAX), "call");
        let tokens = text::tokens(all.usage.total());
        table::say(chat, &[("together", format!("{calls}, {tokens} tokens, {}", cost(&all)))]);
    }
}

fn show(chat: &mut Chat, name: &str, totals: &Totals) {
    chat.say(Line::styled(name, style::BOLD));
    let Totals { calls, usage, .. } = totals;
    let tokens = |count: u64| format!("{} tokens", text::tokens(count));
    let mut rows = vec![("calls", calls.to_string()), ("input", tokens(usage.prompt()))];
    if usage.cache_read > 0 {
        rows.push(("of it cached", tokens(usage.cache_read)));
    }
    rows.push(("output", tokens(usage.output)));
    if usage.reasoning > 0 {
        rows.push(("of it thoughts", tokens(usage.reasoning)));
    }
    rows.push(("cost", cost(totals)));
    table::say(chat, &rows);
}

/// Returns what several models took together.
pub(super) fn together<'a>(models: impl IntoIterator<Item = &'a ModelTotals>) -> Totals {
    let mut sum = Totals::default();
    for ModelTotals { totals, .. } in models {
        sum += *totals;
    }
    sum
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
