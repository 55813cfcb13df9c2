//! The client against real servers, good and bad.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bad;
mod calls;
mod fixture;
mod hostile;
mod lasting;
mod web;
