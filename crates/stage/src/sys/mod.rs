//! Calls of the kernel that no library has a safe form of.

pub(crate) mod descriptors;
pub(crate) mod landlock;
pub(crate) mod mount;
pub(crate) mod network;
pub(crate) mod process;
pub(crate) mod seccomp;
