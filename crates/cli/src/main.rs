//! The program `vestal`: it parses, calls the libraries and prints.

mod agent;
mod cli;
mod commands;
mod confirm;
mod console;
mod context;
mod error;
mod exit;
mod find;
mod follow;
mod interact;
mod program;
mod signals;
mod transfer;
mod values;

use std::process::ExitCode;

fn main() -> ExitCode {
    program::run().into()
}
