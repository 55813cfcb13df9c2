//! `/status`: where things stand.

use vestal_sandbox::backend::Confinement;

use super::{store, table, usage};
use crate::cells::todo_mark;
use crate::chat::Chat;
use crate::text;

pub(super) async fn run(chat: &mut Chat) {
    let id = chat.about.id.clone();
    let summary = match chat.agent.store().summary(&id).await {
        Ok(summary) => summary,
        Err(error) => return chat.trouble(&store::trouble(&error)),
    };
    let conversation = &summary.conversation;
    let mut rows = Vec::new();
    let title = conversation.title.clone().unwrap_or_else(|| "without a title".to_owned());
    rows.push(("conversation", format!("{title} ({})", id.short())));
    rows.push((
        "said",
        format!(
            "{}, {}",
            text::count(usize::try_from(summary.messages).unwrap_or(usize::MAX), "message"),
            text::count(usize::try_from(summary.tool_calls).unwrap_or(usize::MAX), "tool call"),
        ),
    ));
    rows.push(("model", format!("{}:{}", conversation.provider, conversation.model)));
    rows.push(("context", context(chat)));
    let taken = match chat.agent.usage(&id).await {
        Ok(taken) => taken,
        Err(error) => return chat.trouble(&store::trouble(&error)),
    };
    let totals = usage::together(taken.own.iter().chain(&taken.children.models));
    if totals.calls > 0 {
        rows.push(("cost", usage::cost(&totals)));
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
        jobs => format!(", {}", text::count(jobs, "job")),
    };
    rows.push(("sandbox", format!("{place} ({state}{jobs}); /sandbox says more")));
    rows.push(("directory", directory(chat)));
    let approvals = match (chat.about.guard.is_yolo(), chat.about.guard.approvals().len()) {
        (true, _) => "nothing is asked about (/yolo off)".to_owned(),
        (false, 0) => "what is dangerous is asked about".to_owned(),
        (false, count) => format!("{} given; /approvals", text::count(count, "approval")),
    };
    rows.push(("approvals", approvals));
    if let Some(running) = chat.talk.running() {
        let since = text::span(running.since.elapsed());
        rows.push(("now", format!("at work for {since}; Esc or /stop interrupts")));
    }
    if let Some(todos) = todos(chat) {
        rows.push(("to do", todos));
    }
    table::say(chat, &rows);
}

/// Says which directory the user works in, on what, and what of it the agent sees.
fn directory(chat: &Chat) -> String {
    let system = format!("{} {}", std::env::consts::OS, std::env::consts::ARCH);
    let here = std::env::current_dir().unwrap_or_default();
    let attached = chat.about.workshop.attached();
    let confinement =
        attached.and_then(|sandbox| chat.agent.engine().confinement(sandbox.backend()));
    match (chat.about.workshop.mounted(), confinement) {
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
        None => (chat.status.used, chat.status.holds),
    };
    match window {
        Some(window) if window > 0 => format!(
            "about {} of {} tokens ({}%)",
            text::tokens(tokens),
            text::tokens(window),
            tokens.saturating_mul(100) / window
        ),
        _ => format!("about {} tokens", text::tokens(tokens)),
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
