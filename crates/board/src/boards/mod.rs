//! The boards of one machine or site: which there are, and which is meant.
//!
//! Each board is a directory of its own below the root, with its database, the
//! logs of its workers and its files. What is known about a board besides its
//! tasks is kept in its database.

mod catalogue;
mod create;
mod current;
mod error;
mod info;
mod lock;
mod remove;
mod slug;

pub use catalogue::{Boards, Listed, Make};
pub use create::{Creation, NewBoard};
pub use current::{ChosenBy, Current};
pub use error::BoardsError;
pub(crate) use info::refuse_archived;
pub use info::{BoardEdit, BoardInfo};
pub use slug::{InvalidSlug, Slug};
