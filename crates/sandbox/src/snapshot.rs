//! Copies of sandboxes, as callers see them.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use jiff::Timestamp;

use crate::TaskName;

/// Longest name of a snapshot.
const MAX_NAME: usize = 64;

/// The name of a snapshot among those of its sandbox: letters, digits, `.`, `_`
/// and `-`, at most 64, not beginning with `.` or `-`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SnapshotName(String);

/// A name that no snapshot can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} cannot name a snapshot: letters, digits, '.', '_' and '-' can, at most {MAX_NAME}, not beginning with '.' or '-'"
)]
pub struct InvalidSnapshotName(String);

impl SnapshotName {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SnapshotName {
    type Err = InvalidSnapshotName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let valid = !text.is_empty()
            && text.len() <= MAX_NAME
            && text.chars().all(fits)
            && !text.starts_with(['.', '-']);
        if valid { Ok(Self(text.to_owned())) } else { Err(InvalidSnapshotName(text.to_owned())) }
    }
}

impl fmt::Display for SnapshotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What to do with a sandbox that has jobs or open calls. Copies are only made
/// of one that stands still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhileBusy {
    /// Leave it alone; the error names what is in the way.
    Refuse,
    /// End its jobs as a stop does.
    Stop,
}

/// A copy of a sandbox that can be gone back to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The sandbox it is of.
    pub task: TaskName,
    /// Its name among the sandbox's.
    pub name: SnapshotName,
    /// When it was made.
    pub created_at: Timestamp,
    /// The backend that the sandbox was on; instances are made of it there only.
    pub backend: String,
    /// Whether it holds the instance's own filesystem besides workspace and home.
    pub system: bool,
    /// Files in it, as far as they are in its directory.
    pub files: u64,
    /// Bytes in it, as far as they are in its directory.
    pub bytes: u64,
    /// What somebody wrote on it.
    pub note: Option<String>,
    /// Where it is.
    pub path: PathBuf,
}

/// A sandbox that is as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// What it was made of.
    pub snapshot: Snapshot,
    /// What the backend has to say about the new instance.
    pub remarks: Vec<String>,
}

/// A sandbox that was made as a copy of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forked {
    /// The new one.
    pub task: TaskName,
    /// Its backend.
    pub backend: String,
    /// Files copied.
    pub files: u64,
    /// Bytes copied.
    pub bytes: u64,
    /// What the backend has to say about the new instance, and what the user
    /// should know.
    pub remarks: Vec<String>,
}

/// How a sandbox is to be rebuilt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rebuild {
    /// The backend; absent: the one it is on.
    pub backend: Option<String>,
    /// The image to make it from, for it alone, from now on; absent: as before.
    pub image: Option<String>,
}

/// A sandbox that was rebuilt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rebuilt {
    /// The backend it was on.
    pub was: String,
    /// The backend it is on.
    pub now: String,
    /// The directories of its files that were kept.
    pub kept: Vec<PathBuf>,
    /// What the user should know, such as files that the new backend shows
    /// elsewhere or not at all.
    pub remarks: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_part_of_a_path_and_nothing_else() {
        for good in ["a", "before-upgrade", "2026-11-15_1", "v1.2", &"x".repeat(MAX_NAME)] {
            assert_eq!(good.parse::<SnapshotName>().unwrap().as_str(), good);
        }
        let long = "x".repeat(MAX_NAME + 1);
        for bad in ["", ".", "..", ".a", "-a", "a/b", "a b", "a\0", "ä", &long] {
            assert_eq!(bad.parse::<SnapshotName>(), Err(InvalidSnapshotName(bad.to_owned())));
        }
    }
}
