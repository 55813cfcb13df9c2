//! `vestal mcp list`, `test` and `tools`.

use clap::Args;
use vestal_agent::redact::Redactor;
use vestal_api::{McpServerView, McpTestView};
use vestal_config::Settings;
use vestal_mcp::{McpServer, McpServerName, Probe, ServerError, Servers, keys};

use crate::console::{Cell, DIM, Table, YELLOW, text};
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;

const LIST_HELP: &str = "\
This shows the settings only; `vestal mcp test` checks whether a server answers.

Examples:
  vestal mcp list
  vestal mcp list --json | jq -r '.[].name'";

/// List the configured servers.
#[derive(Debug, Args)]
#[command(after_help = LIST_HELP)]
pub(super) struct ListArgs {
    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

pub(super) fn list(context: &Context, args: &ListArgs) -> Result<Exit, CommandFailure> {
    let (settings, console) = (context.settings()?, context.console);
    let found = settings.get(&keys::MCP_SERVERS)?;
    let source = found.source.to_string();
    let redactor = Redactor::new(settings.known_secrets());
    let views: Vec<McpServerView> = found
        .value
        .iter()
        .map(|(name, server)| McpServerView::new(name, server, &source, &redactor))
        .collect();
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
            view.transport.as_str().into(),
            Cell::styled(&view.target, DIM),
        ]);
    }
    console.print_table(&table)?;
    Ok(Exit::Success)
}

/// Connect to a server, list what it offers, and disconnect.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  vestal mcp test files\n  vestal mcp test files --json")]
pub(super) struct TestArgs {
    /// Name of the server.
    name: String,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn test(context: &Context, args: &TestArgs) -> Result<Exit, CommandFailure> {
    let settings = context.settings()?;
    let name = super::named(&args.name)?;
    let server = super::server(&settings, &name)?;
    let tried = Box::pin(probe(context, &settings, &name, &server)).await;
    if args.json {
        let exit = if tried.is_ok() { Exit::Success } else { Exit::No };
        context.console.print_json(&McpTestView::new(name.as_str(), tried))?;
        return Ok(exit);
    }
    let probe = tried.map_err(|trouble| failure(&settings, &name, &trouble))?;
    context.console.print(&summary(name.as_str(), &probe))?;
    Ok(Exit::Success)
}

/// Returns what was found, in a line.
pub(super) fn summary(name: &str, probe: &Probe) -> String {
    let about = probe.about.as_deref().map(|about| format!(" ({about})")).unwrap_or_default();
    let count = text::count(probe.tools.len(), "tool");
    let took = text::took(probe.took);
    format!("{name}{about} answers, protocol {}, {count}, {took}", probe.protocol)
}

/// List the tools of a server, as the agent sees them.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  vestal mcp tools files")]
pub(super) struct ToolsArgs {
    /// Name of the server.
    name: String,

    /// Print a JSON array, with the schemas.
    #[arg(long)]
    json: bool,
}

pub(super) async fn tools(context: &Context, args: &ToolsArgs) -> Result<Exit, CommandFailure> {
    let settings = context.settings()?;
    let name = super::named(&args.name)?;
    let server = super::server(&settings, &name)?;
    let tried = Box::pin(probe(context, &settings, &name, &server)).await;
    let probe = tried.map_err(|trouble| failure(&settings, &name, &trouble))?;
    let console = context.console;
    if args.json {
        console.print_json(&probe.tools)?;
        return Ok(Exit::Success);
    }
    if probe.tools.is_empty() {
        console.note(&format!("{name} has no tools, or the settings exclude all of them"));
        return Ok(Exit::Success);
    }
    let mut table = Table::new(&["TOOL", "SAYS IT", "DESCRIPTION"]);
    for tool in &probe.tools {
        let says = match (tool.read_only, tool.destructive) {
            (true, _) => Cell::styled("reads", DIM),
            (false, true) => Cell::styled("destroys", YELLOW),
            (false, false) => Cell::from("-"),
        };
        let line = tool.description.lines().next().unwrap_or_default();
        let line: String = line.chars().take(100).collect();
        table.row(vec![tool.name.as_str().into(), says, Cell::styled(line, DIM)]);
    }
    console.print_table(&table)?;
    Ok(Exit::Success)
}

/// Connects to a server, asks what it has, and ends it again.
pub(super) async fn probe(
    context: &Context,
    settings: &Settings,
    name: &McpServerName,
    server: &McpServer,
) -> Result<Probe, ServerError> {
    let trying = Servers::probe(settings, name.as_str(), server);
    Box::pin(context.console.while_waiting(&format!("connecting to {name}"), trying)).await
}

/// Returns the failure of a server that cannot be used.
pub(super) fn failure(
    settings: &Settings,
    name: &McpServerName,
    trouble: &ServerError,
) -> CommandFailure {
    let failure = CommandFailure::new(format!("the MCP server {name} cannot be used: {trouble}"))
        .with_exit(Exit::No);
    match trouble {
        ServerError::Failed(_) | ServerError::Late { .. } => {
            let log = settings.home().logs_dir().join("mcp-stderr.log");
            failure.advise(format!(
                "what servers print on their standard error is in {}",
                log.display()
            ))
        }
        ServerError::Settings(_) | ServerError::NotFound(_) | ServerError::Unauthorized(_) => {
            failure
        }
    }
}
