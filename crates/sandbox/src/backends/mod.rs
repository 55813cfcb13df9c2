//! What makes instances, one directory each.

pub(crate) mod docker;
pub(crate) mod local;
