#![doc = include_str!("../README.md")]

mod copy;
mod enclose;
mod failure;
mod program;
mod sys;
mod users;
mod within;

pub mod failpoint;

pub use program::main;
