//! Trying a server.

use vestal_config::{McpServer, McpServerName, Settings};
use vestal_mcp::{Probe, Servers, Trouble};

use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;

/// Connects to a server, asks what it has, and ends it again.
pub(super) async fn probe(
    context: &Context,
    settings: &Settings,
    name: &McpServerName,
    server: &McpServer,
) -> Result<Probe, Trouble> {
    let trying = Servers::probe(settings, name.as_str(), server);
    Box::pin(context.console.while_waiting(&format!("connecting to {name}"), trying)).await
}

/// Returns the failure of a server that cannot be used.
pub(super) fn failure(settings: &Settings, name: &McpServerName, trouble: &Trouble) -> Failure {
    let failure = Failure::new(format!("the MCP server {name} cannot be used: {trouble}"))
        .with_exit(Exit::No);
    match trouble {
        Trouble::Failed(_) | Trouble::Late { .. } => {
            let log = settings.home().logs_dir().join("mcp-stderr.log");
            failure.advise(format!(
                "what servers print on their standard error is in {}",
                log.display()
            ))
        }
        Trouble::Settings(_) | Trouble::NotFound(_) | Trouble::Unauthorized(_) => failure,
    }
}
