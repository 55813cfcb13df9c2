//! `vestal kanban assign` and `vestal kanban reassign`.

use clap::Args;

use super::desk::Desk;
use super::steps::{self, Step};
use super::values::parse_assignee;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_ASSIGN: &str = "\
`none` takes the task from its assignee. A task that is being worked on is not taken away under the
worker's hands: vestal kanban reassign ID PROFILE --reclaim.

Examples:
  vestal kanban assign t_4x7k writer
  vestal kanban assign t_4x7k none";

const AFTER_REASSIGN: &str = "\
Example:
  vestal kanban reassign t_4x7k writer --reclaim --reason 'needs a better model'";

/// Gives a task to a profile, or to nobody.
#[derive(Debug, Args)]
#[command(after_help = AFTER_ASSIGN)]
pub(super) struct AssignArgs {
    /// The task.
    #[arg(value_name = "ID")]
    id: String,

    /// The profile, or `none`.
    #[arg(value_name = "PROFILE")]
    to: String,

    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

/// Gives a task to another profile, also while it is worked on.
#[derive(Debug, Args)]
#[command(after_help = AFTER_REASSIGN)]
pub(super) struct ReassignArgs {
    #[command(flatten)]
    assign: AssignArgs,

    /// Takes the task back first from whoever works on it.
    #[arg(long)]
    reclaim: bool,

    /// Why.
    #[arg(long, value_name = "TEXT", default_value = "given to another profile")]
    reason: String,
}

pub(super) async fn run(desk: &Desk<'_>, args: &AssignArgs) -> Result<Exit, Failure> {
    let (board, id) = desk.task(&args.id).await?;
    let to = parse_assignee(&args.to)?;
    let task = board.assign(&desk.by(), &id, to.clone()).await?;
    if let Some(profile) = &to {
        desk.warn_of_unknown(profile)?;
    }
    steps::finish(
        desk,
        &board,
        Step::alone(task, "assigned").because(Some(args.to.clone())),
        args.json,
    )
    .await
}

pub(super) async fn again(desk: &Desk<'_>, args: &ReassignArgs) -> Result<Exit, Failure> {
    let ReassignArgs { assign, reclaim, reason } = args;
    let (board, id) = desk.task(&assign.id).await?;
    let to = parse_assignee(&assign.to)?;
    let by = desk.by();
    let ended = if *reclaim && board.get(&id).await?.current_run.is_some() {
        board.reclaim(&by, &id, reason).await?.ended
    } else {
        None
    };
    let task = board.assign(&by, &id, to.clone()).await?;
    if let Some(profile) = &to {
        desk.warn_of_unknown(profile)?;
    }
    let step = Step::ending(task, ended, "assigned").because(Some(assign.to.clone()));
    steps::finish(desk, &board, step, assign.json).await
}
