//! `vestal kanban boards rename`.

use clap::Args;
use vestal_board::boards::Listed;

use super::{Desk, list, named};
use crate::console::text;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
The slug stays: scripts and workers know the board by it.

Example:
  vestal kanban boards rename website 'The new website'";

/// Gives a board another name for people.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct RenameArgs {
    /// The board.
    #[arg(value_name = "SLUG")]
    slug: String,

    /// Its name.
    #[arg(value_name = "NAME")]
    name: String,

    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(desk: &Desk<'_>, args: &RenameArgs) -> Result<Exit, Failure> {
    let slug = named(&args.slug)?;
    let info = desk.boards().rename(&slug, &args.name).await?;
    if args.json {
        desk.print(&list::view(desk, &Listed::new(slug, info)))?;
    } else {
        let name = text::printable(&info.name);
        desk.console().print(&format!("board {slug} is now called {name}"))?;
    }
    Ok(Exit::Success)
}
