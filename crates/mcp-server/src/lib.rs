#![doc = include_str!("../README.md")]

mod call;
mod failure;
mod http;
mod limits;
mod resources;
mod schema;
mod server;
mod service;
mod stdio;
mod task;
mod tools;

pub use http::HttpEndpoint;
pub use service::{McpService, SandboxScope, ServiceOptions, Toolset, UnknownToolset};
pub use stdio::{ClientEnd, serve_stdio};
pub use task::TaskChoice;
