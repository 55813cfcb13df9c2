//! Whether something the model wants to do may be done.
//!
//! [`Guard`] decides for one conversation. What it decides by: `shell/` says
//! which commands are dangerous, `paths.rs` which files are, `judge.rs` in which
//! order the rules apply, and `ask.rs` puts the question to a person.

mod ask;
mod guard;
mod judge;
mod path_context;
mod paths;
mod policy;
mod shell;

#[cfg(test)]
#[path = "guard_tests.rs"]
mod guard_tests;
#[cfg(test)]
#[path = "mounts_tests.rs"]
mod mounts_tests;
#[cfg(test)]
#[path = "paths_tests.rs"]
mod paths_tests;

pub use guard::{Guard, Remember, WorkingDir};
pub use policy::{
    ApprovalPolicy, ApprovalRefusal, Clearance, GuardMode, RefusalStatus, Unattended,
};
