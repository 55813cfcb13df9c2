//! `vestal kanban link` and `vestal kanban unlink`.

use clap::Args;

use super::desk::Desk;
use super::steps::{self, Step};
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_LINK: &str = "\
The child is worked on when the parent is done or archived. A ready child goes back to todo. Links
that would have tasks wait for themselves are refused.

Example:
  vestal kanban link t_4x7k t_9qwe";

const AFTER_UNLINK: &str = "\
A child that waits for nothing else becomes ready.

Example:
  vestal kanban unlink t_4x7k t_9qwe";

/// Has one task wait for another.
#[derive(Debug, Args)]
#[command(after_help = AFTER_LINK)]
pub(super) struct LinkArgs {
    #[command(flatten)]
    pair: Pair,
}

/// Has one task wait for another no longer.
#[derive(Debug, Args)]
#[command(after_help = AFTER_UNLINK)]
pub(super) struct UnlinkArgs {
    #[command(flatten)]
    pair: Pair,
}

#[derive(Debug, Args)]
struct Pair {
    /// The task that is waited for.
    #[arg(value_name = "PARENT")]
    parent: String,

    /// The task that waits.
    #[arg(value_name = "CHILD")]
    child: String,

    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(desk: &Desk<'_>, args: &LinkArgs) -> Result<Exit, Failure> {
    let Pair { parent, child, json } = &args.pair;
    let (board, parent) = desk.task(parent).await?;
    let child = board.find(child).await?;
    let task = board.link(&desk.by(), &parent, &child).await?;
    let step = Step::alone(task, "linked").because(Some(format!("waits for {parent}")));
    steps::finish(desk, &board, step, *json).await
}

pub(super) async fn undo(desk: &Desk<'_>, args: &UnlinkArgs) -> Result<Exit, Failure> {
    let Pair { parent, child, json } = &args.pair;
    let (board, parent) = desk.task(parent).await?;
    let child = board.find(child).await?;
    let task = board.unlink(&desk.by(), &parent, &child).await?;
    let why = format!("waits for {parent} no longer");
    steps::finish(desk, &board, Step::alone(task, "unlinked").because(Some(why)), *json).await
}
