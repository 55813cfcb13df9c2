//! `vestal kanban boards restore`.

use clap::Args;
use vestal_api::RestoredBoardView;

use super::{Desk, named};
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
Example:
  vestal kanban boards restore website";

/// Brings an archived board back.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct RestoreArgs {
    /// The board.
    #[arg(value_name = "SLUG")]
    slug: String,

    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(desk: &Desk<'_>, args: &RestoreArgs) -> Result<Exit, Failure> {
    let slug = named(&args.slug)?;
    desk.boards().restore(&slug).await?;
    if args.json {
        desk.print(&RestoredBoardView { slug: slug.to_string(), archived: false })?;
    } else {
        desk.console().print(&format!("restored board {slug}"))?;
    }
    Ok(Exit::Success)
}
