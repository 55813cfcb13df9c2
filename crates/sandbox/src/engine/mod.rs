//! The engine: which sandbox a caller gets, and what ends what.
//!
//! Verbs are files. Everything that changes an instance is done under the
//! key's lock, with its intent on disk first; `recover` finishes or undoes what
//! a process that died had begun.

mod about;
mod attach;
mod attended;
mod change;
mod close;
mod create;
mod drift;
mod fork;
mod forward;
mod home_guests;
mod idle;
mod leftovers;
mod list;
mod locking;
mod look;
mod mounts;
mod open;
mod order;
mod owned;
mod policy;
mod publish;
mod reap;
mod rebuild;
mod recover;
mod remove;
mod resettle;
mod restore;
mod scope;
mod session;
mod snapshot;
mod still;
mod stop;
mod sweep;

pub use attach::StateBefore;
pub use close::{CLOSE_WITHIN, Termination, Terminations};
pub use list::{Summary, SummaryState};
pub use open::Engine;
pub use reap::{Pruned, ReapReason, Reaped};
pub use remove::{Files as FilesOnRemoval, Removal};

pub(crate) use attach::{Attached, greet};
pub(crate) use open::Inner;
pub(crate) use owned::OwnedInstance;
pub(crate) use publish::read as read_bundle;
pub(crate) use stop::Interrupt;
