//! What makes instances, one directory each.

mod boot;
mod copying;
pub(crate) mod docker;
mod guest_process;
mod layout;
mod limits;
pub(crate) mod local;
pub(crate) mod native;
mod registry;
mod scope;
mod shaping;
mod show;
mod spawn;

pub use registry::registered;
pub(crate) use registry::{REGISTRY, RESERVED_NAMES, Registration};
