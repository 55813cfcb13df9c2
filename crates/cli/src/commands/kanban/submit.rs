//! `vestal kanban submit`.

use clap::Args;

use super::complete::DoneArgs;
use super::desk::Desk;
use super::steps::{self, Step};
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
It is in review until its reviewer, or a person, completes it or asks for changes.

Example:
  vestal kanban submit t_4x7k --summary 'branch wt/t_4x7k is ready to be looked at'";

/// Hands work in to be looked at.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct SubmitArgs {
    /// The task.
    #[arg(value_name = "ID")]
    id: String,

    #[command(flatten)]
    done: DoneArgs,

    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(desk: &Desk<'_>, args: SubmitArgs) -> Result<Exit, Failure> {
    let (board, id) = desk.task(&args.id).await?;
    let moved = board.submit(&desk.by(), &id, args.done.completion().await?).await?;
    steps::finish(desk, &board, Step::new(moved, "submitted"), args.json).await
}
