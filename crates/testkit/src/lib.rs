#![doc = include_str!("../README.md")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

pub mod engines;
pub mod files;
mod home;
pub mod kubernetes;
pub mod link;
pub mod namespaces;
pub mod pages;
pub mod processes;
pub mod programs;
pub mod random;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub mod ssh;
mod wait;

pub use self::home::{TestHome, clean_up};
pub use self::processes::{is_alive, is_below, kill, living, marker, parent_of, processes_with};
pub use self::wait::{TEST_TIMEOUT, until, until_async, wait_for, wait_until};
