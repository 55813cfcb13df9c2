//! The engine: which sandbox a caller gets, and what ends what.
//!
//! Everything that changes an instance is done under the key's lock, with its
//! intent on disk first; `lock.rs` finishes or undoes what a process that died
//! had started.
//!
//! `open.rs` has what an engine is made of and `policy.rs` what its settings say; `change.rs` has
//! the steps of verbs that exchange an instance. Every other
//! file is one operation: its verb of [`Engine`], and functions for its steps that take the
//! engine as their first argument.

pub(crate) mod attach;
mod bring_up;
mod change;
mod create;
mod disk;
mod drift;
mod forget;
mod fork;
mod list;
mod lock;
mod open;
pub(crate) mod owned;
pub(crate) mod policy;
mod quiesce;
mod reap;
mod rebuild;
mod relocate;
mod remove;
mod snapshot;
pub(crate) mod sweep;

pub use attach::StateBefore;
pub use disk::DiskUsage;
pub use forget::LeftBehind;
pub use list::{LastKnown, SandboxSummary, SummaryState};
pub use open::{Engine, EngineOptions};
pub use owned::CLOSE_WITHIN;
pub use reap::{Pruned, ReapReason, Reaped};
pub use remove::{FilesOnRemoval, Removal};

pub(crate) use attach::{Attached, FoundAs, greet, greet_existing};
pub(crate) use open::Inner;
pub(crate) use owned::OwnedInstance;
pub(crate) use remove::StopScope;
