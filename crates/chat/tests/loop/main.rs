//! The chat, from what is typed to what is seen, against a scripted model.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod around;
mod asking;
mod choices;
mod commands;
mod leaving;
mod stage;
mod talking;
mod waking;
