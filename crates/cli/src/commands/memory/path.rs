//! `vestal memory path`.

use clap::Args;
use vestal_memory::Target;

use super::Desk;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
Example:
  cat \"$(vestal memory path user)\"";

/// Prints where notes are.
#[derive(Debug, Clone, Copy, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct PathArgs {
    /// Notes whose file is meant: memory or user; without it the directory of both.
    #[arg(value_name = "NOTES")]
    target: Option<Target>,
}

pub(super) fn run(desk: &Desk<'_>, args: PathArgs) -> Result<Exit, Failure> {
    let path = args.target.map_or_else(|| desk.files.dir().to_owned(), |it| desk.files.path(it));
    desk.context.console.print(&path.to_string_lossy())?;
    Ok(Exit::Success)
}
