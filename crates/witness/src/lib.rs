#![doc = include_str!("../README.md")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod moment;
mod processes;

pub use self::moment::{PATIENCE, until, until_async};
pub use self::processes::{is_alive, is_below, kill, living, marker, parent_of, processes_with};
