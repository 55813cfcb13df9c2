//! See the crate's README for the contract.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;

mod call;
mod connect;
pub mod keys;
mod lines;
mod login;
mod new_server;
mod plan;
mod process;
mod reload;
mod schema;
mod server;
mod servers;
mod settings;
mod stderr;
mod tool;
mod web;

pub use login::{LoginError, PendingLogin, forget_login, is_logged_in};
pub use new_server::{NewMcpServer, NewServerError, is_key_header};
pub use reload::ReloadableServers;
pub use server::ServerError;
pub use server::{ServerState, ServerStatus};
pub use servers::{Probe, Servers};
pub use settings::{
    Headers, LoginSettings, McpConnection, McpServer, McpServerName, McpServers, McpTransport,
};
pub use tool::ToolStatus;
pub use web::public as public_url;
