//! The user that jobs and file operations belong to.
//!
//! The guest is root where it may be, so that it works in any image; jobs are
//! the image's user. Who that is, the instance's own `/etc/passwd` says: no
//! library of the image is asked.

mod accounts;
mod credentials;
mod environment;
mod resolve;

pub(crate) use credentials::{Change, Credentials};
pub(crate) use environment::base_environment;
pub(crate) use resolve::{User, UserError, resolve};
