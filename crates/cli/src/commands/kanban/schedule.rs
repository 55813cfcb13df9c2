//! `vestal kanban schedule`.

use clap::Args;

use super::bulk;
use super::desk::Desk;
use super::steps::Step;
use super::values::{When, joined};
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
With a moment the task becomes ready by itself when it has come (a dispatcher sees to it); without,
it is put away until `vestal kanban unblock`.

Examples:
  vestal kanban schedule t_4x7k when the offices open --at 09:30
  vestal kanban schedule t_4x7k --in 2d
  vestal kanban schedule t_4x7k not this quarter";

/// Puts tasks off.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ScheduleArgs {
    /// The task.
    #[arg(value_name = "ID")]
    id: String,

    /// Why.
    #[arg(value_name = "REASON")]
    reason: Vec<String>,

    #[command(flatten)]
    when: When,

    /// More tasks.
    #[arg(long, value_name = "ID", num_args = 1..)]
    ids: Vec<String>,

    /// Prints an array of JSON objects.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(desk: &Desk<'_>, args: &ScheduleArgs) -> Result<Exit, Failure> {
    let by = desk.by();
    let at = args.when.moment();
    let reason = joined(&args.reason);
    let ids: Vec<String> = std::iter::once(&args.id).chain(&args.ids).cloned().collect();
    bulk::each(desk, &ids, args.json, |board, id| {
        let (by, why) = (&by, reason.clone());
        async move {
            let moved = board.schedule(by, &id, why.as_deref().unwrap_or_default(), at).await?;
            Ok(Step::new(moved, "scheduled").because(why))
        }
    })
    .await
}
