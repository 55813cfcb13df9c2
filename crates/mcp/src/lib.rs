//! See the crate's README for the contract.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;

mod answer;
mod call;
mod client;
mod command;
mod connect;
mod environment;
mod lines;
mod names;
mod plan;
mod printable;
mod process;
mod schema;
mod server;
mod servers;
mod stderr;
mod tool;
mod trouble;
mod web;

pub use server::{ServerState, ServerStatus};
pub use servers::{Probe, Servers};
pub use tool::ToolStatus;
pub use trouble::Trouble;
pub use web::public as public_url;
