//! `/sandbox`: where the agent works, and what can be done to that.

mod show;
mod switch;

use vestal_agent::slash::{Invocation, nearest};

use super::misused;
use crate::chat::Chat;
use crate::program::Trouble;

pub(super) async fn run(chat: &mut Chat, invocation: &Invocation) {
    let task = chat.about.workshop.sandbox_task().to_string();
    let words = invocation.strs();
    match words.as_slice() {
        [] | ["show"] => show::run(chat).await,
        ["switch", task] => switch::run(chat, task).await,
        ["switch", ..] => misused(chat, invocation, "which task is meant?"),
        ["snapshots", flags @ ..] => {
            chat.aside(line(&["snapshots", "list", "-t", &task], flags)).await;
        }
        ["snapshot", name, flags @ ..] if !name.starts_with('-') => {
            chat.aside(line(&["snapshot", "-t", &task, "--name", name], flags)).await;
        }
        ["snapshot", flags @ ..] => {
            chat.aside(line(&["snapshot", "-t", &task], flags)).await;
        }
        ["restore"] => {
            misused(chat, invocation, "which snapshot is meant? /sandbox snapshots lists them");
        }
        ["restore", flags @ ..] => {
            if chat.aside(line(&["restore", &task], flags)).await {
                let words = "The user has put the sandbox back to an earlier state: files, installed tools and the shell are as they were then, and jobs that ran have ended.";
                remark(chat, words).await;
            }
        }
        ["fork"] => misused(chat, invocation, "what is the new task to be called?"),
        ["fork", new, flags @ ..] => {
            if chat.aside(line(&["fork", &task, new], flags)).await {
                chat.note(&format!("to go on in the copy: /sandbox switch {new}"));
            }
        }
        ["rebuild", flags @ ..] => {
            if chat.aside(line(&["rebuild", "-t", &task], flags)).await {
                let words = "The user has made the sandbox anew: the workspace and the home directory are as they were; what was installed elsewhere is gone, and jobs that ran have ended.";
                remark(chat, words).await;
            }
        }
        ["stop", flags @ ..] => {
            if chat.aside(line(&["stop", "-t", &task], flags)).await {
                let words = "The user has stopped the sandbox: processes that ran in it have ended; files are as they were. The next command starts it again.";
                remark(chat, words).await;
            }
        }
        ["reset", flags @ ..] => {
            if chat.aside(line(&["rm", "--files", "-t", &task], flags)).await {
                let words = "The user has removed the sandbox with all that was in it: files, installed tools, jobs and the shell are gone. The next command begins in a new and empty one.";
                remark(chat, words).await;
            }
        }
        [other, ..] => unknown(chat, invocation, other),
    }
}

fn line(verb: &[&str], flags: &[&str]) -> Vec<String> {
    verb.iter().chain(flags).map(|word| (*word).to_owned()).collect()
}

fn unknown(chat: &mut Chat, invocation: &Invocation, word: &str) {
    let known = invocation.command.words.iter().map(|word| word.word);
    let advice = match nearest(word, known) {
        Some(meant) => format!("did you mean /sandbox {meant}?"),
        None => "/help sandbox lists what there is".to_owned(),
    };
    let problem = format!("/sandbox has no verb {word:?}");
    chat.trouble(&Trouble { problem, advice: vec![advice] });
}

/// Tells the model what became of the place it works in, if it knows of any.
async fn remark(chat: &mut Chat, words: &str) {
    let Some(conversation) = chat.conversation() else { return };
    if conversation.messages().is_empty() {
        return;
    }
    if let Err(error) = conversation.add_note(words).await {
        chat.trouble(&super::store::trouble(&error));
    }
}
