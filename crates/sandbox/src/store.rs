//! What is kept on the host's disk about sandboxes: one directory each.
//!
//! Every file has one writer at a time (the holder of the key's lock), is
//! replaced by rename and carries a version.

mod atomic;
mod copied_home;
mod dir;
mod home;
mod home_mark;
mod intent;
mod lock;
mod record;
mod reserve;

pub(crate) use atomic::{read_regular, read_versioned, remove_tree, replace, write_versioned};
pub(crate) use copied_home::{
    adopt_sandboxes, holds_sandboxes_of, is_below, running_guests, runs_here,
};
pub(crate) use dir::{SandboxDir, TRIAL, list_dirs, list_rubbish, make_private_dir};
pub use home::HomeError;
pub(crate) use home::{HomeContext, open_home};
pub(crate) use home_mark::{Guests, HomeNotes, machine};
pub(crate) use intent::{Intent, NewInstance, ReplacedTree, SandboxChange};
pub use lock::LockError;
pub(crate) use lock::{KeyLock, copies_ended};
pub(crate) use record::{
    ForgottenInstance, ForgottenInstances, InstanceMark, InstanceRecord, LastKnownRecord,
    RecordedHome, SandboxRecord, SnapshotDir, SnapshotRecord,
};
pub(crate) use reserve::{DiskReserve, free_bytes};

use std::path::PathBuf;

/// A file of ours that could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The content is not what this program writes.
    #[error("{} is damaged: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A newer program wrote it.
    #[error(
        "{} has version {found}, and this program knows up to {known}: it was written by a newer Vestal",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u64,
        /// The newest version known here.
        known: u64,
    },
}

impl StoreError {
    /// Returns whether there is no room to write: what ends or removes
    /// something, and so makes room, continues without a note of it.
    pub(crate) fn is_full(&self) -> bool {
        use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        matches!(
            self,
            Self::Io { source, .. }
                if matches!(source.kind(), StorageFull | QuotaExceeded | FileTooLarge)
        )
    }

    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
        source: std::io::Error,
    ) -> Self {
        Self::Io { action, path: path.into(), source }
    }
}
