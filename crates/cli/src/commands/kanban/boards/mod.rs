//! `vestal kanban boards`, one file for each of its verbs.

mod create;
mod list;
mod rename;
mod restore;
mod rm;
mod show;
mod switch;
mod workdir;

use clap::{Args, Subcommand};
use vestal_board::Error;
use vestal_board::boards::{BoardsError, Slug};

use super::desk::Desk;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
Each board has its own tasks, files and logs; all profiles share them. The board default is always
there.

Examples:
  vestal kanban boards create website --name 'The website' --switch
  vestal kanban boards list";

/// Makes, lists and removes boards, and chooses one.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct BoardsArgs {
    #[command(subcommand)]
    verb: BoardsVerb,
}

#[derive(Debug, Subcommand)]
enum BoardsVerb {
    #[command(visible_alias = "ls")]
    List(list::ListArgs),
    #[command(visible_alias = "new")]
    Create(create::CreateArgs),
    #[command(visible_aliases = ["remove", "delete"])]
    Rm(rm::RmArgs),
    Restore(restore::RestoreArgs),
    #[command(visible_alias = "use")]
    Switch(switch::SwitchArgs),
    #[command(visible_alias = "current")]
    Show(show::ShowArgs),
    Rename(rename::RenameArgs),
    #[command(name = "set-default-workdir")]
    Workdir(workdir::WorkdirArgs),
}

pub(super) async fn run(desk: &Desk<'_>, args: BoardsArgs) -> Result<Exit, Failure> {
    match args.verb {
        BoardsVerb::List(args) => list::run(desk, &args).await,
        BoardsVerb::Create(args) => create::run(desk, args).await,
        BoardsVerb::Rm(args) => rm::run(desk, &args).await,
        BoardsVerb::Restore(args) => restore::run(desk, &args).await,
        BoardsVerb::Switch(args) => switch::run(desk, &args).await,
        BoardsVerb::Show(args) => show::run(desk, &args).await,
        BoardsVerb::Rename(args) => rename::run(desk, &args).await,
        BoardsVerb::Workdir(args) => workdir::run(desk, &args).await,
    }
}

/// Reads the name of a board. A wrong one is told as one that is unknown is.
fn named(slug: &str) -> Result<Slug, Failure> {
    Ok(Slug::new(slug).map_err(BoardsError::from).map_err(Error::from)?)
}
