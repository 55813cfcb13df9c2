//! Trying a server.

use vestal_config::{McpServer, McpServerName, Settings};
use vestal_mcp::{Probe, ServerError, Servers};

use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;

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
pub(super) fn failure(settings: &Settings, name: &McpServerName, trouble: &ServerError) -> Failure {
    let failure = Failure::new(format!("the MCP server {name} cannot be used: {trouble}"))
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
