//! `vestal kanban reclaim`.

use clap::Args;

use super::desk::Desk;
use super::steps::{self, Step};
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
The run ends, its worker is stopped, and the task can be worked on anew; its failures are forgotten.

Example:
  vestal kanban reclaim t_4x7k --reason 'wrong branch'";

/// Takes a running task back from whoever holds it.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ReclaimArgs {
    /// The task.
    #[arg(value_name = "ID")]
    id: String,

    /// Why.
    #[arg(long, value_name = "TEXT", default_value = "by hand")]
    reason: String,

    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(desk: &Desk<'_>, args: &ReclaimArgs) -> Result<Exit, Failure> {
    let (board, id) = desk.task(&args.id).await?;
    let moved = board.reclaim(&desk.by(), &id, &args.reason).await?;
    steps::finish(desk, &board, Step::new(moved, "took back"), args.json).await
}
