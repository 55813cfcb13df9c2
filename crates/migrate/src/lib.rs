#![doc = include_str!("../README.md")]

mod boards;
mod containers;
mod conversations;
mod database;
mod error;
mod ledger;
mod leftovers;
mod message;
mod migration;
mod notes;
mod plan;
mod profiles;
mod schedules;
mod settings;
mod skills;
mod source;
mod variables;

pub use error::MigrateError;
pub use migration::{Migration, MigrationOptions};
pub use plan::{Action, ItemCounts, ItemKind, ItemOutcome, MigrationPlan, MigrationView, PlanItem};
