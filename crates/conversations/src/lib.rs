//! Conversations on disk. See the crate's README for the contract and an example.

mod conversation;
mod error;
mod find;
mod history;
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
    Conversation, ConversationId, Ended, InvalidId, New, Parent, ParentKind, Summary,
};
pub use error::{Error, MatchingConversation};
pub use find::Filter;
pub use history::Undone;
pub use lease::Lease;
pub use ledger::{LedgerFilter, LedgerGroup, LedgerGrouping, Work, WorkItem};
pub use message::{Kind, NewMessage, Seq, Standing, Stored};
pub use search::{Hit, Piece, Role, SearchScope};
pub use store::{Store, VERSION as SCHEMA_VERSION};
pub use title::{InvalidTitle, Title};
pub use usage::{ModelTotals, Totals};

/// The result of what a store is asked.
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
