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
//! | `machines` | the machines of settings and records, each opened once |
//! | `look` | what `vestal doctor` says of one |
//! | `isolation` | sandboxes in namespaces of their own over there |
//! | `locator` | what is recorded of an instance, and what a machine tells of one |
//! | `backend` | the backend's traits |
//! | `containers` | backend `ssh-docker`: sandboxes that are containers of that machine's engine |

mod backend;
mod containers;
mod failure;
mod isolation;
mod locator;
mod login;
mod look;
mod machine;
mod machines;
mod multiplex;
mod script;
mod session;
pub(crate) mod settings;

pub(crate) use backend::{DECLARATION, Ssh};
pub(crate) use containers::{CONTAINERS, SshContainers};
