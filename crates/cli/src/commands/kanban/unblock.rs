//! `vestal kanban unblock`.

use clap::Args;

use super::bulk;
use super::desk::Desk;
use super::steps::Step;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
It becomes ready, or todo as long as it waits for other tasks. Its failures are forgotten, and no
guard holds it back. The reason, your answer to the worker, is kept as a comment.

Examples:
  vestal kanban unblock t_4x7k --reason 'use the staging database'
  vestal kanban unblock t_4x7k t_9qwe";

/// Lets blocked and scheduled tasks go on.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct UnblockArgs {
    /// The tasks.
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,

    /// Why, or the answer to what was asked.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    /// Prints an array of JSON objects.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(desk: &Desk<'_>, args: &UnblockArgs) -> Result<Exit, Failure> {
    let by = desk.by();
    bulk::each(desk, &args.ids, args.json, |board, id| {
        let (by, reason) = (&by, args.reason.clone());
        async move {
            let moved = board.unblock(by, &id, reason.as_deref()).await?;
            Ok(Step::new(moved, "unblocked").because(reason))
        }
    })
    .await
}
