//! `vestal kanban block`.

use clap::Args;
use vestal_board::BlockKind;
use vestal_board::verbs::Block;

use super::bulk;
use super::desk::Desk;
use super::steps::Step;
use super::values::joined;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
A blocked task waits for a person: `vestal kanban unblock`. Kinds: needs_input somebody has to
answer, capability something is missing, transient it is tried again by itself, dependency it waits
for tasks that it is linked to. One that is blocked again and again for the same kind of reason goes
to triage, for a person to decide. A reason that begins with `review-required:` submits the work.

Examples:
  vestal kanban block t_4x7k which database is meant? --kind needs_input
  vestal kanban block t_4x7k 'the site is down' --kind transient --ids t_9qwe t_2m9q";

/// Blocks tasks until somebody sees to what is in the way.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct BlockArgs {
    /// The task.
    #[arg(value_name = "ID")]
    id: String,

    /// Why.
    #[arg(value_name = "REASON", required = true)]
    reason: Vec<String>,

    /// What kind of reason it is: `needs_input`, capability, transient or dependency.
    #[arg(long, value_name = "KIND")]
    kind: Option<BlockKind>,

    /// More tasks.
    #[arg(long, value_name = "ID", num_args = 1..)]
    ids: Vec<String>,

    /// Prints an array of JSON objects.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(desk: &Desk<'_>, args: &BlockArgs) -> Result<Exit, Failure> {
    let by = desk.by();
    let Some(reason) = joined(&args.reason) else {
        return Err(Failure::usage("the reason is empty"));
    };
    let ids: Vec<String> = std::iter::once(&args.id).chain(&args.ids).cloned().collect();
    bulk::each(desk, &ids, args.json, |board, id| {
        let (by, reason) = (&by, reason.clone());
        async move {
            let block = Block { reason: reason.clone(), kind: args.kind };
            Ok(Step::new(board.block(by, &id, block).await?, "blocked").because(Some(reason)))
        }
    })
    .await
}
