//! `/status` and `/usage`.

use vestal_agent::ChildrenUsage;
use vestal_conversations::{ModelTotals, Totals};
use vestal_sandbox::backend::Confinement;
use vestal_tui::{Line, style};

use crate::cells::todo_mark;
use crate::chat::Chat;
use crate::commands::{self, conversations};
use crate::format;

pub(super) async fn status(chat: &mut Chat) {
    let id = chat.info.id.clone();
    let summary = match chat.agent.store().summary(&id).await {
        Ok(summary) => summary,
        Err(error) => return chat.show_error(&conversations::store_error(&error)),
    };
    let conversation = &summary.conversation;
    let mut rows = Vec::new();
    let title = conversation.title.clone().unwrap_or_else(|| "untitled".to_owned());
    rows.push(("conversation", format!("{title} ({})", id.short())));
    rows.push((
        "length",
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
        Err(error) => return chat.show_error(&conversations::store_error(&error)),
    };
    let totals = together(taken.own.iter().chain(&taken.children.models));
    if totals.calls > 0 {
        rows.push(("cost", cost(&totals)));
    }
    let status = &chat.status;
    let state = if status.state.is_empty() { "not checked yet" } else { status.state };
    let sandbox = if status.sandbox.is_empty() {
        chat.info.sandbox.sandbox_task().to_string()
    } else {
        status.sandbox.clone()
    };
    let jobs = match status.jobs {
        0 => String::new(),
        jobs => format!(", {}", format::count(jobs, "job")),
    };
    rows.push(("sandbox", format!("{sandbox} ({state}{jobs}); /sandbox shows more")));
    rows.push(("directory", directory(chat)));
    let approvals = match (chat.info.guard.is_yolo(), chat.info.guard.approvals().len()) {
        (true, _) => "off; /yolo off turns them on".to_owned(),
        (false, 0) => "asked before dangerous commands".to_owned(),
        (false, count) => format!("{} given; /approvals", format::count(count, "approval")),
    };
    rows.push(("approvals", approvals));
    if let Some(running) = chat.slot.running() {
        let since = format::span(running.since.elapsed());
        rows.push(("now", format!("turn running for {since}; Esc or /stop interrupts it")));
    }
    if let Some(todos) = todos(chat) {
        rows.push(("to do", todos));
    }
    commands::print_table(chat, &rows);
}

/// Describes the user's directory and system, and how the agent sees it.
fn directory(chat: &Chat) -> String {
    let system = format!("{} {}", std::env::consts::OS, std::env::consts::ARCH);
    let here = std::env::current_dir().unwrap_or_default();
    let attached = chat.info.sandbox.attached();
    let confinement =
        attached.and_then(|sandbox| chat.agent.engine().confinement(sandbox.backend()));
    match (chat.info.sandbox.mounted(), confinement) {
        (Some(host), _) => format!("{} ({system}), mounted at /workspace", host.display()),
        (None, Some(Confinement::None)) => {
            format!("{} ({system}), without isolation", here.display())
        }
        (None, _) => format!("{} ({system}), not mounted by this chat", here.display()),
    }
}

fn context(chat: &mut Chat) -> String {
    let (tokens, window) = match chat.conversation() {
        Some(conversation) => {
            let used = conversation.context_used();
            (used.tokens, used.window)
        }
        None => (chat.status.used, chat.status.context_window),
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

/// Returns the to-do list, if there is one.
fn todos(chat: &Chat) -> Option<String> {
    let todos = chat.info.notebook.read().todos;
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
    let id = chat.info.id.clone();
    let usage = match chat.agent.usage(&id).await {
        Ok(usage) => usage,
        Err(error) => return chat.show_error(&conversations::store_error(&error)),
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
        show_totals(chat, &format!("{name}, all models"), &together(models));
    }
    if usage.own.len() + usize::from(*count > 0) > 1 {
        let all = together(usage.own.iter().chain(models));
        let calls = format::count(usize::try_from(all.calls).unwrap_or(usize::MAX), "call");
        let tokens = format::tokens(all.usage.total());
        commands::print_table(
            chat,
            &[("total", format!("{calls}, {tokens} tokens, {}", cost(&all)))],
        );
    }
}

fn show_totals(chat: &mut Chat, name: &str, totals: &Totals) {
    chat.print_line(Line::styled(name, style::BOLD));
    let Totals { calls, usage, .. } = totals;
    let tokens = |count: u64| format!("{} tokens", format::tokens(count));
    let mut rows = vec![("calls", calls.to_string()), ("input", tokens(usage.prompt()))];
    if usage.cache_read > 0 {
        rows.push(("cached", tokens(usage.cache_read)));
    }
    rows.push(("output", tokens(usage.output)));
    if usage.reasoning > 0 {
        rows.push(("reasoning", tokens(usage.reasoning)));
    }
    rows.push(("cost", cost(totals)));
    commands::print_table(chat, &rows);
}

/// Sums the usage of several models.
pub(super) fn together<'a>(models: impl IntoIterator<Item = &'a ModelTotals>) -> Totals {
    let mut sum = Totals::default();
    for ModelTotals { totals, .. } in models {
        sum += *totals;
    }
    sum
}

/// Describes a cost and how complete it is.
pub(super) fn cost(totals: &Totals) -> String {
    let Totals { calls, micro_usd, unpriced, .. } = totals;
    match (*unpriced, *calls) {
        (0, _) => format::dollars(*micro_usd),
        (unpriced, calls) if unpriced >= calls => "unknown (set model.prices)".to_owned(),
        (unpriced, _) => {
            let unpriced = usize::try_from(unpriced).unwrap_or(usize::MAX);
            format!(
                "at least {}; unknown for {}",
                format::dollars(*micro_usd),
                format::count(unpriced, "call")
            )
        }
    }
}
