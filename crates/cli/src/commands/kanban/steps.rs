//! What a change came to: where the task stands now, what else moved, and what
//! became of the worker that was at it.

use std::fmt::Write as _;

use vestal_api::{MovedView, WorkerEnd};
use vestal_board::verbs::Moved;
use vestal_board::{Board, Run, Status, Task, TaskId};

use super::desk::Desk;
use super::look;
use crate::console::{DIM, text};
use crate::error::Failure;
use crate::exit::Exit;

/// A change that was made, and the words for it.
#[derive(Debug)]
pub(super) struct Step {
    moved: Moved,
    /// What was done, to be read before the name of the task.
    done: &'static str,
    /// Why, where somebody said so.
    why: Option<String>,
}

impl Step {
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
pub(super) struct Settled {
    task: Task,
    promoted: Vec<TaskId>,
    ended: Option<(Run, WorkerEnd)>,
    done: &'static str,
    why: Option<String>,
}

/// Sees to the worker that lost its task by a change: one on this host is
/// stopped at once, so that nobody pays for work that counts no more.
pub(super) async fn settle(desk: &Desk<'_>, board: &Board, step: Step) -> Settled {
    let Step { moved: Moved { task, ended, promoted }, done, why } = step;
    let ended = match ended {
        Some(run) => {
            // The change is made, whatever becomes of the worker.
            let end = desk.stop(board, &run).await.unwrap_or_else(|failure| {
                desk.console().warn(failure.message().unwrap_or_default());
                WorkerEnd::Survives
            });
            Some((run, end))
        }
        None => None,
    };
    Settled { task, promoted, ended, done, why }
}

/// As [`settle`], and says what came of it.
pub(super) async fn finish(
    desk: &Desk<'_>,
    board: &Board,
    step: Step,
    json: bool,
) -> Result<Exit, Failure> {
    let settled = settle(desk, board, step).await;
    if json {
        desk.print(&settled.view())?;
    } else {
        settled.tell(desk)?;
    }
    Ok(Exit::Success)
}

impl Settled {
    pub(super) fn view(&self) -> MovedView {
        let ended = self.ended.as_ref().map(|(run, end)| (run.id, *end));
        MovedView::new(&self.task, ended, &self.promoted)
    }

    /// Says it to people: a line for the task, and notes for the rest.
    pub(super) fn tell(&self, desk: &Desk<'_>) -> Result<(), Failure> {
        let console = desk.console();
        let task = &self.task;
        let mut line = format!("{} {}", self.done, task.id);
        let mut facts = vec![look::painted_status(console, task.status)];
        if task.status == Status::Ready
            && let Some(assignee) = &task.assignee
        {
            facts.push(format!("assignee {assignee}"));
        }
        if let Some(wake) = task.wake_at {
            facts.push(format!("goes on {}", look::moment(wake)));
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
            look::tell_end(console, run, *end);
        }
        Ok(())
    }
}
