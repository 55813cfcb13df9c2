//! `/status` and `/usage`.

use vestal_agent::ChildrenUsage;
use vestal_conversations::{ModelTotals, Totals};
use vestal_tui::{Line, style};

use crate::cells::todo_mark;
use crate::chat::Chat;
use crate::commands::{self, conversations};
use crate::format;

pub(super) async fn status(chat: &mut Chat) {
    let id = chat.about.id.clone();
    let summary = match chat.agent.store().summary(&id).await {
        Ok(summary) => summary,
        Err(error) => return chat.trouble(&conversations::store_trouble(&error)),
    };
    let conversation = &summary.conversation;
    let mut rows = Vec::new();
    let title = conversation.title.clone().unwrap_or_else(|| "without a title".to_owned());
    rows.push(("conversation", format!("{title} ({})", id.short())));
    rows.push((
        "said",
        format!(
            "{}, {}",
            format::count(usize::try_from(summary.messages).unwrap_or(usize::MAX), "message"),
            format::count(usize::try_from(summary.tool_calls).unwrap_or(usize::MAX), "tool call"),
        ),
    ));
    rows.push(("model", format!("{}:{}", conversation.provider, conversation.model)));
    rows.push(("context", context(chat)));
    let taken = match chat.agent.usage(&id).await {
        Ok(taken) => taken,
        Err(error) => return chat.trouble(&conversations::store_trouble(&error)),
    };
    let totals = together(taken.own.iter().chain(&taken.children.models));
    if totals.calls > 0 {
        rows.push(("cost", cost(&totals)));
    }
    let status = &chat.status;
    let state = if status.state.is_empty() { "not looked at yet" } else { status.state };
    let place = if status.place.is_empty() {
        chat.about.workshop.sandbox_task().to_string()
    } else {
        status.place.clone()
    };
    let jobs = match status.jobs {
        0 => String::new(),
        jobs => format!(", {}", format::count(jobs, "job")),
    };
    rows.push(("sandbox", format!("{place} ({state}{jobs}); /sandbox says more")));
    rows.push(("directory", directory(chat)));
    let approvals = match (chat.about.guard.is_yolo(), chat.about.guard.approvals().len()) {
        (true, _) => "nothing is asked about (/yolo off)".to_owned(),
        (false, 0) => "what is dangerous is asked about".to_owned(),
        (false, count) => format!("{} given; /approvals", format::count(count, "approval")),
    };
    rows.push(("approvals", approvals));
    if let Some(running) = chat.talk.running() {
        let since = format::span(running.since.elapsed());
        rows.push(("now", format!("at work for {since}; Esc or /stop interrupts")));
    }
    if let Some(todos) = todos(chat) {
        rows.push(("to do", todos));
    }
    commands::say_table(chat, &rows);
}

/// Says which directory the user works in, on what, and what of it the agent sees.
fn directory(chat: &Chat) -> String {
    let system = format!("{} {}", std::env::consts::OS, std::env::consts::ARCH);
    let here = std::env::current_dir().unwrap_or_default();
    let backend = chat.about.workshop.attached().map(|sandbox| sandbox.backend().to_owned());
    match (chat.about.workshop.mounted(), backend.as_deref()) {
        (Some(host), _) => format!("{} ({system}), mounted at /workspace", host.display()),
        (None, Some("local")) => format!("{} ({system}), without isolation", here.display()),
        (None, _) => format!("{} ({system}), not mounted by this chat", here.display()),
    }
}

fn context(chat: &mut Chat) -> String {
    let (tokens, window) = match chat.conversation() {
        Some(conversation) => {
            let used = conversation.context_used();
            (used.tokens, used.window)
        }
        None => (chat.status.used, chat.status.holds),
    };
    match window {
        Some(window) if window > 0 => format!(
            "about {} of {} tokens ({}%)",
            format::tokens(tokens),
            format::tokens(window),
            tokens.saturating_mul(100) / window
        ),
        _ => format!("about {} tokens", format::tokens(tokens)),
    }
}

/// Returns the list of what is to be done, if there is one.
fn todos(chat: &Chat) -> Option<String> {
    let todos = chat.about.notebook.read().todos;
    if todos.is_empty() {
        return None;
    }
    let line = |todo: &vestal_agent::Todo| {
        let mark = todo_mark(todo.status);
        format!("{mark} {}", todo.content.replace('\n', " "))
    };
    Some(todos.iter().map(line).collect::<Vec<_>>().join("\n"))
}

pub(super) async fn usage(chat: &mut Chat) {
    let id = chat.about.id.clone();
    let usage = match chat.agent.usage(&id).await {
        Ok(usage) => usage,
        Err(error) => return chat.trouble(&conversations::store_trouble(&error)),
    };
    let ChildrenUsage { count, models } = &usage.children;
    if usage.own.is_empty() && *count == 0 {
        return chat.note("no model has answered in this conversation yet");
    }
    for taken in &usage.own {
        show_totals(chat, &format!("{}:{}", taken.provider, taken.model), &taken.totals);
    }
    if *count > 0 {
        let name = format::count(usize::try_from(*count).unwrap_or(usize::MAX), "delegated part");
        show_totals(chat, &format!("{name}, whoever was asked"), &together(models));
    }
    if usage.own.len() + usize::from(*count > 0) > 1 {
        let all = together(usage.own.iter().chain(models));
        let calls = format::count(usize::try_from(all.calls).unwrap_or(usize::MAX), "call");
        let tokens = format::tokens(all.usage.total());
        commands::say_table(
            chat,
            &[("together", format!("{calls}, {tokens} tokens, {}", cost(&all)))],
        );
    }
}

fn show_totals(chat: &mut Chat, name: &str, totals: &Totals) {
    chat.say(Line::styled(name, style::BOLD));
    let Totals { calls, usage, .. } = totals;
    let tokens = |count: u64| format!("{} tokens", format::tokens(count));
    let mut rows = vec![("calls", calls.to_string()), ("input", tokens(usage.prompt()))];
    if usage.cache_read > 0 {
        rows.push(("of it cached", tokens(usage.cache_read)));
    }
    rows.push(("output", tokens(usage.output)));
    if usage.reasoning > 0 {
        rows.push(("of it thoughts", tokens(usage.reasoning)));
    }
    rows.push(("cost", cost(totals)));
    commands::say_table(chat, &rows);
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
        (0, _) => format::dollars(*micro_usd),
        (unpriced, calls) if unpriced >= calls => "unknown (model.prices can say)".to_owned(),
        (unpriced, _) => {
            let unpriced = usize::try_from(unpriced).unwrap_or(usize::MAX);
            format!(
                "at least {}; of {} it is unknown",
                format::dollars(*micro_usd),
                format::count(unpriced, "call")
            )
        }
    }
}
