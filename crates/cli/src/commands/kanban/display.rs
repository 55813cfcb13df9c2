//! How tasks, changes of tasks and their workers are shown to people.

use std::fmt::Write as _;
use std::future::Future;

use anstyle::Style;
use jiff::{Timestamp, Zoned};
use vestal_api::{BulkMovedView, MovedView, WorkerEnd};
use vestal_board::verbs::Moved;
use vestal_board::{Board, Run, Status, Task, TaskId, Time};

use super::board_context::BoardContext;
use crate::console::{Console, DIM, GREEN, RED, YELLOW, text};
use crate::error::CommandFailure;
use crate::exit::Exit;

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
fn print_end(console: Console, run: &Run, end: WorkerEnd) {
    let host = run.host_name().map_or("another host", |host| host.as_str());
    match end {
        WorkerEnd::None => {}
        WorkerEnd::Stopped => console.note(&format!("the worker of run {} was stopped", run.id)),
        WorkerEnd::Elsewhere => console.note(&format!(
            "the worker of run {} is on {host}; it stops at its next heartbeat, or when a dispatcher there sees it",
            run.id
        )),
        WorkerEnd::Survives => console.warn(&format!(
            "the worker of run {} could not be stopped; it can no longer write to the board, and dispatchers keep trying",
            run.id
        )),
    }
}

/// A change that was made, and the words for it.
#[derive(Debug)]
pub(super) struct ShownChange {
    moved: Moved,
    /// What was done, to be read before the name of the task.
    done: &'static str,
    /// The reason, if one was given.
    why: Option<String>,
}

impl ShownChange {
    pub(super) fn new(moved: Moved, done: &'static str) -> Self {
        Self { moved, done, why: None }
    }

    /// Returns a change that moved nothing else and ended nothing.
    pub(super) fn alone(task: Task, done: &'static str) -> Self {
        Self::ending(task, None, done)
    }

    /// Returns a change that moved nothing else and ended this.
    pub(super) fn ending(task: Task, ended: Option<Run>, done: &'static str) -> Self {
        Self::new(Moved { task, ended, promoted: Vec::new() }, done)
    }

    /// Adds why.
    pub(super) fn because(mut self, why: Option<String>) -> Self {
        self.why = why;
        self
    }
}

/// A change whose worker, if there was one, has been seen to.
#[derive(Debug)]
struct SettledChange {
    task: Task,
    promoted: Vec<TaskId>,
    ended: Option<(Run, WorkerEnd)>,
    done: &'static str,
    why: Option<String>,
}

/// Sees to the worker that lost its task by a change: one on this host is
/// stopped at once, so that nobody pays for work that counts no more.
async fn settle(ctx: &BoardContext<'_>, board: &Board, step: ShownChange) -> SettledChange {
    let ShownChange { moved: Moved { task, ended, promoted }, done, why } = step;
    let ended = match ended {
        Some(run) => {
            // The change is made, whatever becomes of the worker.
            let end = ctx.stop(board, &run).await.unwrap_or_else(|failure| {
                ctx.console().warn(failure.message().unwrap_or_default());
                WorkerEnd::Survives
            });
            Some((run, end))
        }
        None => None,
    };
    SettledChange { task, promoted, ended, done, why }
}

/// As [`settle`], and says what came of it.
pub(super) async fn finish(
    ctx: &BoardContext<'_>,
    board: &Board,
    step: ShownChange,
    json: bool,
) -> Result<Exit, CommandFailure> {
    let settled = settle(ctx, board, step).await;
    if json {
        ctx.print(&settled.view())?;
    } else {
        settled.print(ctx)?;
    }
    Ok(Exit::Success)
}

impl SettledChange {
    pub(super) fn view(&self) -> MovedView {
        let ended = self.ended.as_ref().map(|(run, end)| (run.id, *end));
        MovedView::new(&self.task, ended, &self.promoted)
    }

    /// Says it to people: a line for the task, and notes for the rest.
    pub(super) fn print(&self, ctx: &BoardContext<'_>) -> Result<(), CommandFailure> {
        let console = ctx.console();
        let task = &self.task;
        let mut line = format!("{} {}", self.done, task.id);
        let mut facts = vec![painted_status(console, task.status)];
        if task.status == Status::Ready
            && let Some(assignee) = &task.assignee
        {
            facts.push(format!("assignee {assignee}"));
        }
        if let Some(wake) = task.wake_at {
            facts.push(format!("goes on {}", moment(wake)));
        }
        // Writing to a string cannot fail.
        write!(line, "  ({})", facts.join(", ")).ok();
        if let Some(why) = &self.why {
            line.push_str(&console.paint(DIM, &format!("  {}", text::printable(why))));
        }
        console.print(&line)?;
        if let Some(why) = &task.attention {
            console.note(&format!("{} needs you: {why}", task.id));
        }
        if !self.promoted.is_empty() {
            let names: Vec<&str> = self.promoted.iter().map(TaskId::as_str).collect();
            console.note(&format!("now ready: {}", names.join(", ")));
        }
        if let Some((run, end)) = &self.ended {
            print_end(console, run, *end);
        }
        Ok(())
    }
}

/// Changes each of the named tasks on its own, prints the results, and returns success only if
/// all changes succeeded.
pub(super) async fn for_each_task<F>(
    ctx: &BoardContext<'_>,
    names: &[String],
    json: bool,
    act: impl Fn(Board, TaskId) -> F,
) -> Result<Exit, CommandFailure>
where
    F: Future<Output = vestal_board::Result<ShownChange>>,
{
    let mut views = Vec::with_capacity(names.len());
    let mut exit = Exit::Success;
    for name in names {
        let done = async {
            let (board, id) = ctx.task(name).await?;
            let step = act(board.clone(), id).await?;
            Ok::<_, CommandFailure>(settle(ctx, &board, step).await)
        };
        match done.await {
            Ok(settled) => {
                if !json {
                    settled.print(ctx)?;
                }
                views.push(BulkMovedView::Moved(Box::new(settled.view())));
            }
            Err(failure) => {
                ctx.console().explain(&failure);
                exit = worse(exit, failure.exit());
                let error = failure.message().unwrap_or_default().to_owned();
                views.push(BulkMovedView::Failed { task_id: name.clone(), error });
            }
        }
    }
    if json {
        ctx.print(&views)?;
    }
    Ok(exit)
}

/// Returns the worse of two ends: a failure of ours hides a refusal.
pub(super) fn worse(one: Exit, other: Exit) -> Exit {
    if other.code() > one.code() { other } else { one }
}
