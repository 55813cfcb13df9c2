//! Processes by their identity. See the crate's README for the contract.

mod identity;

pub use identity::{ProcessHandle, ProcessId, boot_id, start_time};
