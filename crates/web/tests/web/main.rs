//! The tools against real web servers on loopback.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod fetching;
mod fixture;
mod searching;
