//! What is said to the program and not to the model: one file per command or
//! small group. Which commands there are says `vestal_agent::slash`.

mod approvals;
mod around;
mod ask;
mod compress;
mod help;
mod jobs;
mod model;
mod sandbox;
mod status;
mod stop;
mod store;
mod table;
mod title;
mod tools;
mod turns;
mod usage;
mod yolo;

use vestal_agent::slash::{Invocation, Reach, SlashError, Timing};

use crate::chat::Chat;
use crate::program::Trouble;

pub(crate) use model::known_models;
pub(crate) use store::trouble as store_trouble;

/// Does what a command says.
pub(crate) async fn obey(chat: &mut Chat, invocation: Invocation) {
    if invocation.timing() == Timing::BetweenTurns && chat.conversation().is_none() {
        return wait_for_turn(chat, &invocation);
    }
    let command = invocation.command;
    match (command.reach, command.name) {
        (Reach::Verb(verb), _) => around::run(chat, verb, &invocation).await,
        (_, "new") => store::begin(chat, &invocation).await,
        (_, "resume") => store::resume(chat, &invocation).await,
        (_, "branch") => store::branch(chat, &invocation).await,
        (_, "title") => title::run(chat, &invocation).await,
        (_, "undo") => turns::undo(chat, &invocation).await,
        (_, "retry") => turns::retry(chat).await,
        (_, "compress") => compress::run(chat),
        (_, "status") => status::run(chat).await,
        (_, "usage") => usage::run(chat).await,
        (_, "stop") => stop::run(chat, &invocation).await,
        (_, "quit") => chat.leave(),
        (_, "model") => model::run(chat, &invocation).await,
        (_, "tools") => tools::run(chat, &invocation).await,
        (_, "yolo") => yolo::run(chat, &invocation),
        (_, "approvals") => approvals::run(chat, &invocation),
        (_, "sandbox") => sandbox::run(chat, &invocation).await,
        (_, "jobs") => jobs::run(chat, &invocation).await,
        (_, "help") => help::run(chat, &invocation),
        // A command of the table that this chat does not know.
        (_, name) => chat.warn(&format!("/{name} cannot be done here")),
    }
}

/// Says why something that was typed is no command, once, and leaves it to be
/// put right.
pub(crate) fn misread(chat: &mut Chat, error: &SlashError, typed: &str) {
    let advice = vec![error.advice()];
    chat.trouble(&Trouble { problem: error.to_string(), advice });
    keep(chat, typed);
}

/// Says that a command has to wait, and leaves it to be sent again.
fn wait_for_turn(chat: &mut Chat, invocation: &Invocation) {
    let name = invocation.command.name;
    chat.note(&format!(
        "/{name} has to wait until nothing runs in the conversation; Ctrl-C or /stop interrupts it"
    ));
    let typed = format!("/{name} {}", invocation.rest);
    keep(chat, typed.trim_end());
}

/// Puts something back into the input, unless something else is being written.
fn keep(chat: &mut Chat, typed: &str) {
    if chat.editor.is_empty() {
        chat.editor.set_text(typed);
    }
}

/// Says that what follows a command means nothing.
fn misused(chat: &mut Chat, invocation: &Invocation, problem: &str) {
    let command = invocation.command;
    let advice = vec![format!("{}; /help {} says more", command.usage(), command.name)];
    chat.trouble(&Trouble { problem: problem.to_owned(), advice });
}
