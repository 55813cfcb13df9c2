//! `vestal snapshots`.

mod list;
mod rm;

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
SIZE is what its directory holds. Copies that share their blocks with the sandbox, and what a
container engine keeps as an image, are not told apart from it there. A task called `rm` or `list`
is named with -t.

Examples:
  vestal snapshots
  vestal snapshots web --json | jq -r '.[].name'
  vestal snapshots rm web 2026-11-15-1830";

/// Lists the copies that were kept of sandboxes; removes them.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
pub(crate) struct SnapshotsArgs {
    #[command(flatten)]
    list: list::ListArgs,

    #[command(subcommand)]
    verb: Option<SnapshotsVerb>,
}

#[derive(Debug, Subcommand)]
enum SnapshotsVerb {
    /// Lists snapshots: those of all sandboxes, or of the tasks given.
    #[command(after_help = "Example:\n  vestal snapshots list web")]
    List(list::ListArgs),
    Rm(rm::RmArgs),
}

pub(crate) async fn run(context: &Context, args: SnapshotsArgs) -> Result<Exit, Failure> {
    match args.verb {
        None => list::run(context, args.list).await,
        Some(SnapshotsVerb::List(args)) => list::run(context, args).await,
        Some(SnapshotsVerb::Rm(args)) => rm::run(context, args).await,
    }
}
