//! What a process is about to do to a sandbox, on disk before it does it.
//!
//! An intent that is still there when the key's lock is free was left by a
//! process that died; whoever takes the lock next finishes or undoes it.

use serde::{Deserialize, Serialize};

/// Version of the intent file.
pub(super) const VERSION: u64 = 1;

/// A change of a sandbox's instance that has begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "intent", rename_all = "kebab-case")]
pub(crate) enum Intent {
    /// A new instance is being made. Undone: nothing can have run in it.
    Create {
        /// Its id.
        instance: String,
        /// Its generation.
        generation: u64,
        /// The backend that makes it.
        backend: String,
    },
    /// A stopped instance is being started. Looked at again.
    Start {
        /// Its id.
        instance: String,
    },
    /// An instance is being stopped. Finished.
    Stop {
        /// Its id.
        instance: String,
    },
    /// An instance is being removed. Finished.
    Remove {
        /// Its id; absent when only files are left.
        instance: Option<String>,
        /// Whether the sandbox's files go too.
        files: bool,
    },
}

/// The file's form.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct IntentFile {
    pub(super) version: u64,
    #[serde(flatten)]
    pub(super) intent: Intent,
}
