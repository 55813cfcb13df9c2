//! Sets the stage for a guest: builds sandboxes of namespaces and copies their
//! files. See the crate's README.

mod copy;
mod enclose;
mod failure;
mod json;
mod options;
mod plan;
mod program;
mod sys;
mod users;
mod within;

pub mod failpoint;

pub use program::main;
