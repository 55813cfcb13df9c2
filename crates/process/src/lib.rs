#![doc = include_str!("../README.md")]

mod changes;
pub mod failpoint;
mod identity;
mod locks;
mod ports;
mod session;

pub use changes::FileChanges;
pub use identity::{ProcessHandle, ProcessId, boot_id, is_stopped, start_time};
pub use locks::{Lock, lock_holder};
pub use ports::{PortHolder, PortListener, port_holder, port_listeners};
pub use session::{EndTimeouts, ProcessSession, SessionEnd, lead_session};
