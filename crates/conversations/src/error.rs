//! Errors of the store.

use std::io;
use std::path::PathBuf;

use crate::conversation::{ConversationId, InvalidConversationId};
use crate::message::Seq;
use crate::title::InvalidTitle;

/// An error of the store. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such conversation.
    #[error("there is no conversation {wanted:?}")]
    NotFound {
        /// What was looked for.
        wanted: String,
    },
    /// There is no conversation to continue.
    #[error("there is no conversation yet")]
    NoneYet,
    /// Several conversations match.
    #[error("{wanted:?} matches {} conversations: {}", candidates.len(), list(candidates))]
    Ambiguous {
        /// What was looked for.
        wanted: String,
        /// The matches, most recently used first.
        candidates: Vec<MatchingConversation>,
    },
    /// There is no such message in the conversation.
    #[error("conversation {id} has no message {seq}, or it was undone or compacted")]
    NoMessage {
        /// The conversation.
        id: ConversationId,
        /// The message.
        seq: Seq,
    },
    /// A compaction without a summary.
    #[error("a compaction needs a summary")]
    NoSummary,
    /// A conversation with that id exists.
    #[error("conversation {id} exists already")]
    Exists {
        /// The name.
        id: ConversationId,
    },
    /// Another conversation has the title.
    #[error("conversation {by} already has the title {title:?}")]
    TitleTaken {
        /// The title.
        title: String,
        /// The conversation that has it.
        by: ConversationId,
    },
    /// A text that is not a title.
    #[error(transparent)]
    InvalidTitle(#[from] InvalidTitle),
    /// A text that is not a conversation id.
    #[error(transparent)]
    InvalidId(#[from] InvalidConversationId),
    /// Another process runs a turn in the conversation.
    #[error("{} is using conversation {id}; try again when it has finished", holder(*pid))]
    Busy {
        /// The conversation.
        id: ConversationId,
        /// The process, if known.
        pid: Option<u32>,
    },
    /// A file or directory could not be created or read.
    #[error("cannot use {}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Stored data cannot be parsed.
    #[error("{what} of conversation {id} is unreadable: {source}")]
    Unreadable {
        /// The conversation.
        id: ConversationId,
        /// What.
        what: String,
        /// Why.
        source: serde_json::Error,
    },
    /// The given data cannot be written as JSON.
    #[error("cannot encode as JSON: {0}")]
    Unwritable(serde_json::Error),
    /// The file of the conversations cannot be used.
    #[error(transparent)]
    Database(#[from] vestal_database::Error),
}

impl Error {
    /// Reports whether nothing could be stored because no space is left.
    pub fn is_full(&self) -> bool {
        match self {
            Self::Io { source, .. } => source.kind() == io::ErrorKind::StorageFull,
            Self::Database(error) => error.is_full(),
            _ => false,
        }
    }

    /// Reports whether a row was refused because another has its name.
    pub(crate) fn is_taken(&self) -> bool {
        let Self::Database(vestal_database::Error::Refused { source, .. }) = self else {
            return false;
        };
        source.as_database_error().is_some_and(sqlx::error::DatabaseError::is_unique_violation)
    }
}

/// One of several matching conversations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatchingConversation {
    /// Its name.
    pub id: ConversationId,
    /// Its title, if it has one.
    pub title: Option<String>,
}

fn list(candidates: &[MatchingConversation]) -> String {
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
