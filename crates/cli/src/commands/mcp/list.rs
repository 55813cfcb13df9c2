//! `vestal mcp list`.

use clap::Args;
use serde::Serialize;
use vestal_agent::redact::Redactor;
use vestal_config::{McpConnection, McpServer, McpServerName, keys};

use crate::console::{Cell, DIM, Table};
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
What the settings say is shown; whether a server answers, `vestal mcp test` finds out.

Examples:
  vestal mcp list
  vestal mcp list --json | jq -r '.[].name'";

/// Lists the servers that the settings name.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ListArgs {
    /// Prints an array of JSON objects.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct ServerView {
    name: String,
    enabled: bool,
    /// `stdio`, `http` or `sse`.
    transport: &'static str,
    /// The command with its arguments, or the address; secrets masked.
    target: String,
    /// Where the settings have it from.
    source: String,
}

pub(super) fn run(context: &Context, args: &ListArgs) -> Result<Exit, Failure> {
    let (settings, console) = (context.settings()?, context.console);
    let found = settings.get(&keys::MCP_SERVERS)?;
    let source = found.source.to_string();
    let redactor = Redactor::new(settings.known_secrets());
    let views: Vec<ServerView> =
        found.value.iter().map(|(name, server)| view(name, server, &source, &redactor)).collect();
    if args.json {
        console.print_json(&views)?;
        return Ok(Exit::Success);
    }
    if views.is_empty() {
        console.note("no MCP servers are configured");
        console
            .note("to add one: vestal mcp add NAME -- COMMAND, or vestal mcp add NAME --url URL");
        return Ok(Exit::Success);
    }
    let mut table = Table::new(&["NAME", "STATE", "TRANSPORT", "TARGET"]);
    for view in &views {
        let state = if view.enabled { "enabled" } else { "disabled" };
        table.row(vec![
            view.name.as_str().into(),
            Cell::styled(state, DIM),
            view.transport.into(),
            Cell::styled(&view.target, DIM),
        ]);
    }
    console.print_table(&table)?;
    Ok(Exit::Success)
}

fn view(name: &McpServerName, server: &McpServer, source: &str, redactor: &Redactor) -> ServerView {
    let (transport, target) = match &server.connection {
        McpConnection::Program { command, args, .. } => {
            let words = std::iter::once(command).chain(args).map(String::as_str);
            ("stdio", words.collect::<Vec<_>>().join(" "))
        }
        McpConnection::Address { url, transport, .. } => {
            (transport.as_str(), vestal_mcp::public_url(url))
        }
    };
    ServerView {
        name: name.to_string(),
        enabled: server.enabled,
        transport,
        target: redactor.redact(&target).into_owned(),
        source: source.to_owned(),
    }
}
