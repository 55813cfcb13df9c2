//! Backend `local`: the guest as a detached process of the user.
//!
//! There is no isolation: commands run as the user, on the user's files, with the
//! host's network. Jobs, their output and the shell's state outlive the process that
//! started them.
//!
//! An instance is a directory with the guest's socket and, while it runs, a
//! process. The process is identified by pid, start time and boot id, never by pid
//! alone.

mod backend;
mod process;

pub(crate) use backend::{DECLARATION, Local};
