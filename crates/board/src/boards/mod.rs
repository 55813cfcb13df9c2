//! The boards of one machine or site: which there are, and which is meant.
//!
//! Each board is a directory of its own below the root, with its database, the
//! logs of its workers and its files. What is known about a board besides its
//! tasks is kept in its database.

mod catalogue;
mod info;
mod lifecycle;
mod slug;

pub use catalogue::{Boards, ChosenBy, CurrentBoard, ListedBoard, Make};
pub use info::{BoardEdit, BoardInfo};
pub use lifecycle::{BoardCreation, NewBoard};
pub use slug::{BoardsError, InvalidSlug, Slug};

pub(crate) use info::refuse_archived;
