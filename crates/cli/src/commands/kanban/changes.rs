//! `vestal kanban changes`.

use clap::Args;

use super::desk::Desk;
use super::steps::{self, Step};
use super::values::joined;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
What is wanted is kept as a comment, and the task becomes ready again. To approve the work:
vestal kanban complete ID.

Example:
  vestal kanban changes t_4x7k please add a test";

/// Asks for changes to work that was submitted.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ChangesArgs {
    /// The task.
    #[arg(value_name = "ID")]
    id: String,

    /// What is wanted.
    #[arg(value_name = "REASON", required = true)]
    reason: Vec<String>,

    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(desk: &Desk<'_>, args: &ChangesArgs) -> Result<Exit, Failure> {
    let Some(reason) = joined(&args.reason) else {
        return Err(Failure::usage("the reason is empty"));
    };
    let (board, id) = desk.task(&args.id).await?;
    let moved = board.request_changes(&desk.by(), &id, &reason).await?;
    let step = Step::new(moved, "asked for changes to").because(Some(reason));
    steps::finish(desk, &board, step, args.json).await
}
