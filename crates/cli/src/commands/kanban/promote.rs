//! `vestal kanban promote`.

use clap::Args;
use vestal_board::verbs::Promotion;

use super::bulk;
use super::desk::Desk;
use super::steps::Step;
use super::values::joined;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
With --dry-run nothing is changed: the exit code says whether it could be.

Examples:
  vestal kanban promote t_4x7k the contract came by mail
  vestal kanban promote t_4x7k --force 'start without the review'";

/// Makes tasks ready by your word: of todo, blocked, triage or scheduled ones.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct PromoteArgs {
    /// The task.
    #[arg(value_name = "ID")]
    id: String,

    /// Why.
    #[arg(value_name = "REASON")]
    reason: Vec<String>,

    /// More tasks.
    #[arg(long, value_name = "ID", num_args = 1..)]
    ids: Vec<String>,

    /// Also where the tasks it waits for are not done.
    #[arg(long)]
    force: bool,

    /// Only says whether it could be.
    #[arg(short = 'n', long)]
    dry_run: bool,

    /// Prints an array of JSON objects.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(desk: &Desk<'_>, args: &PromoteArgs) -> Result<Exit, Failure> {
    let by = desk.by();
    let reason = joined(&args.reason);
    let ids: Vec<String> = std::iter::once(&args.id).chain(&args.ids).cloned().collect();
    bulk::each(desk, &ids, args.json, |board, id| {
        let by = &by;
        let why = reason.clone();
        let promotion = Promotion {
            reason: why.clone().unwrap_or_default(),
            force: args.force,
            dry_run: args.dry_run,
        };
        async move {
            let moved = board.promote(by, &id, promotion).await?;
            let done = if args.dry_run { "would promote" } else { "promoted" };
            Ok(Step::new(moved, done).because(why))
        }
    })
    .await
}
