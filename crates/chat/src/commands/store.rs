//! `/new`, `/resume`, `/branch`: other conversations.

use vestal_agent::slash::Invocation;
use vestal_conversations::{Error, Filter, Summary};

use super::ask;
use crate::chat::Chat;
use crate::program::{Open, Trouble};

/// Conversations that are offered to choose from.
const OFFERED: u32 = 10;

/// Characters of a title that are shown.
const TITLE: usize = 48;

/// Begins a new conversation where this one works.
pub(super) async fn begin(chat: &mut Chat, invocation: &Invocation) {
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
        return offer(chat).await;
    }
    let id = match chat.agent.store().find(&invocation.rest).await {
        Ok(id) => id,
        Err(error) => return chat.trouble(&trouble(&error)),
    };
    if id == chat.about.id {
        return chat.note("this is the conversation you are in");
    }
    if let Err(trouble) = chat.switch(Open::Resume { id, task: None, model: None }).await {
        chat.trouble(&trouble);
    }
}

async fn offer(chat: &mut Chat) {
    let filter = Filter { limit: OFFERED + 1, ..Filter::default() };
    let mut found = match chat.agent.store().list(&filter).await {
        Ok(found) => found,
        Err(error) => return chat.trouble(&trouble(&error)),
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
    ask::choose(chat, "Which conversation?", choices, move |answer| {
        let chosen = offered.iter().position(|choice| choice == answer);
        let name = chosen.and_then(|place| ids.get(place)).map_or(answer, String::as_str);
        ask::told(&format!("/resume {name}"))
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
        Ok(Err(error)) => return chat.trouble(&trouble(&error)),
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
pub(crate) fn trouble(error: &Error) -> Trouble {
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
