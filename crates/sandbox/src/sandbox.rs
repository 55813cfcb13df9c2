//! A sandbox in the hands of this process.

mod calls;
mod credentials;
mod handle;
mod reach;
mod syncing;

use std::fmt;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use vestal_wire::{JobInfo, JobState};

use crate::engine::{FoundAs, StateBefore};
use crate::notice::Notice;
use crate::{Key, TaskName};

pub(crate) use credentials::inherit_mark;
pub use handle::Cleanup;
pub(crate) use handle::{Handle, Ownership};
pub use reach::{Opening, Reach};
pub(crate) use syncing::sync_rules;
pub use syncing::{SyncMode, SyncStatus};

/// A durable place where commands run.
///
/// Clones share one connection, which is made again when it was lost. Dropping
/// the last one ends nothing unless the settings say so.
#[derive(Debug, Clone)]
pub struct Sandbox {
    handle: Arc<Handle>,
    found: FoundAs,
}

impl Sandbox {
    pub(crate) fn new(handle: Arc<Handle>, found: FoundAs) -> Self {
        Self { handle, found }
    }

    /// Returns the sandbox's key.
    pub fn key(&self) -> &Key {
        self.handle.key()
    }

    /// Returns the task.
    pub fn task(&self) -> &TaskName {
        self.handle.key().task()
    }

    /// Returns the backend's name.
    pub fn backend(&self) -> &'static str {
        self.handle.backend_name()
    }

    /// Returns the id of the instance it lives in.
    #[boxed]
    pub async fn instance(&self) -> String {
        self.handle.instance().await.id
    }

    /// Returns the generation of that instance.
    #[boxed]
    pub async fn generation(&self) -> u64 {
        self.handle.generation().await
    }

    /// Returns how many of its processes the kernel has killed at its limit of
    /// memory since it was started, where that can be seen.
    #[boxed]
    pub async fn memory_kills(&self) -> Option<u64> {
        let (backend, record, _) = self.handle.made().await;
        backend.memory_kills(&record.locator)
    }

    /// Returns what it was before the engine was asked for it and returned this.
    pub fn state_before(&self) -> StateBefore {
        self.found.before
    }

    /// Returns whether its instance was there before, and is the one that is used.
    pub fn was_attached(&self) -> bool {
        self.found.before != StateBefore::Absent && !self.found.was_remade
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
    /// was reported about the one need not be reported about the other.
    pub fn is_same_hold(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.handle, &other.handle)
    }

    /// Returns whether it ends with this process.
    pub fn is_owned(&self) -> bool {
        self.handle.is_owned()
    }
}

/// The exit code of what SIGKILL has ended.
const KILLED: u32 = 137;

/// Something that the result of a command does not show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobWarning {
    /// It was killed, and the kernel has killed processes of its sandbox for want of memory.
    OutOfMemory {
        /// How many, since the sandbox was started.
        kills: u64,
    },
    /// What it changed in its session was not saved.
    NotSaved {
        /// Why.
        reason: String,
    },
}

impl Sandbox {
    /// Returns what must be known of an ended command besides its result.
    #[boxed]
    pub async fn warnings(
        &self,
        code: Option<u32>,
        session_error: Option<&str>,
    ) -> Vec<JobWarning> {
        let kills = if code == Some(KILLED) { self.memory_kills().await } else { None };
        warnings(kills, session_error)
    }

    /// Returns what must be known of a job besides its result; nothing while it runs.
    #[boxed]
    pub async fn job_warnings(&self, job: &JobInfo) -> Vec<JobWarning> {
        match job.state {
            JobState::Ended(exit) => {
                self.warnings(exit.code.map(Into::into), job.session_error.as_deref()).await
            }
            _ => Vec::new(),
        }
    }
}

/// `kills` is known of a command that was killed only.
fn warnings(kills: Option<u64>, session_error: Option<&str>) -> Vec<JobWarning> {
    let kills = kills.filter(|kills| *kills > 0);
    let killed = kills.map(|kills| JobWarning::OutOfMemory { kills });
    let unsaved = session_error.map(|reason| JobWarning::NotSaved { reason: reason.to_owned() });
    killed.into_iter().chain(unsaved).collect()
}

impl fmt::Display for JobWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfMemory { kills } => {
                let processes = if *kills == 1 { "process" } else { "processes" };
                write!(
                    f,
                    "the command was killed; the sandbox has run into its memory limit since it was \
                     started ({kills} {processes} killed by the kernel); terminal.container_memory \
                     sets the limit"
                )
            }
            Self::NotSaved { reason } => write!(
                f,
                "what the command changed in its session was not kept: {reason}; the next command \
                 starts from what was saved before"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_killed_for_want_of_memory_and_a_session_not_saved_are_reported() {
        let texts = |kills, error| -> Vec<String> {
            warnings(kills, error).iter().map(ToString::to_string).collect()
        };
        assert_eq!(texts(None, None), [""; 0]);
        assert_eq!(texts(Some(0), None), [""; 0], "it was killed by somebody");
        let both = texts(Some(1), Some("No space left on device"));
        assert_eq!(both.len(), 2);
        assert!(both[0].contains("(1 process killed by the kernel)"), "{both:?}");
        assert!(both[1].contains("was not kept: No space left on device"), "{both:?}");
    }
}
