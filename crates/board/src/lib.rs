#![doc = include_str!("../README.md")]

mod attachments;
mod board;
mod error;
mod event;
mod id;
mod run;
mod task;
mod time;

pub mod boards;
pub mod dispatch;
pub mod leftovers;
pub mod log;
pub mod review;
pub mod settings;
pub mod store;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod testing;
pub mod verbs;

pub use attachments::{AttachmentSource, MAX_ATTACHMENT, NewAttachment};
pub use board::Board;
pub use error::{BoardRefusal, Error};
pub use event::{Kind, NewTaskEvent, TaskEvent};
pub use id::{Authority, Fence, HostId, HostName, InvalidTaskId, RunId, TaskId};
pub use log::{LogPolicy, log_path};
pub use run::{Outcome, Role, Run, RunProcess};
pub use settings::{keys, schema};
pub use task::{
    Attachment, BlockKind, Comment, FailureCount, LaneKey, LaneShare, MAX_PRIORITY,
    PRIORITY_IS_WORTH, Status, Task, TaskWorkspace,
};
pub use time::Time;
pub use verbs::{
    Block, BoardStats, Claim, CreatedTask, HandedOver, Heartbeat, Initial, Moved, NewTask,
    Promotion, Rule, RunEnd, Severity, TaskCompletion, TaskEdit, TaskFinding, TaskSheet,
    Thresholds,
};

/// The result of what a board is asked.
pub type Result<T> = std::result::Result<T, Error>;
