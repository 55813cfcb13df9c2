//! Dispatch from the settings and the store to the plan and back.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod assignee;
mod budgets;
mod caps;
mod cost;
mod dry_run;
mod guards;
mod review;
mod stage;
mod whole;
