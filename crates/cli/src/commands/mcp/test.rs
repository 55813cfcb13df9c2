//! `vestal mcp test`.

use clap::Args;
use serde::Serialize;
use vestal_mcp::{Probe, ServerError};

use super::probe::{failure, probe};
use crate::console::text;
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;

/// Connects to a server and says what it has; nothing of it is left running.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  vestal mcp test files\n  vestal mcp test files --json")]
pub(super) struct TestArgs {
    /// The server's name.
    name: String,

    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct TestView {
    name: String,
    ok: bool,
    /// What the server calls itself.
    server: Option<String>,
    /// The version of the protocol it speaks.
    protocol: Option<String>,
    /// What the agent calls its tools.
    tools: Vec<String>,
    took_ms: Option<u128>,
    error: Option<String>,
}

pub(super) async fn run(context: &Context, args: &TestArgs) -> Result<Exit, Failure> {
    let settings = context.settings()?;
    let name = super::named(&args.name)?;
    let server = super::server(&settings, &name)?;
    let tried = Box::pin(probe(context, &settings, &name, &server)).await;
    if args.json {
        let exit = if tried.is_ok() { Exit::Success } else { Exit::No };
        context.console.print_json(&view(name.as_str(), tried))?;
        return Ok(exit);
    }
    let probe = tried.map_err(|trouble| failure(&settings, &name, &trouble))?;
    context.console.print(&summary(name.as_str(), &probe))?;
    Ok(Exit::Success)
}

/// Returns what was found, in a line.
pub(super) fn summary(name: &str, probe: &Probe) -> String {
    let about = probe.about.as_deref().map(|about| format!(" ({about})")).unwrap_or_default();
    let count = text::count(probe.tools.len() as u64, "tool");
    let took = text::took(probe.took);
    format!("{name}{about} answers, protocol {}, {count}, {took}", probe.protocol)
}

fn view(name: &str, tried: Result<Probe, ServerError>) -> TestView {
    let (probe, error) = match tried {
        Ok(probe) => (Some(probe), None),
        Err(trouble) => (None, Some(trouble.to_string())),
    };
    let tools = probe.iter().flat_map(|probe| &probe.tools).map(|tool| tool.name.clone()).collect();
    TestView {
        name: name.to_owned(),
        ok: error.is_none(),
        took_ms: probe.as_ref().map(|probe| probe.took.as_millis()),
        server: probe.as_ref().and_then(|probe| probe.about.clone()),
        protocol: probe.map(|probe| probe.protocol),
        tools,
        error,
    }
}
