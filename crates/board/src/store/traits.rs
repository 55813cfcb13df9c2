//! The traits of a store, and the types of its queries.

use std::ops::ControlFlow;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use crate::Result;
use crate::event::{NewTaskEvent, TaskEvent};
use crate::id::{RunId, TaskId};
use crate::run::{Outcome, Run};
use crate::task::{Attachment, Comment, FailureCount, LaneKey, Status, Task};
use crate::time::Time;

/// A database that keeps one board.
#[async_trait]
pub trait BoardStore: Send + Sync + 'static {
    /// Begins to read; everything read sees the board at one moment.
    async fn read(&self) -> Result<Box<dyn Read + '_>>;
    /// Begins to write, as soon as nobody else does. Transactions take effect
    /// one after the other; what is dropped without a commit did not happen.
    async fn write(&self) -> Result<Box<dyn Write + '_>>;
    /// Returns what reports changes by anybody, on any host.
    fn changes(&self) -> Result<Box<dyn Changes>>;
    /// Closes the connections.
    async fn close(&self) -> Result<()>;
}

/// Reports changes.
#[async_trait]
pub trait Changes: Send {
    /// Waits until something may have changed since the last call returned (or
    /// since this was made). It may wake for nothing; it never misses a change.
    async fn next(&mut self) -> Result<()>;
}

/// What is handed one task after the other.
pub type Visitor<'v> = dyn FnMut(Task) -> ControlFlow<()> + Send + 'v;

/// Reads tasks one by one.
#[async_trait]
pub trait ReadTasks: Send {
    /// Returns a task.
    async fn task(&mut self, id: &TaskId) -> Result<Option<Task>>;
    /// Returns names that begin like this, at most `limit`.
    async fn names_like(&mut self, prefix: &str, limit: u32) -> Result<Vec<TaskId>>;
    /// Returns the task that is not archived and has this key.
    async fn task_with_key(&mut self, key: &str) -> Result<Option<Task>>;
    /// Returns how many tasks a run has made.
    async fn made_by(&mut self, run: RunId) -> Result<u32>;
}

/// Writes tasks.
#[async_trait]
pub trait WriteTasks: Send {
    /// Adds tasks, and what they count as in their lanes. A name that is taken
    /// is an error of the database, of this call or of the commit at the latest.
    async fn insert_tasks(&mut self, tasks: &[Task]) -> Result<()>;
    /// Changes a task, and what it counts as in the lanes, from what it was.
    async fn update_task(&mut self, before: &Task, after: &Task) -> Result<()>;
    /// Removes a task and all that hangs on it.
    async fn delete_task(&mut self, task: &Task) -> Result<()>;
}

/// Lists and counts tasks.
#[async_trait]
pub trait ReadLists: Send {
    /// Returns tasks.
    async fn list(&mut self, query: &TaskQuery) -> Result<Vec<Task>>;
    /// Hands over tasks one after the other until there are no more or `each` breaks off, so that a
    /// list of any length takes little memory.
    async fn visit(&mut self, query: &TaskQuery, each: &mut Visitor<'_>) -> Result<()> {
        for task in self.list(query).await? {
            if each(task).is_break() {
                break;
            }
        }
        Ok(())
    }
    /// Returns how many tasks a query matches, whatever its page.
    async fn count(&mut self, query: &TaskQuery) -> Result<u64>;
    /// Returns finished tasks in the order in which they last changed, from one on:
    /// when that was, their number and their name.
    async fn finished_after(
        &mut self,
        since: Time,
        seq: i64,
        limit: u32,
    ) -> Result<Vec<(Time, i64, TaskId)>>;
    /// Returns tasks that failed so often for one cause, the most often first.
    async fn failing(&mut self, at_least: u32, limit: u32) -> Result<Vec<(TaskId, FailureCount)>>;
    /// Returns blocked tasks that were not changed since a moment, the longest
    /// first.
    async fn blocked_before(&mut self, moment: Time, limit: u32) -> Result<Vec<Task>>;
    /// Returns tasks that were blocked so often since a moment, and how often,
    /// as far as the latest events tell.
    async fn blocked_repeatedly(
        &mut self,
        since: Time,
        at_least: u32,
        limit: u32,
    ) -> Result<Vec<(TaskId, u32)>>;
}

/// Reads what belongs to tasks: links, comments and attachments; and notes of the board.
#[async_trait]
pub trait ReadDetails: Send {
    /// Returns the tasks that a task waits for.
    async fn parents(&mut self, id: &TaskId) -> Result<Vec<Relative>>;
    /// Returns the tasks that wait for a task.
    async fn children(&mut self, id: &TaskId) -> Result<Vec<Relative>>;
    /// Reports whether `from` is `to`, or waits for it, directly or not.
    async fn waits_for(&mut self, from: &TaskId, to: &TaskId) -> Result<bool>;
    /// Returns the last comments, oldest first.
    async fn comments(&mut self, id: &TaskId, last: u32) -> Result<Vec<Comment>>;
    /// Returns the files of a task.
    async fn attachments(&mut self, id: &TaskId) -> Result<Vec<Attachment>>;
    /// Returns a file.
    async fn attachment(&mut self, number: i64) -> Result<Option<Attachment>>;
    /// Returns under what names files are stored, of all tasks.
    async fn stored_files(&mut self) -> Result<Vec<String>>;
    /// Returns something that is kept with the board under a name.
    async fn note(&mut self, name: &str) -> Result<Option<Value>>;
}

/// Writes what belongs to tasks: links, comments and attachments; and notes of the board.
#[async_trait]
pub trait WriteDetails: Send {
    /// Adds a link; one that is there is left alone. Reports whether it is new.
    async fn link(&mut self, parent: &TaskId, child: &TaskId) -> Result<bool>;
    /// Removes a link. Reports whether it was there.
    async fn unlink(&mut self, parent: &TaskId, child: &TaskId) -> Result<bool>;
    /// Adds a comment, and returns its number.
    async fn comment(&mut self, id: &TaskId, author: &str, body: &str) -> Result<i64>;
    /// Adds a comment that was made earlier, and returns its number.
    async fn comment_at(&mut self, id: &TaskId, author: &str, body: &str, at: Time) -> Result<i64>;
    /// Adds a file, and returns its number. The number in it is not used.
    async fn add_attachment(&mut self, attachment: &Attachment) -> Result<i64>;
    /// Forgets a file.
    async fn remove_attachment(&mut self, number: i64) -> Result<()>;
    /// Keeps something with the board under a name; nothing removes it.
    async fn set_note(&mut self, name: &str, value: Option<&Value>) -> Result<()>;
}

/// Reads events.
#[async_trait]
pub trait ReadEvents: Send {
    /// Returns the last events of a task, oldest first.
    async fn events(&mut self, id: &TaskId, last: u32) -> Result<Vec<TaskEvent>>;
    /// Returns events of all tasks after a number, oldest first.
    async fn events_after(&mut self, query: &EventQuery) -> Result<Vec<TaskEvent>>;
    /// Returns the number of the last event, 0 if there is none.
    async fn last_event(&mut self) -> Result<i64>;
}

/// Writes and prunes events.
#[async_trait]
pub trait WriteEvents: Send {
    /// Adds events.
    async fn add_events(&mut self, events: &[NewTaskEvent]) -> Result<()>;
    /// Forgets old events and runs; the last of each task stay. Returns how many
    /// of each went.
    async fn prune(&mut self, keep: &Retention) -> Result<(u64, u64)>;
}

/// Reads runs and failures.
#[async_trait]
pub trait ReadRuns: Send {
    /// Returns a run.
    async fn run(&mut self, id: RunId) -> Result<Option<Run>>;
    /// Returns the last runs of a task, oldest first.
    async fn runs(&mut self, id: &TaskId, last: u32) -> Result<Vec<Run>>;
    /// Returns all runs that have not ended, and those that have and whose
    /// worker is not known to be gone.
    async fn live_runs(&mut self) -> Result<Vec<Run>>;
    /// Returns the last completed runs of a profile with the titles of their
    /// tasks, newest first.
    async fn completed_by(&mut self, profile: &str, last: u32) -> Result<Vec<(Run, String)>>;
    /// Returns how often a task failed, by cause.
    async fn failures(&mut self, id: &TaskId) -> Result<Vec<FailureCount>>;
}

/// Writes runs and failures.
#[async_trait]
pub trait WriteRuns: Send {
    /// Adds a run and returns its number, which is larger than any before it on
    /// this board, also of runs that are forgotten. The number in `run` is not used.
    async fn insert_run(&mut self, run: &Run) -> Result<RunId>;
    /// Changes a run.
    async fn update_run(&mut self, run: &Run) -> Result<()>;
    /// Counts a failure and returns how often it happened for this cause.
    async fn count_failure(&mut self, id: &TaskId, cause: Outcome, error: &str) -> Result<u32>;
    /// Forgets a task's failures.
    async fn clear_failures(&mut self, id: &TaskId) -> Result<()>;
}

/// Reads what can be started, and when.
#[async_trait]
pub trait ReadQueue: Send {
    /// Returns the lanes that have anything in them.
    async fn lanes(&mut self) -> Result<Vec<Lane>>;
    /// Returns the first tasks of a lane's queue (its profile, tenant and host),
    /// by rank, then `seq`.
    async fn queue(&mut self, lane: &LaneKey, limit: u32) -> Result<Vec<Task>>;
    /// Returns tasks whose moment has come, the longest due first.
    async fn due(&mut self, limit: u32) -> Result<Vec<Task>>;
    /// Returns ready tasks, and such to be looked at, that wait for their moment,
    /// the first of them first; also those whose moment has come.
    async fn guarded(&mut self, limit: u32) -> Result<Vec<Task>>;
    /// Returns the next moment at which a task goes on or a lease runs out.
    async fn next_moment(&mut self) -> Result<Option<Time>>;
    /// Returns the tasks that are being worked on.
    async fn running(&mut self) -> Result<Vec<Task>>;
    /// Returns how many tasks there are by status and assignee.
    async fn counts(&mut self) -> Result<Vec<(Status, Option<String>, u64)>>;
    /// Returns when the task that has been waiting longest in the queue began to.
    async fn oldest_queued(&mut self) -> Result<Option<Time>>;
}

/// What can be read: the whole board, at one moment.
#[async_trait]
pub trait Read: ReadTasks + ReadLists + ReadDetails + ReadEvents + ReadRuns + ReadQueue {
    /// Returns the moment, by the store's clock: the same on every host.
    fn now(&self) -> Time;
}

/// What can be written, in one transaction.
#[async_trait]
pub trait Write: Read + WriteTasks + WriteDetails + WriteEvents + WriteRuns {
    /// Makes it all lasting.
    async fn commit(self: Box<Self>) -> Result<()>;
}

/// Which tasks, in which order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskQuery {
    /// Those of these statuses; none: all but archived ones.
    pub statuses: Vec<Status>,
    /// Whether archived ones are there too, where no status is asked for.
    pub with_archived: bool,
    /// Those of this profile; `Some(None)`: those of nobody.
    pub assignee: Option<Option<String>>,
    /// Those of this tenant.
    pub tenant: Option<String>,
    /// Those that were made in this conversation.
    pub session: Option<String>,
    /// Those that a person should look at.
    pub needs_attention: bool,
    /// Those with this text in title or body, whatever its case.
    pub text: Option<String>,
    /// In which order.
    pub order: Order,
    /// At most so many; none: all.
    pub limit: Option<u32>,
    /// After so many.
    pub offset: u32,
}

crate::task::words! {
    /// In which order tasks are listed.
    Order: "order" {
        /// As a person would look at them: by status, then by rank.
        Board = "board",
        /// The oldest first.
        Created = "created",
        /// The newest first.
        CreatedDesc = "created-desc",
        /// The lowest priority first.
        Priority = "priority",
        /// The highest priority first.
        PriorityDesc = "priority-desc",
        /// By status.
        Status = "status",
        /// By assignee.
        Assignee = "assignee",
        /// By title.
        Title = "title",
        /// What was changed last first.
        Updated = "updated",
    }
}

#[expect(clippy::derivable_impls, reason = "the macro makes the enum")]
impl Default for Order {
    fn default() -> Self {
        Self::Board
    }
}

/// Which events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventQuery {
    /// Those after this number.
    pub after: i64,
    /// Those of this task.
    pub task: Option<TaskId>,
    /// Those of these kinds; none: all.
    pub kinds: Vec<String>,
    /// Those of tasks of this profile.
    pub assignee: Option<String>,
    /// Those of tasks of this tenant.
    pub tenant: Option<String>,
    /// At most so many.
    pub limit: u32,
}

/// A task that another waits for, or that waits for it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Relative {
    /// Its name.
    pub id: TaskId,
    /// Its title.
    pub title: String,
    /// Where it stands.
    pub status: Status,
}

/// How much is in a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lane {
    /// Which.
    pub key: LaneKey,
    /// Tasks that could be started at once.
    pub queued: u64,
    /// Tasks that could be, but for a guard.
    pub guarded: u64,
    /// Tasks that are being worked on.
    pub running: u64,
}

/// What is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// How long events are kept; those of the newest `events_per_task` of each
    /// task and those that name a task's making stay.
    pub events: Duration,
    /// Events of a task that stay whatever their age.
    pub events_per_task: u32,
    /// Runs of a task that stay whatever their age; others go with the events.
    pub runs_per_task: u32,
}
