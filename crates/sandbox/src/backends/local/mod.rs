//! Backend `local`: the guest as a detached process of the user.
//!
//! There is no isolation: commands run as the user, in the user's files, with
//! the host's network. What it gives is durability: jobs, their output and the
//! shell's state outlive the process that started them.
//!
//! An instance is a directory with the guest's socket and, while it runs, a
//! process. Its process is named by pid, start time and boot, never by pid
//! alone.

mod backend;
mod process;

pub(crate) use backend::{DECLARATION, Local};
