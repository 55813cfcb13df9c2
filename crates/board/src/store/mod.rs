//! Where a board is kept.
//!
//! The traits are the whole of what a board needs from a database: rows in and
//! out, in transactions. What rows mean is decided above them, in
//! [`crate::verbs`] and [`crate::dispatch`], so that another database serves by
//! implementing them with the same tables.

mod sqlite;
mod traits;

pub use sqlite::{Durability, SCHEMA_VERSION, SqliteOptions, SqliteStore};
pub use traits::{
    BoardStore, Changes, EventQuery, Lane, Order, Read, ReadDetails, ReadEvents, ReadLists,
    ReadQueue, ReadRuns, ReadTasks, Relative, Retention, TaskQuery, Visitor, Write, WriteDetails,
    WriteEvents, WriteRuns, WriteTasks,
};

pub use crate::time::Clock;
