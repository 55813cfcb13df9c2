//! The engine: which sandbox a caller gets, and what ends what.
//!
//! Everything that changes an instance is done under the key's lock, with its
//! intent on disk first; `lock.rs` finishes or undoes what a process that died
//! had begun.

mod attach;
mod bring_up;
mod create;
mod disk;
mod fork;
mod list;
mod lock;
mod open;
mod owned;
mod policy;
mod quiesce;
mod reap;
mod rebuild;
mod remove;
mod snapshot;
mod sweep;

pub use attach::StateBefore;
pub use disk::DiskUsage;
pub use list::{SandboxSummary, SummaryState};
pub use open::{Engine, EngineOptions};
pub use owned::CLOSE_WITHIN;
pub use reap::{Pruned, ReapReason, Reaped};
pub use remove::{FilesOnRemoval, Removal};

pub(crate) use attach::{Attached, greet, greet_existing};
pub(crate) use open::Inner;
pub(crate) use owned::OwnedInstance;
pub(crate) use remove::StopScope;
