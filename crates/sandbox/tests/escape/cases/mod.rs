//! The cases, by what is attacked.

pub(crate) mod calls;
pub(crate) mod files;
pub(crate) mod kernel_files;
pub(crate) mod links;
pub(crate) mod mounts;
pub(crate) mod sockets;
pub(crate) mod users;
