//! `/undo` and `/retry`.

use vestal_agent::slash::Invocation;

use super::store::trouble;
use super::{keep, misused};
use crate::chat::Chat;
use crate::text;

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
        Err(error) => return chat.trouble(&trouble(&error)),
    };
    if undone.turns == 0 {
        let why = nothing(chat);
        return chat.note(why);
    }
    let count = usize::try_from(undone.turns).unwrap_or(usize::MAX);
    let turns = text::count(count, "turn");
    let messages = text::count(undone.messages, "message");
    chat.note(&format!("took back {turns} ({messages}); what was done in the sandbox stays done"));
    refresh(chat);
    // Whoever takes words back often wants to say them better.
    if let Some(said) = undone.first_message {
        keep(chat, &said.text());
    }
}

pub(super) async fn retry(chat: &mut Chat) {
    let Some(conversation) = chat.conversation() else { return };
    match conversation.retry().await {
        Ok(Some(said)) => chat.begin_turn(said),
        Ok(None) => {
            let why = nothing(chat);
            chat.note(why);
        }
        Err(error) => chat.trouble(&trouble(&error)),
    }
}

/// Says why nothing can be taken back.
fn nothing(chat: &mut Chat) -> &'static str {
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
