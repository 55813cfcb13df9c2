//! The first process of every sandbox. See the crate's README.

mod connect;
mod diagnostics;
mod files;
mod journal;
mod log;
mod orphans;
mod program;
mod serve;
mod stats;

pub mod failpoint;
pub mod process;
pub mod session;

pub use program::main;
