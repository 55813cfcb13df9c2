//! `vestal kanban init`.

use clap::Args;
use vestal_api::BoardPlaceView;

use super::desk::Desk;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
Boards make themselves: nothing has to be prepared, and this changes nothing.

Example:
  vestal kanban init";

/// Says where the board is; there is nothing to prepare.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct InitArgs {
    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(desk: &Desk<'_>, args: &InitArgs) -> Result<Exit, Failure> {
    let dir = desk.dir();
    let view = BoardPlaceView {
        board: desk.slug().to_string(),
        path: dir.display().to_string(),
        exists: dir.is_dir(),
        profiles: desk.profiles()?.iter().map(ToString::to_string).collect(),
    };
    if args.json {
        desk.print(&view)?;
        return Ok(Exit::Success);
    }
    let state = if view.exists { "is" } else { "will be" };
    desk.console().print(&format!("board {} {state} in {}", view.board, view.path))?;
    desk.console().note(&format!("profiles that tasks can go to: {}", view.profiles.join(", ")));
    desk.console().note("to make a task: vestal kanban create TITLE --assignee PROFILE");
    desk.console().note("to have tasks worked on: vestal kanban dispatch --watch");
    Ok(Exit::Success)
}
