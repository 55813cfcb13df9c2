#![doc = include_str!("../README.md")]

mod client;
mod commands;
mod content;
mod error;
mod human;
mod limits;
mod mcp;
mod options;
mod outbox;
mod paths;
mod protocol;
mod replay;
mod serve;
mod server;
mod session;
mod turn;
mod updates;

pub use serve::EditorEnd;
pub use server::{AcpOptions, AcpServer, Workspace};
