//! The program as its users meet it: real processes, real exit codes, real terminals.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod config;
mod copy;
mod docker;
mod engine;
mod jobs;
mod run;
mod sandboxes;
mod shell;
mod signals;
mod support;
mod surface;
