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
mod within;

pub mod failpoint;
pub mod survey;

pub use program::main;
