//! The protocol as clients meet it, without a transport; the model is scripted, everything else is real.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod connections;
mod extras;
mod network;
mod sandboxes;
mod sessions;
mod support;
mod turns;
