//! What came of a change.

use crate::id::TaskId;
use crate::run::Run;
use crate::task::Task;

/// What came of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// The task as it is now.
    pub task: Task,
    /// The run that ended by this; its worker may live.
    pub ended: Option<Run>,
    /// The tasks that need not wait for this one any more and became ready.
    pub promoted: Vec<TaskId>,
}
