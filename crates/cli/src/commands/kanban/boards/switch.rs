//! `vestal kanban boards switch`.

use clap::Args;
use vestal_api::CurrentBoardView;

use super::{Desk, named};
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
Example:
  vestal kanban boards switch website";

/// Chooses the board that is meant when nobody names one.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct SwitchArgs {
    /// The board.
    #[arg(value_name = "SLUG")]
    slug: String,

    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(desk: &Desk<'_>, args: &SwitchArgs) -> Result<Exit, Failure> {
    let slug = named(&args.slug)?;
    desk.boards().switch(&slug).await?;
    if args.json {
        desk.print(&CurrentBoardView { current: slug.to_string() })?;
    } else {
        desk.console().print(&format!("{slug} is now the current board"))?;
    }
    if let Some(other) = vestal_config::keys::board_variable(desk.context.environment())
        && other.trim() != slug.as_str()
    {
        desk.console().warn(&format!("VESTAL_KANBAN_BOARD names {other}, which goes first"));
    }
    Ok(Exit::Success)
}
