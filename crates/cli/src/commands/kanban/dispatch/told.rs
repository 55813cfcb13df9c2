//! What a dispatch did, or would do, for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use vestal_board::dispatch::{Bucket, DispatchResult};

use crate::commands::kanban::desk::Desk;
use crate::commands::kanban::look;
use crate::console::{DIM, GREEN, YELLOW, text};
use crate::error::Failure;

/// Whether something was done, or would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mood {
    Done,
    Planned,
}

/// Prints it.
pub(super) fn print(
    desk: &Desk<'_>,
    result: &DispatchResult,
    default_assignee: Option<&str>,
    mood: Mood,
) -> Result<(), Failure> {
    let console = desk.console();
    if result.skipped_locked {
        console.note("another dispatcher of this host is at work; nothing was done");
        return Ok(());
    }
    let counter = |name: &str, count: u64, names: &str| {
        let name = format!("{:<14}", format!("{name}:"));
        console.print(format!("{name}{count}  {}", console.paint(DIM, names)).trim_end())
    };
    counter("Reclaimed", result.reclaimed, "")?;
    for (name, bucket) in [
        ("Crashed", &result.crashed),
        ("No report", &result.no_report),
        ("Timed out", &result.timed_out),
        ("Stale", &result.stale),
        ("Rate limited", &result.rate_limited),
        ("Auto-blocked", &result.auto_blocked),
    ] {
        counter(name, bucket.count, &listed(bucket, ToString::to_string))?;
    }
    counter("Promoted", result.promoted, "")?;
    let started = match mood {
        Mood::Done => "Spawned",
        Mood::Planned => "Would start",
    };
    counter(started, result.spawned.count, "")?;
    for started in &result.spawned.entries {
        let place = match (mood, started.workspace.as_str()) {
            (Mood::Planned, _) => "- (dry)".to_owned(),
            (Mood::Done, "") => "-".to_owned(),
            (Mood::Done, place) => text::printable(place),
        };
        let name = console.paint(GREEN, &started.assignee);
        console.print(&format!("  - {}  ->  {name}  @ {place}", started.task_id))?;
    }
    more(desk, &result.spawned)?;
    waiting(desk, result, default_assignee)
}

/// Prints what was left for later, and why.
fn waiting(
    desk: &Desk<'_>,
    result: &DispatchResult,
    default_assignee: Option<&str>,
) -> Result<(), Failure> {
    let console = desk.console();
    let line = |what: &str, names: &str| {
        console.print(&format!("{}: {names}", console.paint(YELLOW, what)))
    };
    let named = |what: &str, bucket: &Bucket<_>| {
        if bucket.is_empty() { Ok(()) } else { line(what, &listed(bucket, ToString::to_string)) }
    };
    let assigned =
        format!("Auto-assigned to kanban.default_assignee='{}'", default_assignee.unwrap_or("-"));
    named(&assigned, &result.auto_assigned_default)?;
    named("Skipped (unassigned)", &result.skipped_unassigned)?;
    named("Skipped (no such profile; to be claimed by hand)", &result.skipped_nonspawnable)?;
    named("Skipped (its directory is in use by another task)", &result.skipped_workspace_busy)?;
    named("Skipped (its directory is on another host)", &result.skipped_other_host)?;
    let mut capped: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (task, profile, running) in &result.skipped_per_profile_capped.entries {
        let why = format!("Deferred ({profile} at per-profile cap, {running} running)");
        capped.entry(why).or_default().push(task.to_string());
    }
    for held in &result.skipped_capped.entries {
        let why = format!("Deferred ({} cap reached, {} running)", held.by, held.current);
        capped.entry(why).or_default().push(held.task_id.to_string());
    }
    for (why, tasks) in &capped {
        line(why, &tasks.join(", "))?;
    }
    more(desk, &result.skipped_per_profile_capped)?;
    more(desk, &result.skipped_capped)?;
    let mut guarded: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for held in &result.respawn_guarded.entries {
        let when = format!("{} ({})", held.task_id, look::ago(held.until));
        guarded.entry(&held.reason).or_default().push(when);
    }
    for (reason, tasks) in &guarded {
        line(&format!("Waiting ({reason})"), &tasks.join(", "))?;
    }
    more(desk, &result.respawn_guarded)
}

/// Returns the entries of a bucket, and how many more there are.
fn listed<T>(bucket: &Bucket<T>, shown: impl Fn(&T) -> String) -> String {
    let mut names = bucket.entries.iter().map(shown).collect::<Vec<_>>().join(", ");
    let more = bucket.count.saturating_sub(bucket.entries.len() as u64);
    if more > 0 {
        // Writing to a string cannot fail.
        write!(names, " and {more} more").ok();
    }
    names
}

fn more<T>(desk: &Desk<'_>, bucket: &Bucket<T>) -> Result<(), Failure> {
    match bucket.count.saturating_sub(bucket.entries.len() as u64) {
        0 => Ok(()),
        more => desk.console().print(&format!("  … and {more} more (--all lists them)")),
    }
}
