#![doc = include_str!("../README.md")]

mod conversation;
mod error;
mod prompt;
mod runtime;

pub use conversation::{
    OpenRequest, Opened, Placement, SANDBOX_CHOICE, SandboxChoice, Toolsets, Which,
};
pub use error::RuntimeError;
pub use runtime::{Runtime, RuntimeBuilder, endpoints, redactor};
