//! Dispatch from the settings and the store to the plan and back.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod caps;
mod cost;
mod fixture;
mod starts;
mod whole;
