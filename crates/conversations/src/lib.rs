//! Conversations on disk. See the crate's README for the contract and an example.

mod append;
mod branch;
mod compact;
mod connect;
mod conversation;
mod create;
mod delete;
mod error;
mod find;
mod id;
mod lease;
mod list;
mod message;
mod open;
mod read;
mod row;
mod schema;
mod search;
mod state;
mod store;
mod title;
mod undo;
mod update;
mod usage;
mod write;

pub use conversation::{Conversation, Ended, New, Parent, ParentKind, Summary};
pub use error::{Candidate, Error};
pub use id::{ConversationId, InvalidId};
pub use lease::Lease;
pub use list::Filter;
pub use message::{Kind, NewMessage, Seq, Standing, Stored};
pub use schema::VERSION as SCHEMA_VERSION;
pub use search::{Hit, Piece, Role, Scope};
pub use store::Store;
pub use title::{InvalidTitle, Title};
pub use undo::Undone;
pub use usage::{ModelTotals, Totals};

/// The result of what a store is asked.
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
