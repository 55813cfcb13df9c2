//! Commands on conversations: `/new`, `/resume`, `/branch`, `/title`, `/undo`, `/retry`, `/compress`, `/status`, `/usage`.

use vestal_agent::slash::Invocation;
use vestal_agent::{ChildrenUsage, CompressError};
use vestal_conversations::{
    ConversationFilter, ConversationSummary, Error, MessageKind, ModelTotals, Totals,
};
use vestal_model::{Message, UserMessage};
use vestal_sandbox::backend::Confinement;
use vestal_tui::{Line, PickerItem, format, style};

use crate::attachments::written_text;
use crate::cells::todo_mark;
use crate::chat::Chat;
use crate::commands::{self, put_into_input, report_usage_error};
use crate::host::{ChatError, OpenTarget};

/// Conversations that are offered.
const OFFERED: u32 = 200;

/// Words of a message that are offered.
const WORDS: usize = 40;

/// Characters of a title that are shown.
const TITLE: usize = 48;

/// Starts a new conversation in the same sandbox.
pub(super) async fn new_conversation(chat: &mut Chat, invocation: &Invocation) {
    let title = Some(invocation.rest.clone()).filter(|title| !title.is_empty());
    match chat.switch(OpenTarget::New { task: None, model: None, title }).await {
        Ok(()) => chat.note(
            "a new conversation in the same sandbox: files, tools and jobs stay; shell, model and approvals are new",
        ),
        Err(failure) => chat.show_error(&failure),
    }
}

/// Resumes another conversation, or asks which one.
pub(super) async fn resume(chat: &mut Chat, invocation: &Invocation) {
    if invocation.rest.is_empty() {
        return offer_conversations(chat).await;
    }
    let id = match chat.agent.store().find(&invocation.rest).await {
        Ok(id) => id,
        Err(error) => return chat.show_error(&store_error(&error)),
    };
    if id == chat.info.id {
        return chat.note("already in this conversation");
    }
    if let Err(failure) = chat.switch(OpenTarget::Resume { id, task: None, model: None }).await {
        chat.show_error(&failure);
    }
}

async fn offer_conversations(chat: &mut Chat) {
    let filter = ConversationFilter { limit: OFFERED + 1, ..ConversationFilter::default() };
    let mut found = match chat.agent.store().list(&filter).await {
        Ok(found) => found,
        Err(error) => return chat.show_error(&store_error(&error)),
    };
    found.retain(|summary| summary.conversation.id != chat.info.id && summary.messages > 0);
    found.truncate(OFFERED as usize);
    if found.is_empty() {
        return chat.note("there is no other conversation to resume");
    }
    let items = found.iter().map(item).collect();
    let ids: Vec<String> =
        found.iter().map(|summary| summary.conversation.id.to_string()).collect();
    commands::pick(chat, "Which conversation?", items, 0, move |chosen| {
        commands::parse_command(&format!("/resume {}", ids.get(chosen)?))
    });
}

/// Describes a conversation: title, id and last use.
fn item(summary: &ConversationSummary) -> PickerItem {
    let conversation = &summary.conversation;
    let title = conversation.title.as_deref().unwrap_or(&summary.preview);
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    let label = match title.char_indices().nth(TITLE) {
        Some((end, _)) => format!("{}…", &title[..end]),
        None => title,
    };
    let used = conversation.updated_at.to_zoned(jiff::tz::TimeZone::system());
    let about = format!("{}, {}", conversation.id.short(), used.strftime("%-d %b %H:%M"));
    PickerItem { label, about }
}

/// Lets the user choose the message to go back to: it and all that follows are taken back, and it is
/// put into the input.
pub(crate) async fn go_back(chat: &mut Chat) {
    let stored = match chat.agent.store().messages(&chat.info.id).await {
        Ok(stored) => stored,
        Err(error) => return chat.show_error(&store_error(&error)),
    };
    // The newest first: its number is that of the turns to take back.
    let dialogue = stored.iter().rev().filter(|stored| stored.kind == MessageKind::Dialogue);
    let prompts = dialogue.filter_map(|stored| match &stored.message {
        Message::User(message) => Some(message),
        Message::Assistant(_) | Message::Tool(_) => None,
    });
    let label = |message: &UserMessage| {
        let text = written_text(message);
        let text = text.split_whitespace().take(WORDS).collect::<Vec<_>>().join(" ");
        PickerItem { label: text, about: String::new() }
    };
    let items: Vec<PickerItem> = prompts.map(label).collect();
    if items.is_empty() {
        return chat.note("there is no message to go back to");
    }
    let title = "Go back to before which message? What was done in the sandbox stays done.";
    commands::pick(chat, title, items, 0, |chosen| {
        commands::parse_command(&format!("/undo {}", chosen + 1))
    });
}

/// Branches the conversation.
pub(super) async fn branch(chat: &mut Chat, invocation: &Invocation) {
    let title = Some(invocation.rest.as_str()).filter(|title| !title.is_empty());
    if chat.conversation().is_some_and(|conversation| conversation.messages().is_empty()) {
        return chat.note("the conversation is empty; there is nothing to branch from");
    }
    let Some(mut conversation) = chat.slot.take() else { return };
    let from = conversation.id().clone();
    // Slow: it asks the shell for its directory.
    let branching = Box::pin(conversation.branch(title));
    let branch = chat.wait_for("creating the branch", branching).await;
    chat.hold_conversation(conversation);
    let branch = match branch {
        Ok(Ok(branch)) => branch,
        Ok(Err(error)) => return chat.show_error(&store_error(&error)),
        Err(failure) => return chat.show_error(&failure),
    };
    match chat.switch(OpenTarget::Resume { id: branch, task: None, model: None }).await {
        Ok(()) => chat.note(&format!(
            "this is a branch in the same sandbox, with its own shell; to go back: /resume {}",
            from.short()
        )),
        Err(failure) => chat.show_error(&failure),
    }
}

/// Converts an error of the store.
pub(crate) fn store_error(error: &Error) -> ChatError {
    let advice = match error {
        Error::NotFound { .. } => "/sessions lists the conversations",
        Error::Ambiguous { .. } => "use the id or the full title",
        Error::TitleTaken { .. } => "choose another title",
        Error::Busy { .. } => "close it there first, or use /branch here",
        Error::Database(_) | Error::Io { .. } => "`vestal doctor` checks the disk",
        _ => "",
    };
    let advice = Some(advice.to_owned()).filter(|advice| !advice.is_empty());
    ChatError { problem: error.to_string(), advice: advice.into_iter().collect() }
}

pub(super) async fn title(chat: &mut Chat, invocation: &Invocation) {
    let Some(conversation) = chat.conversation() else { return };
    let id = conversation.id().short().to_owned();
    if invocation.rest.is_empty() {
        return match conversation.title().await {
            Ok(Some(title)) => chat.note(&format!("the title is {title:?} ({id})")),
            Ok(None) => chat.note(&format!(
                "this conversation ({id}) has no title yet; the first message provides it"
            )),
            Err(error) => chat.show_error(&store_error(&error)),
        };
    }
    match conversation.set_title(&invocation.rest).await {
        Ok(title) => chat.note(&format!("the title is now {title:?}")),
        Err(error) => chat.show_error(&store_error(&error)),
    }
}

pub(super) async fn undo(chat: &mut Chat, invocation: &Invocation) {
    let turns: u32 = match invocation.strs().as_slice() {
        [] => 1,
        [number] => match number.parse() {
            Ok(turns) if turns > 0 => turns,
            _ => {
                return report_usage_error(
                    chat,
                    invocation,
                    &format!("{number:?} is not a number of turns"),
                );
            }
        },
        _ => return report_usage_error(chat, invocation, "too many arguments"),
    };
    let Some(conversation) = chat.conversation() else { return };
    let undone = match conversation.undo(turns).await {
        Ok(undone) => undone,
        Err(error) => return chat.show_error(&store_error(&error)),
    };
    if undone.turns == 0 {
        let why = nothing_to_undo(chat);
        return chat.note(why);
    }
    let count = usize::try_from(undone.turns).unwrap_or(usize::MAX);
    let turns = format::count(count, "turn");
    let messages = format::count(undone.messages, "message");
    chat.note(&format!("undid {turns} ({messages}); changes in the sandbox remain"));
    refresh(chat);
    // The undone message is often edited and sent again.
    if let Some(message) = undone.first_message {
        put_into_input(chat, &written_text(&message));
    }
}

pub(super) async fn retry(chat: &mut Chat) {
    let Some(conversation) = chat.conversation() else { return };
    match conversation.retry().await {
        Ok(Some(message)) => chat.start_turn(message),
        Ok(None) => {
            let why = nothing_to_undo(chat);
            chat.note(why);
        }
        Err(error) => chat.show_error(&store_error(&error)),
    }
}

/// Returns why nothing can be undone.
fn nothing_to_undo(chat: &mut Chat) -> &'static str {
    match chat.conversation() {
        Some(conversation) if !conversation.messages().is_empty() => {
            "nothing can be undone: earlier turns were summarised"
        }
        _ => "the conversation is empty",
    }
}

/// Updates the context usage in the status line.
pub(super) fn refresh(chat: &mut Chat) {
    if let Some(conversation) = chat.conversation() {
        let used = conversation.context_used();
        chat.status.used = used.tokens;
        chat.status.context_window = used.window;
        chat.is_dirty = true;
    }
}

pub(super) fn compress(chat: &mut Chat) {
    chat.start_work("summarising the conversation", |mut conversation, sink| async move {
        let result = match conversation.compress(&sink).await {
            // The number of messages was printed by then.
            Ok(done) => Ok(Some(format!(
                "about {} tokens now, {} before",
                format::rough(done.tokens),
                format::rough(done.tokens_before),
            ))),
            // Nothing went wrong.
            Err(reason @ (CompressError::TooShort { .. } | CompressError::Interrupted)) => {
                Ok(Some(reason.to_string()))
            }
            Err(reason @ CompressError::Model(_)) => {
                Err((reason.to_string(), "try again, or use another model: /model NAME"))
            }
            Err(reason @ (CompressError::Empty | CompressError::Store(_))) => {
                Err((reason.to_string(), "try again"))
            }
        };
        let result = result
            .map_err(|(problem, advice)| ChatError { problem, advice: vec![advice.to_owned()] });
        (conversation, result)
    });
}

pub(super) async fn status(chat: &mut Chat) {
    let id = chat.info.id.clone();
    let summary = match chat.agent.store().summary(&id).await {
        Ok(summary) => summary,
        Err(error) => return chat.show_error(&store_error(&error)),
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
        Err(error) => return chat.show_error(&store_error(&error)),
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
        let since = format::clock(running.since.elapsed());
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
    let here = chat.cwd.clone().unwrap_or_default();
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
            format::rough(tokens),
            format::rough(window),
            tokens.saturating_mul(100) / window
        ),
        _ => format!("about {} tokens", format::rough(tokens)),
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
        Err(error) => return chat.show_error(&store_error(&error)),
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
        let tokens = format::rough(all.usage.total());
        commands::print_table(
            chat,
            &[("total", format!("{calls}, {tokens} tokens, {}", cost(&all)))],
        );
    }
}

fn show_totals(chat: &mut Chat, name: &str, totals: &Totals) {
    chat.print_line(Line::styled(name, style::BOLD));
    let Totals { calls, usage, .. } = totals;
    let tokens = |count: u64| format!("{} tokens", format::rough(count));
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
