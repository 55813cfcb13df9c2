//! A gateway over real HTTP, with a scripted model behind it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod api;
mod lifecycle;
mod support;
mod websocket;
