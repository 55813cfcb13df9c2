//! Commands on conversations: `/new`, `/resume`, `/branch`, `/title`, `/undo`, `/retry`, `/compress`.

use vestal_agent::NotCompressed;
use vestal_agent::slash::Invocation;
use vestal_conversations::{Error, Filter, Summary};

use crate::chat::Chat;
use crate::commands::{self, keep, misused};
use crate::format;
use crate::host::{Open, Trouble};

/// Conversations that are offered to choose from.
const OFFERED: u32 = 10;

/// Characters of a title that are shown.
const TITLE: usize = 48;

/// Begins a new conversation where this one works.
pub(super) async fn new_conversation(chat: &mut Chat, invocation: &Invocation) {
    let title = Some(invocation.rest.clone()).filter(|title| !title.is_empty());
    match chat.switch(Open::New { task: None, model: None, title }).await {
        Ok(()) => chat.note(
            "a new conversation in the same sandbox: files, tools and jobs stay; shell, model and approvals are new",
        ),
        Err(trouble) => chat.trouble(&trouble),
    }
}

/// Goes on with another conversation, or asks with which.
pub(super) async fn resume(chat: &mut Chat, invocation: &Invocation) {
    if invocation.rest.is_empty() {
        return offer_conversations(chat).await;
    }
    let id = match chat.agent.store().find(&invocation.rest).await {
        Ok(id) => id,
        Err(error) => return chat.trouble(&store_trouble(&error)),
    };
    if id == chat.about.id {
        return chat.note("this is the conversation you are in");
    }
    if let Err(trouble) = chat.switch(Open::Resume { id, task: None, model: None }).await {
        chat.trouble(&trouble);
    }
}

async fn offer_conversations(chat: &mut Chat) {
    let filter = Filter { limit: OFFERED + 1, ..Filter::default() };
    let mut found = match chat.agent.store().list(&filter).await {
        Ok(found) => found,
        Err(error) => return chat.trouble(&store_trouble(&error)),
    };
    found.retain(|summary| summary.conversation.id != chat.about.id && summary.messages > 0);
    found.truncate(OFFERED as usize);
    if found.is_empty() {
        return chat.note("there is no other conversation to go on with");
    }
    let choices: Vec<String> = found.iter().map(in_a_line).collect();
    let ids: Vec<String> =
        found.iter().map(|summary| summary.conversation.id.to_string()).collect();
    let offered = choices.clone();
    commands::choose(chat, "Which conversation?", choices, move |answer| {
        let chosen = offered.iter().position(|choice| choice == answer);
        let name = chosen.and_then(|place| ids.get(place)).map_or(answer, String::as_str);
        commands::parse_command(&format!("/resume {name}"))
    });
}

/// Returns a conversation in a line: what it is called, and when it was used.
fn in_a_line(summary: &Summary) -> String {
    let conversation = &summary.conversation;
    let title = conversation.title.as_deref().unwrap_or(&summary.preview);
    let title = match title.char_indices().nth(TITLE) {
        Some((end, _)) => format!("{}…", &title[..end]),
        None => title.to_owned(),
    };
    let used = conversation.updated_at.to_zoned(jiff::tz::TimeZone::system());
    format!("{title} ({}, {})", conversation.id.short(), used.strftime("%-d %b %H:%M"))
}

/// Goes another way from here.
pub(super) async fn branch(chat: &mut Chat, invocation: &Invocation) {
    let title = Some(invocation.rest.as_str()).filter(|title| !title.is_empty());
    if chat.conversation().is_some_and(|conversation| conversation.messages().is_empty()) {
        return chat.note("nothing was said yet: there is nowhere to branch from");
    }
    let Some(mut conversation) = chat.talk.take() else { return };
    let from = conversation.id().clone();
    // It asks the shell where it is, which may take a while.
    let branching = Box::pin(conversation.branch(title));
    let branch = chat.wait_for("making the branch", branching).await;
    chat.settle(conversation);
    let branch = match branch {
        Ok(Ok(branch)) => branch,
        Ok(Err(error)) => return chat.trouble(&store_trouble(&error)),
        Err(trouble) => return chat.trouble(&trouble),
    };
    match chat.switch(Open::Resume { id: branch, task: None, model: None }).await {
        Ok(()) => chat.note(&format!(
            "this is a branch, in the same sandbox and with a shell of its own; to go back: /resume {}",
            from.short()
        )),
        Err(trouble) => chat.trouble(&trouble),
    }
}

/// Returns why the store did not do something.
pub(crate) fn store_trouble(error: &Error) -> Trouble {
    let advice = match error {
        Error::NotFound { .. } => "/sessions lists the conversations",
        Error::Ambiguous { .. } => "name one of them by its id, or by all of its title",
        Error::TitleTaken { .. } => "choose another title",
        Error::Busy { .. } => "leave it there first; /branch can go another way from here",
        Error::Database(_) | Error::Io { .. } => "`vestal doctor` says what is wrong with the disk",
        _ => "",
    };
    let advice = Some(advice.to_owned()).filter(|advice| !advice.is_empty());
    Trouble { problem: error.to_string(), advice: advice.into_iter().collect() }
}

pub(super) async fn title(chat: &mut Chat, invocation: &Invocation) {
    let Some(conversation) = chat.conversation() else { return };
    let id = conversation.id().short().to_owned();
    if invocation.rest.is_empty() {
        return match conversation.title().await {
            Ok(Some(title)) => chat.note(&format!("this conversation is {title:?} ({id})")),
            Ok(None) => chat.note(&format!(
                "this conversation ({id}) has no title yet; its first words become it"
            )),
            Err(error) => chat.trouble(&store_trouble(&error)),
        };
    }
    match conversation.set_title(&invocation.rest).await {
        Ok(title) => chat.note(&format!("this conversation is {title:?} now")),
        Err(error) => chat.trouble(&store_trouble(&error)),
    }
}

pub(super) async fn undo(chat: &mut Chat, invocation: &Invocation) {
    let turns: u32 = match invocation.strs().as_slice() {
        [] => 1,
        [number] => match number.parse() {
            Ok(turns) if turns > 0 => turns,
            _ => return misused(chat, invocation, &format!("{number:?} is no number of turns")),
        },
        _ => return misused(chat, invocation, "one number of turns is enough"),
    };
    let Some(conversation) = chat.conversation() else { return };
    let undone = match conversation.undo(turns).await {
        Ok(undone) => undone,
        Err(error) => return chat.trouble(&store_trouble(&error)),
    };
    if undone.turns == 0 {
        let why = nothing_to_undo(chat);
        return chat.note(why);
    }
    let count = usize::try_from(undone.turns).unwrap_or(usize::MAX);
    let turns = format::count(count, "turn");
    let messages = format::count(undone.messages, "message");
    chat.note(&format!("took back {turns} ({messages}); what was done in the sandbox stays done"));
    refresh(chat);
    // Whoever takes words back often wants to say them better.
    if let Some(said) = undone.said {
        keep(chat, &said.text());
    }
}

pub(super) async fn retry(chat: &mut Chat) {
    let Some(conversation) = chat.conversation() else { return };
    match conversation.retry().await {
        Ok(Some(said)) => chat.begin_turn(said),
        Ok(None) => {
            let why = nothing_to_undo(chat);
            chat.note(why);
        }
        Err(error) => chat.trouble(&store_trouble(&error)),
    }
}

/// Says why nothing can be taken back.
fn nothing_to_undo(chat: &mut Chat) -> &'static str {
    match chat.conversation() {
        Some(conversation) if !conversation.messages().is_empty() => {
            "nothing can be taken back: a summary stands for what was said"
        }
        _ => "nothing was said yet",
    }
}

/// Shows how full the context is by now.
pub(super) fn refresh(chat: &mut Chat) {
    if let Some(conversation) = chat.conversation() {
        let used = conversation.context_used();
        chat.status.used = used.tokens;
        chat.status.holds = used.window;
        chat.is_dirty = true;
    }
}

pub(super) fn compress(chat: &mut Chat) {
    chat.begin_work("summing up", |mut conversation, sink| async move {
        let came = match conversation.compress(&sink).await {
            // How much was summed up has been told by then.
            Ok(done) => Ok(Some(format!(
                "about {} tokens by now, {} before",
                format::tokens(done.tokens),
                format::tokens(done.tokens_before),
            ))),
            // Nothing went wrong.
            Err(reason @ (NotCompressed::TooShort { .. } | NotCompressed::Interrupted)) => {
                Ok(Some(reason.to_string()))
            }
            Err(reason @ NotCompressed::Model(_)) => {
                Err((reason.to_string(), "try again, or ask another model: /model NAME"))
            }
            Err(reason @ (NotCompressed::Empty | NotCompressed::Store(_))) => {
                Err((reason.to_string(), "try again"))
            }
        };
        let came =
            came.map_err(|(problem, advice)| Trouble { problem, advice: vec![advice.to_owned()] });
        (conversation, came)
    });
}
