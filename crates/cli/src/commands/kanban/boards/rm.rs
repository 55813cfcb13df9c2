//! `vestal kanban boards rm`.

use clap::Args;
use vestal_api::RemovedBoardView;

use super::{Desk, named};
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
A removed board is archived: nothing of it is lost, and `restore` brings it back. With --delete it
goes for good, with tasks, files and logs. Both are refused while its tasks are worked on.

Examples:
  vestal kanban boards rm website
  vestal kanban boards rm website --delete";

/// Archives a board, or deletes it.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct RmArgs {
    /// The board.
    #[arg(value_name = "SLUG")]
    slug: String,

    /// Deletes it with all that is in it.
    #[arg(long)]
    delete: bool,

    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(desk: &Desk<'_>, args: &RmArgs) -> Result<Exit, Failure> {
    let slug = named(&args.slug)?;
    if args.delete {
        desk.boards().delete(&slug).await?;
    } else {
        desk.boards().remove(&slug).await?;
    }
    if args.json {
        desk.print(&RemovedBoardView { slug: slug.to_string(), deleted: args.delete })?;
    } else if args.delete {
        desk.console().print(&format!("deleted board {slug}"))?;
    } else {
        desk.console().print(&format!("archived board {slug}"))?;
        desk.console().note(&format!("to bring it back: vestal kanban boards restore {slug}"));
    }
    if &slug == desk.slug() && !slug.is_default() {
        desk.console().note("default is now the current board");
    }
    Ok(Exit::Success)
}
