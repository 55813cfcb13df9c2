//! A supervisor and its children as real processes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod boot;
mod crashes;
mod fixture;
mod lifecycle;
mod main_program;
mod managers;
mod output;
mod services;
