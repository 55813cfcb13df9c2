//! What changes of tasks come to. Times are whole seconds since 1970.

use serde::{Deserialize, Serialize};
use vestal_board::{RunId, Task, TaskId, Time};

use crate::TaskView;

/// What became of the worker of a run that was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerEnd {
    /// There was none.
    None,
    /// It was on this host, and nothing of it is left.
    Stopped,
    /// It is on another host, which sees to it.
    Elsewhere,
    /// It is on this host, and could not be stopped.
    Survives,
}

/// What a change of a task came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MovedView {
    /// The task as it is now.
    pub task: TaskView,
    /// The run that ended by it.
    pub ended_run_id: Option<i64>,
    /// What became of that run's worker.
    pub worker: WorkerEnd,
    /// Tasks that need not wait for this one any more and became ready.
    pub promoted: Vec<String>,
}

impl MovedView {
    /// Returns the view of a task after a change, of the run that ended by it with what became of its worker, and of the tasks that became ready.
    pub fn new(task: &Task, ended: Option<(RunId, WorkerEnd)>, promoted: &[TaskId]) -> Self {
        Self {
            task: task.into(),
            ended_run_id: ended.map(|(run, _)| run.get()),
            worker: ended.map_or(WorkerEnd::None, |(_, worker)| worker),
            promoted: promoted.iter().map(ToString::to_string).collect(),
        }
    }
}

/// One of several tasks that were to be changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum BulkMovedView {
    /// It was changed.
    Moved(Box<MovedView>),
    /// It was not.
    Failed {
        /// The task, as it was named.
        task_id: String,
        /// Why.
        error: String,
    },
}

/// One of several tasks that were to be deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeletedTaskView {
    /// The task; where it was not found, as it was named.
    pub task_id: String,
    /// Whether it is gone.
    pub deleted: bool,
    /// Why it is not.
    pub error: Option<String>,
}

/// A lease that was renewed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeartbeatView {
    /// The task.
    pub task_id: String,
    /// The run that holds it.
    pub run_id: i64,
    /// Until when.
    pub expires_at: i64,
}

impl HeartbeatView {
    /// Returns the view of a task's run that holds it until then.
    pub fn new(task: &TaskId, run: RunId, expires_at: Time) -> Self {
        Self { task_id: task.to_string(), run_id: run.get(), expires_at: expires_at.seconds() }
    }
}

/// A comment that was added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommentedView {
    /// The task.
    pub task_id: String,
    /// The comment's number.
    pub comment_id: i64,
}

/// A file that was taken off a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DetachedView {
    /// The file's number.
    pub id: i64,
    /// Whether it is gone.
    pub removed: bool,
}

/// The text that a worker gets about its task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskContextView {
    /// The task.
    pub task_id: String,
    /// The text.
    pub context: String,
}

/// What the workers of a task printed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskLogView {
    /// The task.
    pub task_id: String,
    /// The file.
    pub path: String,
    /// Whether it is on this host.
    pub exists: bool,
    /// How large it is.
    pub size: u64,
}
