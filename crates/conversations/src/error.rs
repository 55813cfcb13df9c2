//! What can go wrong.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::id::{ConversationId, InvalidId};
use crate::message::Seq;
use crate::title::InvalidTitle;

/// Why a store did not do what it was asked. Unless it says otherwise, nothing
/// was changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such conversation.
    #[error("there is no conversation {wanted:?}")]
    NotFound {
        /// What was looked for.
        wanted: String,
    },
    /// There is nothing to go on with.
    #[error("there is no conversation yet")]
    NoneYet,
    /// Several conversations answer to it.
    #[error("{wanted:?} may mean {} conversations: {}", candidates.len(), list(candidates))]
    Ambiguous {
        /// What was looked for.
        wanted: String,
        /// Those it may mean, the most recently used first.
        candidates: Vec<Candidate>,
    },
    /// There is no such message in the conversation.
    #[error("conversation {id} has no message {seq} that counts")]
    NoMessage {
        /// The conversation.
        id: ConversationId,
        /// The message.
        seq: Seq,
    },
    /// A compaction that would leave nothing in place of what it takes away.
    #[error("a compaction needs a summary")]
    NoSummary,
    /// A conversation of that name is there already.
    #[error("there is a conversation {id} already")]
    Exists {
        /// The name.
        id: ConversationId,
    },
    /// Another conversation has the title.
    #[error("the title {title:?} belongs to conversation {by}")]
    TitleTaken {
        /// The title.
        title: String,
        /// Whose it is.
        by: ConversationId,
    },
    /// A text that is no title.
    #[error(transparent)]
    InvalidTitle(#[from] InvalidTitle),
    /// A text that names no conversation.
    #[error(transparent)]
    InvalidId(#[from] InvalidId),
    /// Another process is at work in the conversation.
    #[error("{} is at work in conversation {id}", holder(*pid))]
    Busy {
        /// The conversation.
        id: ConversationId,
        /// The process, where it could be told.
        pid: Option<u32>,
    },
    /// The file was written by a later version of this program.
    #[error(
        "{} has version {found}, and this program knows versions up to {supported}; nothing was changed; use a newer vestal",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The latest version this program knows.
        supported: i64,
    },
    /// The file is a database, and not one of conversations.
    #[error("{} is a database of something else; nothing was changed; move it away", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file is no database, or a broken one.
    #[error(
        "{} is damaged: {detail}; nothing was changed; move it away, with the files -wal and -shm beside it, or bring back a copy",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// There is no room to write.
    #[error("the disk of {} is full; nothing was written; make room and try again", path.display())]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// Other processes wrote without a pause.
    #[error("{} was in use by others for over {} s", path.display(), waited.as_secs())]
    Contended {
        /// The file.
        path: PathBuf,
        /// How long this process waited.
        waited: Duration,
    },
    /// The system does not let this process at the file.
    #[error("cannot use {}: {reason}", path.display())]
    Access {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A file or directory could not be made or read.
    #[error("cannot use {}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What is stored does not read as what it should be.
    #[error("{what} of conversation {id} is unreadable: {source}")]
    Unreadable {
        /// The conversation.
        id: ConversationId,
        /// What.
        what: String,
        /// Why.
        source: serde_json::Error,
    },
    /// What was given cannot be written as JSON.
    #[error("what was to be stored is not JSON: {0}")]
    Unwritable(serde_json::Error),
    /// The database refused for another reason.
    #[error("{} failed: {source}", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// Why.
        source: sqlx::Error,
    },
}

/// One of several conversations that may be meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its name.
    pub id: ConversationId,
    /// Its title, if it has one.
    pub title: Option<String>,
}

fn list(candidates: &[Candidate]) -> String {
    const SHOWN: usize = 5;
    let mut shown: Vec<String> = candidates
        .iter()
        .take(SHOWN)
        .map(|candidate| match &candidate.title {
            Some(title) => format!("{} ({title:?})", candidate.id),
            None => candidate.id.to_string(),
        })
        .collect();
    if candidates.len() > SHOWN {
        shown.push("…".to_owned());
    }
    shown.join(", ")
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

/// Result codes of the database that mean something to a user.
mod code {
    pub(super) const PERM: i32 = 3;
    pub(super) const BUSY: i32 = 5;
    pub(super) const READONLY: i32 = 8;
    pub(super) const IOERR: i32 = 10;
    /// The file of shared memory could not grow.
    pub(super) const IOERR_SHMSIZE: i32 = IOERR | (19 << 8);
    pub(super) const CORRUPT: i32 = 11;
    pub(super) const FULL: i32 = 13;
    pub(super) const CANTOPEN: i32 = 14;
    pub(super) const PROTOCOL: i32 = 15;
    pub(super) const NOTADB: i32 = 26;
    pub(super) const PRIMARY: i32 = 0xff;
}

fn code(error: &sqlx::Error) -> Option<i32> {
    error.as_database_error()?.code()?.parse().ok()
}

/// Reports whether another connection stood in the way for a moment.
pub(crate) fn is_busy(error: &sqlx::Error) -> bool {
    code(error).is_some_and(|code| matches!(code & code::PRIMARY, code::BUSY | code::PROTOCOL))
}

/// Says what an error of the database means.
pub(crate) fn explain(path: &Path, error: sqlx::Error) -> Error {
    let path = path.to_owned();
    let Some(code) = code(&error) else { return Error::Database { path, source: error } };
    let said = error.as_database_error().map(|error| error.message().to_owned());
    let said = said.unwrap_or_default();
    match (code, code & code::PRIMARY) {
        (code::IOERR_SHMSIZE, _) | (_, code::FULL) => Error::Full { path },
        (_, code::CORRUPT | code::NOTADB) => Error::Damaged { path, detail: said },
        (_, code::BUSY | code::PROTOCOL) => {
            Error::Contended { path, waited: crate::connect::BUSY_TIMEOUT }
        }
        (_, code::PERM | code::READONLY | code::CANTOPEN | code::IOERR) => {
            Error::Access { path, reason: said }
        }
        _ => Error::Database { path, source: error },
    }
}
