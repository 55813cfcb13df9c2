//! How tasks look to people.

use anstyle::Style;
use jiff::{Timestamp, Zoned};
use vestal_api::WorkerEnd;
use vestal_board::{Run, Status, Task, Time};

use crate::console::{Console, DIM, GREEN, RED, YELLOW, text};

/// Returns the sign of a status.
pub(super) const fn icon(status: Status) -> &'static str {
    match status {
        Status::Triage => "?",
        Status::Todo => "◌",
        Status::Scheduled => "◷",
        Status::Ready => "▶",
        Status::Running => "●",
        Status::Blocked => "⊘",
        Status::Review => "◎",
        Status::Done => "✓",
        Status::Archived => "–",
    }
}

/// Returns how a status is shown.
pub(super) fn style(status: Status) -> Style {
    match status {
        Status::Ready | Status::Running | Status::Done => GREEN,
        Status::Triage | Status::Review => YELLOW,
        Status::Blocked => RED,
        Status::Todo | Status::Scheduled | Status::Archived => DIM,
    }
}

/// Returns a status with its colour.
pub(super) fn painted_status(console: Console, status: Status) -> String {
    console.paint(style(status), status.as_str())
}

/// Returns who is assigned, for people.
pub(super) fn assignee(task: &Task) -> String {
    task.assignee.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string)
}

/// Returns a title, with the tenant it belongs to.
pub(super) fn title(task: &Task) -> String {
    match &task.tenant {
        Some(tenant) => format!("[{tenant}] {}", task.title),
        None => task.title.clone(),
    }
}

/// Returns a moment by the clock of this machine; nothing for one that no
/// calendar has.
fn timestamp(at: Time) -> Option<Timestamp> {
    Timestamp::from_millisecond(at.millis()).ok()
}

/// Returns how long ago a moment was, or how far off it is.
pub(super) fn ago(at: Time) -> String {
    timestamp(at).map_or_else(|| "-".to_owned(), |at| text::ago(at, Timestamp::now()))
}

/// Returns a moment as people here write it, and how far off it is.
pub(super) fn moment(at: Time) -> String {
    let Some(then) = timestamp(at) else { return "-".to_owned() };
    let zone = Zoned::now().time_zone().clone();
    let clock = then.to_zoned(zone).strftime("%Y-%m-%d %H:%M").to_string();
    format!("{clock}, {}", text::ago(then, Timestamp::now()))
}

/// Returns the clock time of a moment, for lines that come one after the other.
pub(super) fn clock(at: Time) -> String {
    let zone = Zoned::now().time_zone().clone();
    timestamp(at).map_or_else(
        || "--:--:--".to_owned(),
        |at| at.to_zoned(zone).strftime("%H:%M:%S").to_string(),
    )
}

/// Says what became of a worker whose task was taken from it.
pub(super) fn tell_end(console: Console, run: &Run, end: WorkerEnd) {
    let host = run.host_name().map_or("another host", |host| host.as_str());
    match end {
        WorkerEnd::None => {}
        WorkerEnd::Stopped => console.note(&format!("the worker of run {} was stopped", run.id)),
        WorkerEnd::Elsewhere => console.note(&format!(
            "the worker of run {} is on {host}; it stops at its next heartbeat, or when a dispatcher there sees it",
            run.id
        )),
        WorkerEnd::Survives => console.warn(&format!(
            "the worker of run {} could not be stopped; it can write nothing to the board any more, and a dispatcher goes on trying",
            run.id
        )),
    }
}
