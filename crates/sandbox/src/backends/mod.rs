//! What makes instances, one directory each.

pub(crate) mod apptainer;
mod boot;
mod copying;
pub(crate) mod docker;
mod guest_process;
pub(crate) mod kubernetes;
mod label;
pub(crate) mod local;
pub(crate) mod native;
mod own_system;
mod registry;
mod scope;
pub(crate) mod ssh;
mod user_mounts;

pub(crate) use registry::{Backends, RESERVED_NAMES, UNBUILT};
pub use registry::{backend_in_effect, registered, schema};
