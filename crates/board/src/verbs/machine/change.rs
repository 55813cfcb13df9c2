//! What becomes of a task, and the parts that every transition is made of.

use serde_json::{Value, json};

use crate::error::BoardRefusal;
use crate::event::Kind;
use crate::id::{Authority, TaskId};
use crate::run::{Outcome, Role, Run};
use crate::task::{Status, Task};
use crate::time::Time;

/// What a transition depends on besides the task.
#[derive(Clone, Copy)]
pub(crate) struct TaskFacts<'a> {
    /// The moment, by the store's clock.
    pub(crate) now: Time,
    /// Who asks.
    pub(crate) by: &'a Authority,
    /// The run that holds the task, while one does.
    pub(crate) run: Option<&'a Run>,
    /// Whether the task was being looked at when it last stopped.
    pub(crate) reviewing: bool,
}

impl TaskFacts<'_> {
    /// Reports whether a worker asks.
    pub(crate) const fn by_worker(&self) -> bool {
        matches!(self.by, Authority::Worker(_))
    }

    /// Returns what the task waits to be held for: what its run is for, or what
    /// it was when it last stopped.
    pub(super) fn role(&self, task: &Task) -> Role {
        match task.status {
            Status::Running => self.run.map_or(Role::Work, |run| run.role),
            Status::Review => Role::Review,
            Status::Blocked | Status::Scheduled | Status::Triage if self.reviewing => Role::Review,
            Status::Triage
            | Status::Todo
            | Status::Scheduled
            | Status::Ready
            | Status::Blocked
            | Status::Done
            | Status::Archived => Role::Work,
        }
    }
}

/// What becomes of a task.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TaskChange {
    /// The task afterwards.
    pub(crate) task: Task,
    /// How its run ends, where it had one or needs one to hold the report.
    pub(crate) ending: Option<RunEnding>,
    /// What is reported.
    pub(crate) events: Vec<(Kind, Value)>,
    /// A message for people to read.
    pub(crate) comment: Option<String>,
    /// Whether earlier failures are forgotten.
    pub(crate) forgives: bool,
}

/// How a run ends.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RunEnding {
    /// How.
    pub(crate) outcome: Outcome,
    /// The summary by the one who worked on it.
    pub(crate) summary: Option<String>,
    /// The same for machines.
    pub(crate) metadata: Option<Value>,
    /// What went wrong.
    pub(crate) error: Option<String>,
    /// What a run is for that is only made to hold this; none: it is not worth one.
    pub(crate) record: Option<Role>,
}

impl RunEnding {
    pub(super) fn new(outcome: Outcome) -> Self {
        Self { outcome, summary: None, metadata: None, error: None, record: None }
    }
}

impl TaskChange {
    /// Begins with the task as it is.
    pub(super) fn of(task: &Task, now: Time) -> Self {
        let mut task = task.clone();
        task.updated_at = now;
        Self { task, ending: None, events: Vec::new(), comment: None, forgives: false }
    }

    pub(super) fn with_event(mut self, kind: Kind, payload: Value) -> Self {
        self.events.push((kind, payload));
        self
    }

    /// Takes the task out of its holder's hands.
    pub(super) fn release(mut self, ending: RunEnding) -> Self {
        self.task.current_run = None;
        self.task.running_as = None;
        self.ending = Some(ending);
        self
    }

    /// Takes the task to where nobody works on it.
    pub(super) fn rest(mut self, status: Status) -> Self {
        clear_waits(&mut self.task);
        self.task.status = status;
        self.task.queued_at = None;
        self
    }

    /// Puts the task where it can be taken up next: in the queue, among those
    /// that wait for others, or among those to be looked at.
    pub(super) fn requeue(mut self, role: Role, position: QueuePosition, now: Time) -> Self {
        clear_waits(&mut self.task);
        let task = &mut self.task;
        task.status = match role {
            Role::Review => Status::Review,
            Role::Work if task.pending_parents > 0 => Status::Todo,
            Role::Work => Status::Ready,
        };
        task.queued_at = match (task.status, position) {
            (Status::Todo, _) => None,
            (_, QueuePosition::Kept) => task.queued_at.or(Some(now)),
            (_, QueuePosition::Last) => Some(now),
        };
        task.attention = asks_to_be_looked_at(task);
        self
    }
}

/// Which place in the queue a task gets.
#[derive(Clone, Copy)]
pub(super) enum QueuePosition {
    /// The one it had: it did not ask to be tried again.
    Kept,
    /// That of the caller.
    Last,
}

/// Forgets what the task waited for, so that it can wait for something else.
pub(super) fn clear_waits(task: &mut Task) {
    task.wake_at = None;
    task.guard = None;
    task.gate = false;
    task.attention = None;
}

/// Returns what a person should hear of a task that can be taken up next: that
/// it is for a person to do.
pub(crate) fn asks_to_be_looked_at(task: &Task) -> Option<String> {
    let by_person = task.status == Status::Review && task.reviewer.is_none();
    by_person.then(|| "the work is done and waits to be looked at".to_owned())
}

/// Says that a verb means nothing for a task as it stands.
pub(super) fn refuse(verb: &'static str, task: &Task) -> BoardRefusal {
    BoardRefusal::Status { verb, task: task.id.clone(), status: task.status }
}

/// A task that `child` waits for is finished, or is not waited for any more.
/// Returns what becomes of the child; it is in `ready` if that was the last.
///
/// A waiting task moves by itself; whatever waits for a person or for a moment
/// only knows that there is less to wait for.
pub(crate) fn parent_finished(child: &Task, now: Time) -> TaskChange {
    let mut change = TaskChange::of(child, now);
    change.task.pending_parents = child.pending_parents.saturating_sub(1);
    match child.status {
        Status::Todo if change.task.pending_parents == 0 => {
            change.requeue(Role::Work, QueuePosition::Last, now)
        }
        Status::Todo
        | Status::Triage
        | Status::Scheduled
        | Status::Ready
        | Status::Running
        | Status::Blocked
        | Status::Review
        | Status::Done
        | Status::Archived => change,
    }
}

/// A task that `child` waits for is not finished: it was taken up again, or is
/// waited for from now on. A child that could be worked on has to wait again;
/// what is being worked on, or was, is left at that.
pub(crate) fn parent_unfinished(child: &Task, parent: &TaskId, now: Time) -> TaskChange {
    let mut change = TaskChange::of(child, now);
    change.task.pending_parents = child.pending_parents.saturating_add(1);
    match child.status {
        Status::Ready => change
            .requeue(Role::Work, QueuePosition::Last, now)
            .with_event(Kind::Demoted, json!({ "parent": parent, "reason": "unfinished_parent" })),
        Status::Triage
        | Status::Todo
        | Status::Scheduled
        | Status::Running
        | Status::Blocked
        | Status::Review
        | Status::Done
        | Status::Archived => change,
    }
}
