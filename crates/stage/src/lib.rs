#![doc = include_str!("../README.md")]

mod confine;
mod copy;
mod enclose;
mod failure;
mod launch;
mod program;
mod record;
mod sys;
mod users;

pub mod failpoint;
pub mod memory;
pub mod survey;

pub use enclose::{MASKED_PROC, READ_ONLY_PROC};
pub use program::main;
