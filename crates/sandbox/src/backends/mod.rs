//! What makes instances, one directory each.

mod boot;
mod copying;
pub(crate) mod docker;
mod guest_process;
pub(crate) mod local;
pub(crate) mod native;
mod own_system;
mod registry;
mod scope;
pub(crate) mod ssh;

pub use registry::registered;
pub(crate) use registry::{REGISTRY, RESERVED_NAMES, Registration};
