//! `vestal kanban boards restore`.

use clap::Args;
use serde::Serialize;

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

#[derive(Debug, Serialize)]
struct RestoredView {
    slug: String,
    archived: bool,
}

pub(super) async fn run(desk: &Desk<'_>, args: &RestoreArgs) -> Result<Exit, Failure> {
    let slug = named(&args.slug)?;
    desk.boards().restore(&slug).await?;
    if args.json {
        desk.print(&RestoredView { slug: slug.to_string(), archived: false })?;
    } else {
        desk.console().print(&format!("restored board {slug}"))?;
    }
    Ok(Exit::Success)
}
