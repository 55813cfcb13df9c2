//! The server as a client sees it, over hand-written HTTP.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

mod anthropic;
mod client;
mod delivery;
mod openai;
mod responses;
mod serving;
