//! The client against real servers, good and bad.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

mod bad;
mod calls;
mod lasting;
mod stage;
mod web;
