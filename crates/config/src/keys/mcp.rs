//! Servers of tools.

use crate::key::Secrecy;
use crate::kinds::{McpServers, Moment, Range};

keys! {
    /// Servers whose tools the agent gets, by name, over the Model Context Protocol: programs that
    /// are started, or addresses. `${NAME}` in their entries stands for a variable of the
    /// environment or of `.env`; that is the place for keys.
    MCP_SERVERS: McpServers = "mcp_servers" {
        default: McpServers::EMPTY,
        limits: (),
        env: ["VESTAL_MCP_SERVERS"],
        secrecy: Secrecy::Within(&["env", "headers"]),
    }

    /// How long after the start of the program the first turn waits, at most, for servers that are
    /// still being asked for their tools. Those that are missing are named; they are there from
    /// the next turn on.
    MCP_DISCOVERY_TIMEOUT: Moment = "mcp_discovery_timeout" {
        default: Moment::from_millis(10_000),
        limits: Range { min: 0, max: 60_000 },
        env: ["VESTAL_MCP_DISCOVERY_TIMEOUT"],
    }
}
