//! The whole chat, from input to screen, against a scripted model.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod choices;
mod commands;
mod display;
mod fixture;
mod modes;
mod picking;
mod questions;
mod shutdown;
mod turns;
mod wakeup;
