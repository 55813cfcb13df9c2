//! What a board can be asked, one file per verb. Each is a method of
//! [`Board`](crate::Board) and one transaction.
//!
//! A verb reads, asks the state machine (`machine`) what becomes of the task,
//! and writes that down (`scene`). Who may ask is decided in `authority`,
//! against the store and in the same transaction.

mod archive;
mod assign;
mod attach;
mod authority;
mod block;
mod claim;
mod comment;
mod complete;
mod context;
mod create;
mod delete;
mod detach;
mod diagnostics;
mod edit;
mod end_run;
mod events_after;
mod find;
mod get;
mod heartbeat;
mod limits;
mod link;
mod list;
pub(crate) mod machine;
mod moved;
mod promote;
mod reclaim;
mod reopen;
mod request_changes;
mod run_gone;
mod run_session;
pub(crate) mod scene;
mod schedule;
mod show;
mod started;
mod stats;
pub mod steps;
mod submit;
mod unblock;
mod unlink;

pub use attach::NewAttachment;
pub use block::Block;
pub use claim::Claim;
pub use complete::Completion;
pub use context::HandedOver;
pub use create::{Created, Creation, Initial, NewTask};
pub use diagnostics::{Finding, Rule, Severity, Thresholds};
pub use edit::Edit;
pub use end_run::RunEnd;
pub use heartbeat::Heartbeat;
pub use limits::{
    MAX_BODY, MAX_COMMENT, MAX_DEPTH, MAX_KEY, MAX_METADATA, MAX_NAME, MAX_REASON, MAX_TITLE,
    TASKS_PER_RUN,
};
pub use moved::Moved;
pub use promote::Promotion;
pub use show::Sheet;
pub use stats::Stats;
