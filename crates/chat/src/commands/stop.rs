//! `/stop`.

use vestal_agent::slash::Invocation;
use vestal_sandbox::Sandbox;
use vestal_wire::JobInfo;

use super::{ask, misused};
use crate::chat::Chat;
use crate::program::Trouble;
use crate::text;

/// Commands of jobs that are named in the question.
const NAMED: usize = 5;

/// Characters of a command that are shown.
const COMMAND: usize = 50;

/// Interrupts what runs; if nothing does, ends the background jobs of this
/// conversation, after a question.
pub(super) async fn run(chat: &mut Chat, invocation: &Invocation) {
    if chat.talk.running().is_some() {
        return chat.interrupt();
    }
    match invocation.strs().as_slice() {
        [] => offer(chat).await,
        ["--yes" | "-y"] => end(chat).await,
        _ => misused(chat, invocation, "that is not understood"),
    }
}

async fn offer(chat: &mut Chat) {
    let workshop = chat.about.workshop.clone();
    let nothing = "nothing runs: neither a turn nor a background job of this conversation";
    // What was never used has no jobs, and is not to be started for that.
    let Some(sandbox) = workshop.attached() else { return chat.note(nothing) };
    let Some(jobs) = jobs(chat, &sandbox, workshop.session()).await else { return };
    if jobs.is_empty() {
        return chat.note(nothing);
    }
    let redactor = chat.agent.redactor();
    let mut named: Vec<String> = jobs
        .iter()
        .take(NAMED)
        .map(|job| {
            let command = redactor.redact(&job.summary).into_owned();
            let command = command.split_whitespace().collect::<Vec<_>>().join(" ");
            match command.char_indices().nth(COMMAND) {
                Some((end, _)) => format!("  {}  {}…", job.id, &command[..end]),
                None => format!("  {}  {command}", job.id),
            }
        })
        .collect();
    if jobs.len() > NAMED {
        named.push(format!("  … {} more", jobs.len() - NAMED));
    }
    let question = format!(
        "End {} of this conversation?\n{}",
        text::count(jobs.len(), "background job"),
        named.join("\n")
    );
    ask::confirm(chat, &question, "/stop --yes".to_owned());
}

async fn end(chat: &mut Chat) {
    let workshop = chat.about.workshop.clone();
    let Some(sandbox) = workshop.attached() else { return chat.note("nothing runs") };
    let Some(jobs) = jobs(chat, &sandbox, workshop.session()).await else { return };
    let mut ended = 0;
    for job in jobs {
        match chat.wait_for("ending background jobs", Box::pin(sandbox.kill(&job.id))).await {
            Ok(Ok(_)) => ended += 1,
            Ok(Err(error)) => chat.trouble(&in_words(&error)),
            Err(trouble) => {
                chat.trouble(&trouble);
                break;
            }
        }
    }
    chat.watch.look();
    chat.note(&format!("{} ended", text::count(ended, "background job")));
}

/// Returns the background jobs of this conversation; nothing, and why is said,
/// where the sandbox does not tell.
async fn jobs(chat: &mut Chat, sandbox: &Sandbox, session: &str) -> Option<Vec<JobInfo>> {
    let asked = Box::pin(sandbox.jobs_of_session(session));
    let trouble = match chat.wait_for("looking for background jobs", asked).await {
        Ok(Ok(jobs)) => return Some(jobs),
        Ok(Err(error)) => in_words(&error),
        Err(trouble) => trouble,
    };
    chat.trouble(&trouble);
    None
}

/// Returns why the sandbox did not do something.
pub(super) fn in_words(error: &vestal_sandbox::Error) -> Trouble {
    let advice = vec!["/sandbox says how it is, `vestal doctor` what works here".to_owned()];
    Trouble { problem: error.to_string(), advice }
}
