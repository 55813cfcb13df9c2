//! `vestal kanban boards set-default-workdir`.

use std::path::PathBuf;

use clap::Args;
use vestal_board::boards::Listed;

use super::{Desk, list, named};
use crate::commands::kanban::values::absolute;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
Tasks with --workspace dir or worktree that name no path get this one. Without a path there is none
any more.

Examples:
  vestal kanban boards set-default-workdir website ~/src/website
  vestal kanban boards set-default-workdir website";

/// Sets the directory for tasks that need one and name none.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct WorkdirArgs {
    /// The board.
    #[arg(value_name = "SLUG")]
    slug: String,

    /// The directory.
    #[arg(value_name = "PATH")]
    path: Option<PathBuf>,

    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(desk: &Desk<'_>, args: &WorkdirArgs) -> Result<Exit, Failure> {
    let slug = named(&args.slug)?;
    let path = args.path.as_deref().map(absolute).transpose()?;
    let info = desk.boards().set_default_workdir(&slug, path.as_deref()).await?;
    if args.json {
        desk.print(&list::view(desk, &Listed::new(slug, info)))?;
        return Ok(Exit::Success);
    }
    let said = match path {
        Some(path) => format!("tasks of board {slug} work in {} by default", path.display()),
        None => format!("board {slug} has no directory for its tasks any more"),
    };
    desk.console().print(&said)?;
    Ok(Exit::Success)
}
