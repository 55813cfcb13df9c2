//! The files of a profile in which notes are kept.

mod change;
mod lock;
mod read;
mod trouble;
mod write;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use vestal_agent::redact::Redactor;

use crate::clean::clean;
use crate::entries::Entries;
use crate::target::Target;

pub use change::Change;
pub use trouble::{FileProblem, ReadError, Refusal, Trouble};

/// How many characters notes may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The agent's own.
    pub memory: usize,
    /// Those about the person.
    pub user: usize,
}

impl Limits {
    /// Returns the limit of a file.
    pub const fn of(&self, target: Target) -> usize {
        match target {
            Target::Memory => self.memory,
            Target::User => self.user,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory: 2_200, user: 1_375 }
    }
}

/// The files of a profile in which notes are kept. Nothing is held in memory:
/// every call reads what is on the disk now, also what a person wrote there.
#[derive(Debug, Clone)]
pub struct Files {
    dir: PathBuf,
    lock: PathBuf,
    limits: Limits,
    redactor: Arc<Redactor>,
}

impl Files {
    /// Returns the files of the profile with this home. What the redactor takes
    /// for a secret is never written into them.
    pub fn of_home(home: &Path, limits: Limits, redactor: Arc<Redactor>) -> Self {
        // The lock is not beside them: whoever looks there finds notes alone.
        let (dir, lock) = (home.join("memories"), home.join("run/memories.lock"));
        Self { dir, lock, limits, redactor }
    }

    /// Returns the directory they are in.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the path of a file.
    pub fn path(&self, target: Target) -> PathBuf {
        self.dir.join(target.file_name())
    }

    /// Returns how many characters a file may have.
    pub fn limit(&self, target: Target) -> usize {
        self.limits.of(target)
    }

    /// Returns notes as a model reads them: without what nobody sees, and without
    /// secrets that a person wrote.
    pub fn shown(&self, entries: &Entries) -> Vec<String> {
        entries.iter().map(|entry| self.redactor.redact_file(&clean(entry)).into_owned()).collect()
    }

    /// Reports whether a text holds a secret, which would be left out of a note.
    pub fn has_secret(&self, text: &str) -> bool {
        self.redactor.redact_file(text) != text
    }
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
