//! `vestal mcp remove`.

use clap::Args;
use vestal_config::{AnyKey as _, keys, remove_entry};

use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;

/// Takes a server out of config.yaml; comments and order of the rest stay.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  vestal mcp remove files")]
pub(super) struct RemoveArgs {
    /// The server's name.
    name: String,
}

pub(super) fn run(context: &Context, args: &RemoveArgs) -> Result<Exit, Failure> {
    let settings = context.settings()?;
    let name = super::named(&args.name)?;
    let Some(removed) = remove_entry(&settings, keys::MCP_SERVERS.name(), name.as_str())? else {
        // It may be there all the same, from elsewhere than the file.
        super::server(&settings, &name)?;
        let source = settings.get(&keys::MCP_SERVERS)?.source;
        return Err(Failure::new(format!("{name} is not in config.yaml but comes from {source}"))
            .with_exit(Exit::No));
    };
    context.console.note(&format!("removed {name} from {}", removed.path.display()));
    Ok(Exit::Success)
}
