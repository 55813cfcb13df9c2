//! Commands on the sandbox and its jobs: `/sandbox`, `/jobs`, `/stop`.

use std::time::Duration;

use jiff::Timestamp;
use vestal_agent::slash::{Invocation, nearest};
use vestal_sandbox::{Error, Sandbox, Summary, SummaryState, Task};
use vestal_wire::JobInfo;

use crate::chat::Chat;
use crate::commands::{self, misused};
use crate::format;
use crate::host::{Open, Trouble};

pub(super) async fn sandbox(chat: &mut Chat, invocation: &Invocation) {
    let task = chat.about.workshop.sandbox_task().to_string();
    let words = invocation.strs();
    match words.as_slice() {
        [] | ["show"] => show_sandbox(chat).await,
        ["switch", task] => switch_sandbox(chat, task).await,
        ["switch", ..] => misused(chat, invocation, "which task is meant?"),
        ["snapshots", flags @ ..] => {
            chat.aside(command_line(&["snapshots", "list", "-t", &task], flags)).await;
        }
        ["snapshot", name, flags @ ..] if !name.starts_with('-') => {
            chat.aside(command_line(&["snapshot", "-t", &task, "--name", name], flags)).await;
        }
        ["snapshot", flags @ ..] => {
            chat.aside(command_line(&["snapshot", "-t", &task], flags)).await;
        }
        ["restore"] => {
            misused(chat, invocation, "which snapshot is meant? /sandbox snapshots lists them");
        }
        ["restore", flags @ ..] => {
            if chat.aside(command_line(&["restore", &task], flags)).await {
                let words = "The user has put the sandbox back to an earlier state: files, installed tools and the shell are as they were then, and jobs that ran have ended.";
                remark(chat, words).await;
            }
        }
        ["fork"] => misused(chat, invocation, "what is the new task to be called?"),
        ["fork", new, flags @ ..] => {
            if chat.aside(command_line(&["fork", &task, new], flags)).await {
                chat.note(&format!("to go on in the copy: /sandbox switch {new}"));
            }
        }
        ["rebuild", flags @ ..] => {
            if chat.aside(command_line(&["rebuild", "-t", &task], flags)).await {
                let words = "The user has made the sandbox anew: the workspace and the home directory are as they were; what was installed elsewhere is gone, and jobs that ran have ended.";
                remark(chat, words).await;
            }
        }
        ["stop", flags @ ..] => {
            if chat.aside(command_line(&["stop", "-t", &task], flags)).await {
                let words = "The user has stopped the sandbox: processes that ran in it have ended; files are as they were. The next command starts it again.";
                remark(chat, words).await;
            }
        }
        ["reset", flags @ ..] => {
            if chat.aside(command_line(&["rm", "--files", "-t", &task], flags)).await {
                let words = "The user has removed the sandbox with all that was in it: files, installed tools, jobs and the shell are gone. The next command begins in a new and empty one.";
                remark(chat, words).await;
            }
        }
        [other, ..] => unknown(chat, invocation, other),
    }
}

fn command_line(verb: &[&str], flags: &[&str]) -> Vec<String> {
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
    if let Err(error) = conversation.remark(words).await {
        chat.trouble(&crate::commands::conversations::store_trouble(&error));
    }
}

pub(super) async fn show_sandbox(chat: &mut Chat) {
    let task = chat.about.workshop.sandbox_task();
    let engine = chat.agent.engine().clone();
    let looked = chat.wait_for("looking at the sandbox", Box::pin(engine.inspect(&task))).await;
    let found = match looked {
        Ok(looked) => looked,
        Err(trouble) => return chat.trouble(&trouble),
    };
    let found = match found {
        Ok(found) => found,
        Err(Error::NoSandbox { .. }) => {
            return chat.note(&format!("{task} has no sandbox yet; the first command makes one"));
        }
        Err(error) => {
            return chat.trouble(&sandbox_trouble(&error));
        }
    };
    // That of the task, before those that belong to single processes.
    let Some(summary) = found.iter().min_by_key(|summary| summary.owned) else { return };
    let rows = sandbox_rows(summary, chat.about.workshop.session(), Timestamp::now());
    commands::say_table(chat, &rows);
}

fn sandbox_rows(summary: &Summary, session: &str, now: Timestamp) -> Vec<(&'static str, String)> {
    let mut rows = vec![("task", summary.task.clone())];
    let mut backend = summary.backend.clone();
    if let Some(tier) = &summary.description.tier {
        backend = format!("{backend}, {tier}");
    }
    if let Some(image) = &summary.image {
        backend = format!("{backend}, image {image}");
    }
    rows.push(("backend", backend));
    rows.push(("state", sandbox_state(summary, now)));
    rows.push(("files", summary.dir.display().to_string()));
    if let Some(mount) = &summary.overrides.mount {
        rows.push(("mounted", mount.display().to_string()));
    }
    rows.push(("shell", session.to_owned()));
    rows.push((
        "jobs",
        match summary.jobs_running {
            0 => "none runs".to_owned(),
            running => format!("{} (/jobs)", format::count(running as usize, "running job")),
        },
    ));
    rows.push((
        "snapshots",
        match summary.snapshots {
            0 => "none (/sandbox snapshot keeps one)".to_owned(),
            kept => format!("{kept} (/sandbox snapshots)"),
        },
    ));
    if !summary.drift.is_empty() {
        let keys: Vec<&str> = summary.drift.iter().map(|drift| drift.key.as_str()).collect();
        rows.push((
            "drift",
            format!("made with other settings: {} (/sandbox rebuild)", keys.join(", ")),
        ));
    }
    if !summary.description.weakened.is_empty() {
        rows.push(("weakened by", summary.description.weakened.join(", ")));
    }
    if let Some(trouble) = &summary.trouble {
        rows.push(("trouble", trouble.clone()));
    }
    rows
}

fn sandbox_state(summary: &Summary, now: Timestamp) -> String {
    let state = match summary.state {
        SummaryState::Running => "runs",
        SummaryState::Unresponsive => "runs and does not answer; its next use mends that",
        SummaryState::Stopped => "stopped; its next use starts it",
        SummaryState::Absent => "has files and does not run; its next use makes it",
        SummaryState::Unknown => "unknown",
    };
    let mut words = state.to_owned();
    if let Some(idle) = summary.idle {
        words = format!("{words}, idle for {}", format::span(idle));
    }
    if let Some(expires) = summary.expires_at
        && let Ok(left) = Duration::try_from(expires.duration_since(now))
    {
        words = format!("{words}, ends in {} if nobody uses it", format::span(left));
    }
    words
}

pub(super) async fn switch_sandbox(chat: &mut Chat, name: &str) {
    let task: Task = match name.parse() {
        Ok(task) => task,
        Err(error) => {
            let problem = format!("{error}");
            return chat.trouble(&Trouble { problem, advice: Vec::new() });
        }
    };
    if task == *chat.about.workshop.task() {
        return chat.note(&format!("this is where it works: {task}"));
    }
    let id = chat.about.id.clone();
    let from = chat.about.workshop.task().clone();
    let Some(conversation) = chat.conversation() else { return };
    let what = if conversation.messages().is_empty() {
        // One in which nothing was said is not kept: there is nothing to resume.
        let model = conversation.model().map(|model| format!("{}:{}", model.name, model.model));
        Open::New { task: Some(task.clone()), model, title: None }
    } else {
        Open::Resume { id, task: Some(task.clone()), model: None }
    };
    if let Err(trouble) = chat.switch(what).await {
        return chat.trouble(&trouble);
    }
    let words = format!(
        "The user has moved this conversation to another sandbox, that of the task {task}. Files, tools, jobs and the shell that you knew are in the sandbox of the task {from}, which you do not see any more."
    );
    remark(chat, &words).await;
    let engine = chat.agent.engine().clone();
    let looked = chat.wait_for("looking at the sandbox", Box::pin(engine.inspect(&task))).await;
    let is_there = looked.is_ok_and(|found| {
        found.is_ok_and(|found| found.iter().any(|summary| summary.state != SummaryState::Absent))
    });
    let made = if is_there { "" } else { ", which is made by the first command" };
    chat.note(&format!(
        "it works in the sandbox of {task} from now on{made}; back: /sandbox switch {from}"
    ));
}

pub(super) async fn jobs(chat: &mut Chat, invocation: &Invocation) {
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

/// Commands of jobs that are named in the question.
const NAMED: usize = 5;

/// Characters of a command that are shown.
const COMMAND: usize = 50;

/// Interrupts what runs; if nothing does, ends the background jobs of this
/// conversation, after a question.
pub(super) async fn stop(chat: &mut Chat, invocation: &Invocation) {
    if chat.talk.running().is_some() {
        return chat.interrupt();
    }
    match invocation.strs().as_slice() {
        [] => offer_to_stop(chat).await,
        ["--yes" | "-y"] => end_jobs(chat).await,
        _ => misused(chat, invocation, "that is not understood"),
    }
}

async fn offer_to_stop(chat: &mut Chat) {
    let workshop = chat.about.workshop.clone();
    let nothing = "nothing runs: neither a turn nor a background job of this conversation";
    // What was never used has no jobs, and is not to be started for that.
    let Some(sandbox) = workshop.attached() else { return chat.note(nothing) };
    let Some(jobs) = background_jobs(chat, &sandbox, workshop.session()).await else { return };
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
        format::count(jobs.len(), "background job"),
        named.join("\n")
    );
    commands::confirm(chat, &question, "/stop --yes".to_owned());
}

async fn end_jobs(chat: &mut Chat) {
    let workshop = chat.about.workshop.clone();
    let Some(sandbox) = workshop.attached() else { return chat.note("nothing runs") };
    let Some(jobs) = background_jobs(chat, &sandbox, workshop.session()).await else { return };
    let mut ended = 0;
    for job in jobs {
        match chat.wait_for("ending background jobs", Box::pin(sandbox.kill(&job.id))).await {
            Ok(Ok(_)) => ended += 1,
            Ok(Err(error)) => chat.trouble(&sandbox_trouble(&error)),
            Err(trouble) => {
                chat.trouble(&trouble);
                break;
            }
        }
    }
    chat.watch.look();
    chat.note(&format!("{} ended", format::count(ended, "background job")));
}

/// Returns the background jobs of this conversation; nothing, and why is said,
/// where the sandbox does not tell.
async fn background_jobs(
    chat: &mut Chat,
    sandbox: &Sandbox,
    session: &str,
) -> Option<Vec<JobInfo>> {
    let asked = Box::pin(sandbox.jobs_of_session(session));
    let trouble = match chat.wait_for("looking for background jobs", asked).await {
        Ok(Ok(jobs)) => return Some(jobs),
        Ok(Err(error)) => sandbox_trouble(&error),
        Err(trouble) => trouble,
    };
    chat.trouble(&trouble);
    None
}

/// Returns why the sandbox did not do something.
pub(super) fn sandbox_trouble(error: &vestal_sandbox::Error) -> Trouble {
    let advice = vec!["/sandbox says how it is, `vestal doctor` what works here".to_owned()];
    Trouble { problem: error.to_string(), advice }
}
