//! `/sandbox`: where the agent works.

use std::time::Duration;

use jiff::Timestamp;
use vestal_sandbox::{Error, Summary, SummaryState};

use super::super::{stop::in_words, table};
use crate::chat::Chat;
use crate::text;

pub(super) async fn run(chat: &mut Chat) {
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
            return chat.trouble(&in_words(&error));
        }
    };
    // That of the task, before those that belong to single processes.
    let Some(summary) = found.iter().min_by_key(|summary| summary.owned) else { return };
    let rows = rows(summary, chat.about.workshop.session(), Timestamp::now());
    table::say(chat, &rows);
}

fn rows(summary: &Summary, session: &str, now: Timestamp) -> Vec<(&'static str, String)> {
    let mut rows = vec![("task", summary.task.clone())];
    let mut backend = summary.backend.clone();
    if let Some(tier) = &summary.description.tier {
        backend = format!("{backend}, {tier}");
    }
    if let Some(image) = &summary.image {
        backend = format!("{backend}, image {image}");
    }
    rows.push(("backend", backend));
    rows.push(("state", state(summary, now)));
    rows.push(("files", summary.dir.display().to_string()));
    if let Some(mount) = &summary.overrides.mount {
        rows.push(("mounted", mount.display().to_string()));
    }
    rows.push(("shell", session.to_owned()));
    rows.push((
        "jobs",
        match summary.jobs_running {
            0 => "none runs".to_owned(),
            running => format!("{} (/jobs)", text::count(running as usize, "running job")),
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

fn state(summary: &Summary, now: Timestamp) -> String {
    let state = match summary.state {
        SummaryState::Running => "runs",
        SummaryState::Unresponsive => "runs and does not answer; its next use mends that",
        SummaryState::Stopped => "stopped; its next use starts it",
        SummaryState::Absent => "has files and does not run; its next use makes it",
        SummaryState::Unknown => "unknown",
    };
    let mut words = state.to_owned();
    if let Some(idle) = summary.idle {
        words = format!("{words}, idle for {}", text::span(idle));
    }
    if let Some(expires) = summary.expires_at
        && let Ok(left) = Duration::try_from(expires.duration_since(now))
    {
        words = format!("{words}, ends in {} if nobody uses it", text::span(left));
    }
    words
}
