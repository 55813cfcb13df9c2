//! The keys and their groups.

#![expect(ambiguous_glob_reexports, reason = "each group has its own KEYS and GROUP")]

pub mod agent;
pub mod chat;
pub mod kanban;
pub mod mcp;
pub mod memory;
pub mod model;
pub mod safety;
pub mod skills;
pub mod terminal;

pub use agent::*;
pub use chat::*;
pub use kanban::*;
pub use mcp::*;
pub use memory::*;
pub use model::*;
pub use safety::*;
pub use skills::*;
pub use terminal::*;

use crate::schema::{Group, Schema};

/// Returns the schema of all keys.
pub fn schema() -> Schema {
    static GROUPS: [&Group; 9] = [
        &terminal::GROUP,
        &model::GROUP,
        &agent::GROUP,
        &safety::GROUP,
        &memory::GROUP,
        &skills::GROUP,
        &mcp::GROUP,
        &chat::GROUP,
        &kanban::GROUP,
    ];
    Schema::new(GROUPS)
}
