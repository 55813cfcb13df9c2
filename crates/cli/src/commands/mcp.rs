//! `vestal mcp`: its verbs, and what they share.

mod add;
mod serve;
mod servers;

use clap::{Args, Subcommand};
use vestal_api::closest_name;
use vestal_config::{AnyKey as _, Settings};
use vestal_mcp::{McpServer, McpServerName, keys};

use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
A server of the Model Context Protocol is a program to start, or a URL. The agent gets its tools as
mcp_SERVER_TOOL, in the toolset mcp-SERVER. The tools run on this machine, not in the sandbox. The
exit code is 1 if a server is unknown or does not answer. `serve` is the other direction: it makes the
sandboxes tools for other agents.

Examples:
  vestal mcp
  vestal mcp add files -- npx -y @modelcontextprotocol/server-filesystem ~/notes
  vestal mcp add work --url https://mcp.example.com/mcp --header 'Authorization=Bearer ${WORK_TOKEN}'
  vestal mcp test files";

/// List, add, test and remove MCP servers; serve the sandboxes as one.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
pub(crate) struct McpArgs {
    #[command(subcommand)]
    verb: Option<McpVerb>,

    #[command(flatten)]
    list: servers::ListArgs,
}

#[derive(Debug, Subcommand)]
enum McpVerb {
    List(servers::ListArgs),
    Add(add::AddArgs),
    Remove(add::RemoveArgs),
    Test(servers::TestArgs),
    Tools(servers::ToolsArgs),
    Serve(serve::ServeArgs),
}

impl McpArgs {
    /// Reports whether a server is started.
    pub(crate) fn is_server(&self) -> bool {
        matches!(self.verb, Some(McpVerb::Serve(_)))
    }
}

pub(crate) async fn run(context: &Context, args: McpArgs) -> Result<Exit, CommandFailure> {
    match args.verb {
        None => servers::list(context, &args.list),
        Some(McpVerb::List(args)) => servers::list(context, &args),
        Some(McpVerb::Add(args)) => add::run(context, args).await,
        Some(McpVerb::Remove(args)) => add::remove(context, &args),
        Some(McpVerb::Test(args)) => servers::test(context, &args).await,
        Some(McpVerb::Tools(args)) => servers::tools(context, &args).await,
        Some(McpVerb::Serve(args)) => serve::run(context, &args).await,
    }
}

/// Reads the name of a server.
fn named(name: &str) -> Result<McpServerName, CommandFailure> {
    let wrong = || CommandFailure::usage(format!("{name:?} is not a valid server name"));
    McpServerName::new(name)
        .ok_or_else(|| wrong().advise(format!("a name has {}", McpServerName::allowed())))
}

/// Returns a server that the settings name.
fn server(settings: &Settings, name: &McpServerName) -> Result<McpServer, CommandFailure> {
    let servers = settings.get(&keys::MCP_SERVERS)?.value;
    servers.get(name).cloned().ok_or_else(|| {
        let known: Vec<&str> = servers.iter().map(|(name, _)| name.as_str()).collect();
        unknown(name.as_str(), &known)
    })
}

fn unknown(name: &str, known: &[&str]) -> CommandFailure {
    let failure = CommandFailure::new(format!("unknown MCP server {name}")).with_exit(Exit::No);
    match closest_name(name, known.iter().copied()) {
        Some(meant) => failure.advise(format!("did you mean {meant}?")),
        None if known.is_empty() => failure
            .advise(format!("{} is empty; to add one: vestal mcp add", keys::MCP_SERVERS.name())),
        None => failure.advise(format!("available: {}", known.join(", "))),
    }
}
