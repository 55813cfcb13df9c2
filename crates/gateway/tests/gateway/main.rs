//! A gateway over real HTTP, with a scripted model behind it.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

mod api;
mod connections;
mod document;
mod idempotency;
mod lifecycle;
mod mcp;
mod panics;
mod questions;
mod reach;
mod responses;
mod runs;
mod sandboxes;
mod schedules;
mod support;
mod websocket;
