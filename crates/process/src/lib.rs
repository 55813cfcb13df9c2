#![doc = include_str!("../README.md")]

pub mod failpoint;
mod identity;
mod locks;
mod session;

pub use identity::{ProcessHandle, ProcessId, boot_id, is_stopped, start_time};
pub use locks::{Lock, lock_holder};
pub use session::{EndPatience, ProcessSession, SessionEnd, lead_session};
