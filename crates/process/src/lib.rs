//! Processes by their identity. See the crate's README for the contract.

mod end;
mod identity;
mod lead;
mod locks;
mod stat;

pub use end::{End, Patience, Session};
pub use identity::{ProcessHandle, ProcessId, boot_id, is_stopped, start_time};
pub use lead::lead_session;
pub use locks::{Lock, lock_holder};
