//! Conversations on disk. See the crate's README for the contract and an example.

mod conversation;
mod error;
mod find;
mod history;
mod import;
mod lease;
mod ledger;
mod lifecycle;
mod message;
mod row;
mod search;
mod store;
mod title;
mod usage;

pub use conversation::{
    ConversationEnd, ConversationId, ConversationRecord, ConversationSummary,
    InvalidConversationId, New, Parent, ParentKind,
};
pub use error::{Error, MatchingConversation};
pub use find::ConversationFilter;
pub use history::UndoneMessages;
pub use import::{ImportedMessage, ImportedStanding};
pub use lease::Lease;
pub use ledger::{LedgerFilter, LedgerGroup, LedgerGrouping, WorkAttempt, WorkItem};
pub use message::{MessageKind, MessageStanding, NewMessage, Seq, Stored};
pub use search::{Hit, MessageAuthor, SearchScope, SnippetPiece};
pub use store::{ConversationStore, VERSION as SCHEMA_VERSION};
pub use title::{InvalidTitle, Title};
pub use usage::{ModelTotals, Totals};

/// The result of what a store is asked.
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
