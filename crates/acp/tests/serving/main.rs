//! The server in this process, with a client that sends lines, a scripted model over real HTTP, and
//! sandboxes that are processes of this machine.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

mod conversations;
mod hostile;
mod options;
mod support;
mod turns;
