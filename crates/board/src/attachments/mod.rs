//! The files of tasks: under what name people know them, and where their bytes
//! are on this host.

mod bytes;
mod name;

pub use bytes::{MAX_ATTACHMENT, Source};
pub(crate) use bytes::{path_of, take_in};
pub(crate) use name::{content_type, safe_name, unique_name};
