//! `vestal kanban context`.

use clap::Args;
use vestal_api::TaskContextView;

use super::desk::Desk;
use crate::console::text;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
Example:
  vestal kanban context t_4x7k";

/// Prints what a worker is told about a task.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ContextArgs {
    /// The task.
    #[arg(value_name = "ID")]
    id: String,

    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(desk: &Desk<'_>, args: &ContextArgs) -> Result<Exit, Failure> {
    let (board, id) = desk.task(&args.id).await?;
    let context = board.context(&id).await?;
    if args.json {
        desk.print(&TaskContextView { task_id: id.to_string(), context })?;
    } else {
        let shown = text::harmless(&context);
        desk.console().print(shown.trim_end())?;
    }
    Ok(Exit::Success)
}
