//! A board in an `SQLite` file.
//!
//! Statements are written so that `PostgreSQL` takes them, too. What is `SQLite`'s own is in
//! `connections`, `schema` and `changes`.

mod changes;
mod details;
mod events;
mod list;
mod queue;
mod row;
mod runs;
mod store;
mod tasks;
mod transaction;

pub use store::{Durability, SqliteOptions, SqliteStore, VERSION as SCHEMA_VERSION};
