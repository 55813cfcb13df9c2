//! `vestal kanban reopen`.

use clap::Args;

use super::desk::Desk;
use super::steps::{self, Step};
use super::values::joined;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
Tasks that wait for it wait again, as far as they have not been begun.

Example:
  vestal kanban reopen t_4x7k the figures were wrong";

/// Takes up a task anew that is done or archived.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ReopenArgs {
    /// The task.
    #[arg(value_name = "ID")]
    id: String,

    /// Why.
    #[arg(value_name = "REASON")]
    reason: Vec<String>,

    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(desk: &Desk<'_>, args: &ReopenArgs) -> Result<Exit, Failure> {
    let (board, id) = desk.task(&args.id).await?;
    let reason = joined(&args.reason);
    let moved = board.reopen(&desk.by(), &id, reason.as_deref().unwrap_or_default()).await?;
    let step = Step::new(moved, "reopened").because(reason);
    steps::finish(desk, &board, step, args.json).await
}
