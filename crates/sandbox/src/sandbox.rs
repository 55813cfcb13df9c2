//! A sandbox in the hands of this process.

mod calls;
mod handle;
mod reach;
mod warnings;

pub use handle::Cleanup;
pub(crate) use handle::{Handle, Ownership};
pub use reach::{Opening, Reach};
pub use warnings::JobWarning;

use std::sync::Arc;

use crate::engine::StateBefore;
use crate::notice::Notice;
use crate::{Key, Task};

/// A durable place where commands run.
///
/// Clones share one connection, which is made again when it was lost. Dropping
/// the last one ends nothing unless the settings say so.
#[derive(Debug, Clone)]
pub struct Sandbox {
    handle: Arc<Handle>,
}

impl Sandbox {
    pub(crate) fn new(handle: Arc<Handle>) -> Self {
        Self { handle }
    }

    /// Returns the sandbox's key.
    pub fn key(&self) -> &Key {
        self.handle.key()
    }

    /// Returns the task.
    pub fn task(&self) -> &Task {
        self.handle.key().task()
    }

    /// Returns the backend's name.
    pub fn backend(&self) -> &'static str {
        self.handle.backend_name()
    }

    /// Returns the id of the instance it lives in.
    pub async fn instance(&self) -> String {
        self.handle.instance().await.id
    }

    /// Returns the generation of that instance.
    pub async fn generation(&self) -> u64 {
        self.handle.generation().await
    }

    /// Returns how many of its processes the kernel has killed at its limit of
    /// memory since it was started, where that can be seen.
    pub async fn memory_kills(&self) -> Option<u64> {
        let (backend, record, _) = self.handle.made().await;
        backend.memory_kills(&record.locator)
    }

    /// Returns what it was before this process asked for it.
    pub fn state_before(&self) -> StateBefore {
        self.handle.before()
    }

    /// Returns what the user should hear about.
    pub fn notices(&self) -> &[Notice] {
        self.handle.notices()
    }

    /// Returns what the user should hear about, a sentence each.
    pub fn notice_texts(&self) -> Vec<String> {
        let wording = self.handle.engine.wording(self.task().as_str(), self.backend());
        self.notices().iter().map(|notice| wording.describe(notice)).collect()
    }

    /// Returns whether both are one hold of this process on one sandbox: what
    /// was said about the one need not be said about the other.
    pub fn is_same_hold(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.handle, &other.handle)
    }

    /// Returns whether it ends with this process.
    pub fn is_owned(&self) -> bool {
        self.handle.is_owned()
    }
}
