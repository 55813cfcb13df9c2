//! Commands on the sandbox and its jobs: `/sandbox`, `/jobs`, `/stop`.

use std::time::Duration;

use jiff::Timestamp;
use vestal_agent::slash::Invocation;
use vestal_runtime::{SandboxCommand, SandboxCommandError};
use vestal_sandbox::{Error, JobInfo, Sandbox, SandboxSummary, SummaryState, TaskName};
use vestal_tui::format;

use crate::chat::Chat;
use crate::commands::{self, report_usage_error};
use crate::host::{ChatError, OpenTarget};

pub(super) async fn sandbox(chat: &mut Chat, invocation: &Invocation) {
    let task = chat.info.sandbox.sandbox_task().to_string();
    let verb = match SandboxCommand::parse(&invocation.strs(), &task) {
        Ok(SandboxCommand::Show) => return show_sandbox(chat).await,
        Ok(SandboxCommand::Switch(task)) => return switch_sandbox(chat, task).await,
        Ok(SandboxCommand::Run(verb)) => verb,
        Err(SandboxCommandError::Incomplete(what)) => {
            return report_usage_error(chat, invocation, what);
        }
        Err(error) => {
            let advice = vec![error.advice()];
            return chat.show_error(&ChatError { problem: error.to_string(), advice });
        }
    };
    if !chat.run_host_command(verb.words).await {
        return;
    }
    if let Some(words) = verb.remark {
        remark(chat, words).await;
    }
    if let Some(hint) = verb.hint {
        chat.note(&hint);
    }
}

/// Adds a remark about the sandbox to the conversation, unless it is empty.
async fn remark(chat: &mut Chat, words: &str) {
    let Some(conversation) = chat.conversation() else { return };
    if conversation.messages().is_empty() {
        return;
    }
    if let Err(error) = conversation.add_note(words).await {
        chat.show_error(&crate::commands::conversations::store_error(&error));
    }
}

pub(super) async fn show_sandbox(chat: &mut Chat) {
    let task = chat.info.sandbox.sandbox_task();
    let engine = chat.agent.engine().clone();
    let looked = chat.wait_for("inspecting the sandbox", Box::pin(engine.inspect(&task))).await;
    let found = match looked {
        Ok(looked) => looked,
        Err(failure) => return chat.show_error(&failure),
    };
    let found = match found {
        Ok(found) => found,
        Err(Error::NoSandbox { .. }) => {
            return chat.note(&format!("{task} has no sandbox yet; the first command creates one"));
        }
        Err(error) => {
            return chat.show_error(&sandbox_error(&error));
        }
    };
    // The sandbox of the task comes before those of single processes.
    let Some(summary) = found.iter().min_by_key(|summary| summary.owned) else { return };
    let rows = sandbox_rows(summary, chat.info.sandbox.session(), Timestamp::now());
    commands::print_table(chat, &rows);
}

fn sandbox_rows(
    summary: &SandboxSummary,
    session: &str,
    now: Timestamp,
) -> Vec<(&'static str, String)> {
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
            0 => "none running".to_owned(),
            running => format!("{} (/jobs)", format::count(running as usize, "running job")),
        },
    ));
    rows.push((
        "snapshots",
        match summary.snapshots {
            0 => "none (/sandbox snapshot creates one)".to_owned(),
            kept => format!("{kept} (/sandbox snapshots)"),
        },
    ));
    if !summary.drift.is_empty() {
        let keys: Vec<&str> = summary.drift.iter().map(|drift| drift.key.as_str()).collect();
        rows.push((
            "drift",
            format!("created with different settings: {} (/sandbox rebuild)", keys.join(", ")),
        ));
    }
    if !summary.description.weakened.is_empty() {
        rows.push(("weakened by", summary.description.weakened.join(", ")));
    }
    if let Some(failure) = &summary.trouble {
        rows.push(("problem", failure.clone()));
    }
    rows
}

fn sandbox_state(summary: &SandboxSummary, now: Timestamp) -> String {
    let state = match summary.state {
        SummaryState::Running => "running",
        SummaryState::Unresponsive => "running, not responding; the next use repairs it",
        SummaryState::Stopped => "stopped; the next use starts it",
        SummaryState::Absent => "files only; the next use creates it",
        SummaryState::Unknown => "unknown",
    };
    let mut words = state.to_owned();
    if let Some(idle) = summary.idle {
        words = format!("{words}, idle for {}", format::clock(idle));
    }
    if let Some(expires) = summary.expires_at
        && let Ok(left) = Duration::try_from(expires.duration_since(now))
    {
        words = format!("{words}, stops in {} if unused", format::clock(left));
    }
    words
}

pub(super) async fn switch_sandbox(chat: &mut Chat, task: TaskName) {
    if task == *chat.info.sandbox.task() {
        return chat.note(&format!("already in the sandbox of {task}"));
    }
    let id = chat.info.id.clone();
    let from = chat.info.sandbox.task().clone();
    let Some(conversation) = chat.conversation() else { return };
    let what = if conversation.messages().is_empty() {
        // An empty conversation is not stored and cannot be resumed.
        let model = conversation.model().map(|model| format!("{}:{}", model.name, model.model));
        OpenTarget::New { task: Some(task.clone()), model, title: None }
    } else {
        OpenTarget::Resume { id, task: Some(task.clone()), model: None }
    };
    if let Err(failure) = chat.switch(what).await {
        return chat.show_error(&failure);
    }
    let words = SandboxCommand::switch_message(&from, &task);
    remark(chat, &words).await;
    let engine = chat.agent.engine().clone();
    let looked = chat.wait_for("inspecting the sandbox", Box::pin(engine.inspect(&task))).await;
    let is_there = looked.is_ok_and(|found| {
        found.is_ok_and(|found| found.iter().any(|summary| summary.state != SummaryState::Absent))
    });
    let made = if is_there { "" } else { ", which the first command creates" };
    chat.note(&format!(
        "the agent now works in the sandbox of {task}{made}; to go back: /sandbox switch {from}"
    ));
}

pub(super) async fn jobs(chat: &mut Chat, invocation: &Invocation) {
    let task = chat.info.sandbox.sandbox_task().to_string();
    let words: Vec<&str> = match invocation.strs()[..] {
        ["follow" | "logs", job] => vec!["logs", "-f", "-t", &task, job],
        ["kill", job] => vec!["kill", "-t", &task, job],
        ["follow" | "logs" | "kill"] => {
            return report_usage_error(chat, invocation, "which job?");
        }
        [job] if !job.starts_with('-') => vec!["logs", "-f", "-t", &task, job],
        ref flags => ["jobs", "-t", &task].into_iter().chain(flags.iter().copied()).collect(),
    };
    let words = words.into_iter().map(str::to_owned).collect();
    chat.run_host_command(words).await;
}

/// Jobs that are listed in the question.
const NAMED: usize = 5;

/// Characters of a command that are shown.
const COMMAND: usize = 50;

/// Interrupts the running turn; if there is none, ends the background jobs of this
/// conversation after a confirmation.
pub(super) async fn stop(chat: &mut Chat, invocation: &Invocation) {
    if chat.slot.running().is_some() {
        return chat.interrupt();
    }
    match invocation.strs().as_slice() {
        [] => offer_to_stop(chat).await,
        ["--yes" | "-y"] => end_jobs(chat).await,
        _ => report_usage_error(chat, invocation, "unknown argument"),
    }
}

async fn offer_to_stop(chat: &mut Chat) {
    let conversation_sandbox = chat.info.sandbox.clone();
    let nothing = "nothing to stop: this conversation has no running turn and no background job";
    // A sandbox that was never used has no jobs and must not be started for this.
    let Some(sandbox) = conversation_sandbox.attached() else { return chat.note(nothing) };
    let Some(jobs) = background_jobs(chat, &sandbox, conversation_sandbox.session()).await else {
        return;
    };
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
    let conversation_sandbox = chat.info.sandbox.clone();
    let Some(sandbox) = conversation_sandbox.attached() else {
        return chat.note("nothing is running");
    };
    let Some(jobs) = background_jobs(chat, &sandbox, conversation_sandbox.session()).await else {
        return;
    };
    let mut ended = 0;
    for job in jobs {
        match chat.wait_for("ending background jobs", Box::pin(sandbox.kill(&job.id))).await {
            Ok(Ok(_)) => ended += 1,
            Ok(Err(error)) => chat.show_error(&sandbox_error(&error)),
            Err(failure) => {
                chat.show_error(&failure);
                break;
            }
        }
    }
    chat.monitor.refresh();
    chat.note(&format!("{} ended", format::count(ended, "background job")));
}

/// Returns the background jobs of this conversation, or prints why they cannot be listed.
async fn background_jobs(
    chat: &mut Chat,
    sandbox: &Sandbox,
    session: &str,
) -> Option<Vec<JobInfo>> {
    let asked = Box::pin(sandbox.jobs_of_session(session));
    let failure = match chat.wait_for("listing background jobs", asked).await {
        Ok(Ok(jobs)) => return Some(jobs),
        Ok(Err(error)) => sandbox_error(&error),
        Err(failure) => failure,
    };
    chat.show_error(&failure);
    None
}

/// Converts an error of the sandbox.
pub(super) fn sandbox_error(error: &vestal_sandbox::Error) -> ChatError {
    let advice =
        vec!["/sandbox shows its state; `vestal doctor` checks what works here".to_owned()];
    ChatError { problem: error.to_string(), advice }
}
