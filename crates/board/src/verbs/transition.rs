//! The one transaction of a verb.
//!
//! [`Board::begin`] opens it: it checks who asks and reads the task. The state
//! machine decides, and [`Transition::commit`] writes that down: the task, its
//! run, the events, and what it means for the tasks that wait for it. The commit
//! wakes all that follow the board. Dropped before, nothing happened.

use std::time::Duration;

use serde_json::{Value, json};

use super::machine::{self, RunEnding, TaskChange, TaskFacts};
use crate::error::{BoardRefusal, Error};
use crate::event::{Kind, NewTaskEvent};
use crate::id::{Authority, Fence, RunId, TaskId};
use crate::run::{Outcome, Role, Run};
use crate::store::{Read, Write};
use crate::task::{Status, Task};
use crate::time::Time;
use crate::{Board, Result};

/// How long a worker that has reported may take to exit.
const EXIT_GRACE: Duration = Duration::from_secs(30);

/// The result of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// The task as it is now.
    pub task: Task,
    /// The run that ended by this; its worker may live.
    pub ended: Option<Run>,
    /// The tasks that need not wait for this one any more and became ready.
    pub promoted: Vec<TaskId>,
}

/// Who may use a verb. The name of the verb is for the refusal.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Permit {
    /// A worker for the task it holds, and everybody else.
    Holder(&'static str),
    /// Everybody but workers.
    NoWorker(&'static str),
    /// A person; a dispatcher only where no person is waited for.
    Person(&'static str),
}

impl Permit {
    /// Refuses what is not for workers, before anything is read.
    pub(crate) fn check_caller(self, by: &Authority, id: &TaskId) -> Result<()> {
        match (self, by) {
            (Self::NoWorker(verb) | Self::Person(verb), Authority::Worker(_)) => {
                Err(BoardRefusal::NotYours { verb, task: id.clone() }.into())
            }
            _ => Ok(()),
        }
    }

    /// Refuses what `by` may not do with this task.
    pub(crate) fn check(self, by: &Authority, task: &Task) -> Result<()> {
        self.check_caller(by, &task.id)?;
        match (self, by) {
            (Self::Holder(verb), Authority::Worker(fence)) if fence.task != task.id => {
                Err(BoardRefusal::NotYours { verb, task: task.id.clone() }.into())
            }
            (Self::Holder(_), Authority::Worker(fence)) => check_fence(fence, task),
            (Self::Person(verb), Authority::Dispatcher(_)) if task.gate => {
                Err(BoardRefusal::Status { verb, task: task.id.clone(), status: task.status }
                    .into())
            }
            _ => Ok(()),
        }
    }
}

/// Returns the task that a worker holds.
pub(crate) async fn fenced(tx: &mut dyn Write, fence: &Fence) -> Result<Task> {
    let Some(task) = tx.task(&fence.task).await? else {
        return Err(lost(fence, None));
    };
    check_fence(fence, &task)?;
    Ok(task)
}

/// Refuses a worker that does not hold its task any more. Returns its task;
/// none: it is not a worker that asks.
pub(crate) async fn task_of_worker(tx: &mut dyn Write, by: &Authority) -> Result<Option<Task>> {
    match by.fence() {
        Some(fence) => fenced(tx, fence).await.map(Some),
        None => Ok(None),
    }
}

fn check_fence(fence: &Fence, task: &Task) -> Result<()> {
    let profile = task.running_as.as_ref();
    if task.current_run == Some(fence.run) && profile.is_none_or(|name| *name == fence.profile) {
        Ok(())
    } else {
        Err(lost(fence, Some(task)))
    }
}

/// Returns the error that a worker does not hold its task any more.
pub(crate) fn lost(fence: &Fence, task: Option<&Task>) -> Error {
    let now = task.and_then(|task| task.current_run).filter(|run| *run != fence.run);
    Error::Fenced { task: fence.task.clone(), run: fence.run, now }
}

/// A verb at work on a task: the open transaction, who asks, and the task as it
/// was found.
pub(crate) struct Transition<'b> {
    pub(crate) tx: Box<dyn Write + 'b>,
    pub(crate) state: TaskState,
    by: &'b Authority,
}

impl Board {
    /// Opens the transaction of a verb, if `by` may use it on the task.
    pub(crate) async fn begin<'b>(
        &'b self,
        by: &'b Authority,
        permit: Permit,
        id: &TaskId,
    ) -> Result<Transition<'b>> {
        permit.check_caller(by, id)?;
        let mut tx = self.write().await?;
        let state = TaskState::find(&mut *tx, id).await?;
        permit.check(by, &state.task)?;
        Ok(Transition { tx, state, by })
    }

    /// Changes a task as the state machine decides.
    pub(crate) async fn transition<E: Into<Error>>(
        &self,
        by: &Authority,
        permit: Permit,
        id: &TaskId,
        decide: impl FnOnce(&Task, TaskFacts<'_>) -> std::result::Result<TaskChange, E> + Send,
    ) -> Result<Moved> {
        let step = self.begin(by, permit, id).await?;
        let change = step.decide(decide)?;
        step.commit(change).await
    }
}

impl Transition<'_> {
    /// Asks the state machine what becomes of the task.
    pub(crate) fn decide<E: Into<Error>>(
        &self,
        decide: impl FnOnce(&Task, TaskFacts<'_>) -> std::result::Result<TaskChange, E>,
    ) -> Result<TaskChange> {
        decide(&self.state.task, self.state.facts(self.by)).map_err(Into::into)
    }

    /// Writes down what becomes of the task, for good.
    pub(crate) async fn commit(self, change: TaskChange) -> Result<Moved> {
        let Self { mut tx, state, by } = self;
        let moved = state.apply(&mut *tx, by, change).await?;
        tx.commit().await?;
        Ok(moved)
    }

    /// Returns what would become of the task. Nothing is committed.
    pub(crate) async fn preview(self, change: TaskChange) -> Result<Moved> {
        let Self { mut tx, state, by } = self;
        state.apply(&mut *tx, by, change).await
    }
}

/// A task, and what decides about its transitions.
pub(crate) struct TaskState {
    pub(crate) task: Task,
    /// The run that holds it, while one does.
    pub(crate) run: Option<Run>,
    reviewing: bool,
    now: Time,
}

impl TaskState {
    /// Reads a task and what decides about its way.
    pub(crate) async fn find(tx: &mut dyn Write, id: &TaskId) -> Result<Self> {
        let task = find(tx, id).await?;
        Self::of(tx, task).await
    }

    /// Reads what decides about a task's way.
    pub(crate) async fn of(tx: &mut dyn Write, task: Task) -> Result<Self> {
        let run = match task.current_run {
            Some(run) => tx.run(run).await?,
            None => None,
        };
        let rests = matches!(task.status, Status::Blocked | Status::Scheduled | Status::Triage);
        let reviewing = rests && tx.runs(&task.id, 1).await?.last().is_some_and(was_reviewing);
        Ok(Self { now: tx.now(), task, run, reviewing })
    }

    /// Returns what the machine has to know.
    pub(crate) fn facts<'a>(&'a self, by: &'a Authority) -> TaskFacts<'a> {
        TaskFacts { now: self.now, by, run: self.run.as_ref(), reviewing: self.reviewing }
    }

    /// Writes down what becomes of the task: the task, its run, the events, the
    /// comment, and what it means for the tasks that wait for it.
    pub(crate) async fn apply(
        self,
        tx: &mut dyn Write,
        by: &Authority,
        change: TaskChange,
    ) -> Result<Moved> {
        let Self { task: before, run, now, .. } = self;
        let mut moved = write(tx, by, &before, run, change, now).await?;
        moved.promoted = update_children(tx, &before, &moved.task).await?;
        Ok(moved)
    }
}

/// Returns a task, or the error that there is none.
pub(crate) async fn find(tx: &mut (dyn Read + '_), id: &TaskId) -> Result<Task> {
    let task = tx.task(id).await?;
    task.ok_or_else(|| Error::NotFound { wanted: id.as_str().to_owned() })
}

/// Reports whether a run that ended was a review without a conclusion.
pub(crate) fn was_reviewing(run: &Run) -> bool {
    run.role == Role::Review
        && !matches!(run.outcome, Some(Outcome::Completed | Outcome::ChangesRequested))
}

/// Records an event of a task.
pub(crate) async fn record(
    tx: &mut dyn Write,
    task: &TaskId,
    run: Option<RunId>,
    kind: Kind,
    payload: Value,
) -> Result<()> {
    tx.add_events(&[NewTaskEvent { task: task.clone(), run, kind, payload }]).await
}

async fn write(
    tx: &mut dyn Write,
    by: &Authority,
    before: &Task,
    run: Option<Run>,
    change: TaskChange,
    now: Time,
) -> Result<Moved> {
    let TaskChange { task, ending, events, comment, forgives } = change;
    let mut about = before.current_run.or(task.current_run);
    let mut ended = None;
    match (run, ending) {
        (Some(run), Some(ending)) => ended = Some(end(tx, by, run, ending, now).await?),
        (None, Some(ending)) => {
            if let Some(role) = ending.record {
                about = Some(insert_ended(tx, by, before, role, ending, now).await?);
            }
        }
        (_, None) => {}
    }
    tx.update_task(before, &task).await?;
    if forgives {
        tx.clear_failures(&task.id).await?;
    }
    if let Some(comment) = comment {
        tx.comment(&task.id, by.name(), &comment).await?;
    }
    tx.add_events(&new_events(&task.id, about, events)).await?;
    Ok(Moved { task, ended, promoted: Vec::new() })
}

fn new_events(task: &TaskId, run: Option<RunId>, events: Vec<(Kind, Value)>) -> Vec<NewTaskEvent> {
    let event = |(kind, payload)| NewTaskEvent { task: task.clone(), run, kind, payload };
    events.into_iter().map(event).collect()
}

/// Ends a run. Whether anything of its worker is left is another matter: only
/// proof, or there never having been one, says that it is gone. A worker that
/// is being started at this moment is recorded by the process that starts it.
async fn end(
    tx: &mut dyn Write,
    by: &Authority,
    mut run: Run,
    ending: RunEnding,
    now: Time,
) -> Result<Run> {
    // From now on this is until when the worker may be there: one that has
    // reported tidies up and leaves by itself, one that lost its task stops.
    run.expires_at = match by {
        Authority::Person(_) => now,
        Authority::Worker(_) | Authority::Dispatcher(_) => now.after(EXIT_GRACE),
    };
    run.ended_at = Some(now);
    run.outcome = Some(ending.outcome);
    run.summary = ending.summary.or(run.summary);
    run.metadata = ending.metadata.or(run.metadata);
    run.error = ending.error.or(run.error);
    // A worker that speaks is there, also where nobody has come to say so yet.
    let is_worker = matches!(by, Authority::Worker(_));
    run.gone = run.gone || run.process.is_none() && !is_worker;
    tx.update_run(&run).await?;
    Ok(run)
}

/// Makes a run of no length, so that the report on a task that nobody
/// held is not lost.
async fn insert_ended(
    tx: &mut dyn Write,
    by: &Authority,
    task: &Task,
    role: Role,
    ending: RunEnding,
    now: Time,
) -> Result<RunId> {
    let run = Run {
        id: RunId::new(0),
        task_id: task.id.clone(),
        profile: None,
        role,
        owner: by.name().to_owned(),
        host: None,
        process: None,
        started_at: now,
        expires_at: now,
        heartbeat_at: None,
        activity_at: None,
        note: None,
        graced: false,
        max_runtime: None,
        stopping: None,
        ended_at: Some(now),
        outcome: Some(ending.outcome),
        summary: ending.summary,
        metadata: ending.metadata,
        error: ending.error,
        gone: true,
        workspace: None,
        session_id: None,
    };
    tx.insert_run(&run).await
}

/// Tells the tasks that wait for one whether they still have to. Returns those
/// that need not wait any more. Only they are touched, however large the board.
async fn update_children(tx: &mut dyn Write, before: &Task, after: &Task) -> Result<Vec<TaskId>> {
    let was_finished = before.status.satisfies_children();
    if was_finished == after.status.satisfies_children() {
        return Ok(Vec::new());
    }
    let mut promoted = Vec::new();
    for child in tx.children(&after.id).await? {
        let child = find(tx, &child.id).await?;
        if was_finished {
            demote(tx, &child, &after.id).await?;
        } else if release(tx, &child).await? {
            promoted.push(child.id);
        }
    }
    Ok(promoted)
}

/// A task has one less to wait for. Reports whether it can be worked on now.
pub(crate) async fn release(tx: &mut dyn Write, child: &Task) -> Result<bool> {
    let now = tx.now();
    let change = machine::parent_finished(child, now);
    tx.update_task(child, &change.task).await?;
    let ready = child.status != Status::Ready && change.task.status == Status::Ready;
    if ready {
        let mut payload = json!({ "reason": "parents_finished" });
        let skipped = skipped_parents(tx, &child.id).await?;
        if !skipped.is_empty() {
            payload["unfinished_parents"] = json!(skipped);
        }
        record(tx, &child.id, None, Kind::Promoted, payload).await?;
    }
    Ok(ready)
}

/// A task has one more to wait for. Returns it as it is then.
pub(crate) async fn demote(tx: &mut dyn Write, child: &Task, parent: &TaskId) -> Result<Task> {
    let now = tx.now();
    let change = machine::parent_unfinished(child, parent, now);
    tx.update_task(child, &change.task).await?;
    tx.add_events(&new_events(&child.id, None, change.events)).await?;
    Ok(change.task)
}

/// Returns the tasks that a task need not wait for although they were never
/// finished: they were put away.
async fn skipped_parents(tx: &mut dyn Write, child: &TaskId) -> Result<Vec<TaskId>> {
    let mut skipped = Vec::new();
    for parent in tx.parents(child).await? {
        if parent.status == Status::Archived
            && tx.task(&parent.id).await?.is_some_and(|task| task.completed_at.is_none())
        {
            skipped.push(parent.id);
        }
    }
    Ok(skipped)
}
