//! Servers of tools: programs and addresses that speak the Model Context Protocol.

mod headers;
mod server;
mod servers;

pub use headers::Headers;
pub use server::{McpConnection, McpServer, McpTransport};
pub use servers::{McpServerName, McpServers};

#[cfg(test)]
#[path = "mcp_tests.rs"]
mod mcp_tests;
