//! What can go wrong.

use std::io;
use std::path::{Path, PathBuf};

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
    /// The file of the conversations cannot be used.
    #[error(transparent)]
    Database(#[from] vestal_database::Error),
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

/// Says what an error of the database means.
pub(crate) fn explain(path: &Path, error: sqlx::Error) -> Error {
    vestal_database::explain(path, error).into()
}
