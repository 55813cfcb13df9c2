//! `vestal mcp tools`.

use clap::Args;

use super::probe::{failure, probe};
use crate::console::{Cell, DIM, Table, YELLOW};
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;

/// Lists the tools of a server, as the agent gets them.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  vestal mcp tools files")]
pub(super) struct ToolsArgs {
    /// The server's name.
    name: String,

    /// Prints an array of JSON objects, with the schemas.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(context: &Context, args: &ToolsArgs) -> Result<Exit, Failure> {
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
        console.note(&format!("{name} has no tools, or the settings take none of them"));
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
