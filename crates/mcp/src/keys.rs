//! The settings of servers of tools.

use vestal_config::{Group, Moment, Range, Secrecy, Settings};

use crate::settings::{McpConnection, McpServers};

vestal_config::keys! {
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

/// The settings of this owner.
pub static GROUP: Group = Group { secrets, ..Group::of(KEYS) };

/// Returns what servers of tools are started and asked with that is secret:
/// values of headers, variables that are secrets by their name, and what
/// either refers to.
fn secrets(settings: &Settings) -> Vec<String> {
    let servers = settings.get(&MCP_SERVERS).map(|found| found.value).ok();
    let mut found = Vec::new();
    for (_, server) in servers.iter().flat_map(McpServers::iter) {
        let values: Vec<&str> = match &server.connection {
            McpConnection::Address { headers, .. } => {
                headers.iter().map(|(_, value)| value).collect()
            }
            McpConnection::Program { env, .. } => env
                .iter()
                .filter(|(name, _)| settings.schema().is_secret(name.as_str()))
                .map(|(_, value)| value)
                .collect(),
        };
        for value in values {
            found.extend(settings.referred_values(value));
            // `Bearer KEY` is a word that everybody knows and one that nobody should.
            let written = value.rsplit(' ').next().unwrap_or(value);
            if !written.contains('$') {
                found.push(written.to_owned());
            }
        }
    }
    found
}
