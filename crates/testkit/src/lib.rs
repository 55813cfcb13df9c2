#![doc = include_str!("../README.md")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

pub mod files;
mod processes;
pub mod programs;
pub mod random;
mod wait;

pub use self::processes::{is_alive, is_below, kill, living, marker, parent_of, processes_with};
pub use self::wait::{PATIENCE, until, until_async};
