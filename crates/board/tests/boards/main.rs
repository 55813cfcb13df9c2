//! Boards as such: which there are, which is meant, and the files of tasks.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod attachments;
mod catalogue;
mod removal;
mod support;
