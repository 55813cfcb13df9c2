//! A board in an `SQLite` file.
//!
//! Statements are written so that `PostgreSQL` takes them, too. What is
//! `SQLite`'s own is in this directory's `connect`, `open`, `schema`, `explain` and
//! `changes`, and in [`script`], which makes the placeholders.

mod attachments;
mod changes;
mod comments;
mod connect;
mod connections;
mod diagnose;
mod events;
mod explain;
mod lanes;
mod links;
mod list;
mod notes;
mod open;
mod prune;
mod queue;
mod row;
mod run_row;
mod runs;
mod schema;
mod script;
mod store;
mod task_row;
mod tasks;
mod transaction;

pub use schema::VERSION as SCHEMA_VERSION;
pub use store::{Durability, Options, SqliteStore};
