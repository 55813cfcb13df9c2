//! `/jobs`: the verbs of the command line, for this conversation's sandbox.

use vestal_agent::slash::Invocation;

use super::misused;
use crate::chat::Chat;

pub(super) async fn run(chat: &mut Chat, invocation: &Invocation) {
    let task = chat.about.workshop.sandbox_task().to_string();
    let words: Vec<&str> = match invocation.strs()[..] {
        ["follow" | "logs", job] => vec!["logs", "-f", "-t", &task, job],
        ["kill", job] => vec!["kill", "-t", &task, job],
        ["follow" | "logs" | "kill"] => {
            return misused(chat, invocation, "which job is meant?");
        }
        [job] if !job.starts_with('-') => vec!["logs", "-f", "-t", &task, job],
        ref flags => ["jobs", "-t", &task].into_iter().chain(flags.iter().copied()).collect(),
    };
    let words = words.into_iter().map(str::to_owned).collect();
    chat.aside(words).await;
}
