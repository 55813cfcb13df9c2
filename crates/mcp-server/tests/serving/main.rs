//! The server in this process: with the client of the SDK, and with bytes that no client would send.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod calls;
mod hostile;
mod http;
mod support;
