//! What the program that copies files says, and what that means for people.

use std::path::Path;

use serde::Deserialize;

use crate::backend::{BackendError, CopyTotals};

const EPERM: i32 = 1;
const EACCES: i32 = 13;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
const EDQUOT: i32 = 122;

/// A line that the program says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Said {
    /// How far it is.
    Progress {
        /// Files that are there.
        files: u64,
        /// Bytes that are there.
        bytes: u64,
        /// Bytes in all, once that is known.
        total: Option<u64>,
    },
    /// The copy is whole.
    Done(CopyTotals),
    /// There is no copy.
    Refused(Refusal),
}

/// Why there is no copy.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Refusal {
    /// What was tried.
    action: String,
    /// The file that it is about.
    path: Option<String>,
    /// What the system said.
    errno: Option<i32>,
    /// All of it in words.
    message: String,
    /// What could not be removed again.
    left: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Line {
    #[serde(default)]
    done: bool,
    #[serde(default)]
    files: u64,
    #[serde(default)]
    bytes: u64,
    total: Option<u64>,
    error: Option<Refusal>,
}

impl Said {
    /// Reads a line; nothing, if it is none of these.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let Line { done, files, bytes, total, error } = serde_json::from_str(line).ok()?;
        Some(match error {
            Some(refusal) => Self::Refused(refusal),
            None if done => Self::Done(CopyTotals { files, bytes }),
            None => Self::Progress { files, bytes, total },
        })
    }
}

impl Refusal {
    /// Puts the paths of the host in the place of those that the program saw.
    pub(crate) fn seen_as(mut self, inside: &str, outside: &Path) -> Self {
        let outside = outside.to_string_lossy();
        let texts = [Some(&mut self.message), self.path.as_mut(), self.left.as_mut()];
        for text in texts.into_iter().flatten() {
            *text = text.replace(inside, &outside);
        }
        self
    }

    /// Returns what a copy of `what` to `to` failed for, and what to do about it.
    pub(crate) fn explain(self, what: &str, to: &Path) -> BackendError {
        let place = to.parent().unwrap_or(to).display();
        let path = self.path.as_deref().unwrap_or(what);
        let (problem, advice) = match self.errno {
            Some(ENOSPC) => (
                format!("there is no room for a copy of {what} in {place}"),
                format!(
                    "make room on that filesystem (`df -h {place}` and `df -i {place}` say how \
                     much there is; `vestal snapshots` lists what can go), then try again"
                ),
            ),
            Some(EDQUOT) => (
                format!("a copy of {what} in {place} does not fit into this user's quota"),
                "remove files of yours on that filesystem (`vestal snapshots` lists some that \
                 can go), or ask for a larger quota, then try again"
                    .to_owned(),
            ),
            Some(EROFS) => (
                format!("{place} can only be read, so that {what} cannot be copied there"),
                "mount that filesystem for writing, or use a home on another one".to_owned(),
            ),
            Some(EACCES) => (
                format!("{what} cannot be copied: {path} is closed to this user"),
                format!(
                    "open it (`chmod u+rwX` by whom it belongs to, or by root) or remove it; \
                     `ls -ld {path}` says whose it is"
                ),
            ),
            Some(EPERM) => (
                format!("{what} cannot be copied as it is: {}", self.message),
                format!(
                    "what belongs to other users is copied by root only: give {path} to \
                     yourself (`chown`), remove it, or do this as root"
                ),
            ),
            Some(_) => {
                return BackendError::Io {
                    action: format!("copy {what}"),
                    source: std::io::Error::other(self.whole()),
                };
            }
            // Something about the files, which no second attempt changes.
            None => (
                format!("{what} cannot be copied: {}", self.message),
                format!("end what writes to {path} from outside of the sandbox, then try again"),
            ),
        };
        let problem = match &self.left {
            Some(left) => format!("{problem}; {left} could not be removed again"),
            None => problem,
        };
        BackendError::Advised { problem, advice }
    }

    fn whole(&self) -> String {
        match &self.left {
            Some(left) => format!("{}; {left} could not be removed again", self.message),
            None => self.message.clone(),
        }
    }
}

#[cfg(test)]
#[path = "said_tests.rs"]
mod tests;
