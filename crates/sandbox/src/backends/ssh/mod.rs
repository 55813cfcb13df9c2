//! Backend `ssh`: the guest as a detached process of the user on another machine, which is
//! reached by the system's OpenSSH alone.
//!
//! Without `terminal.ssh_isolation` there is no isolation on that machine: commands run as the
//! user there, and start in a directory of the sandbox's own.
//!
//! | file | what |
//! |---|---|
//! | `settings` | the keys, and what their values may be |
//! | `login` | who logs in where, and the options of `ssh` that follow |
//! | `script` | what the login shell over there is asked to execute |
//! | `multiplex` | the one connection to a host that all processes share |
//! | `session` | a command over there with its streams |
//! | `failure` | what `ssh` says, in words with advice |
//! | `machine` | requests to the guest's program over there, which is put there first |
//! | `isolation` | sandboxes in namespaces of their own over there |
//! | `backend` | the backend's traits |

mod backend;
mod failure;
mod isolation;
mod login;
mod machine;
mod multiplex;
mod script;
mod session;
pub(crate) mod settings;

pub(crate) use backend::{DECLARATION, Ssh};
