#![doc = include_str!("../README.md")]

mod diagnostics;
mod files;
mod job_user;
mod journal;
mod log;
mod machine;
mod orphans;
mod ports;
mod prepare;
mod program;
mod serve;
mod state_file;
mod stats;
mod user;

pub mod failpoint;
pub mod process;
pub mod session;

pub use program::main;
