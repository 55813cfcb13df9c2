//! `vestal kanban attach-rm`.

use clap::Args;
use vestal_api::DetachedView;

use super::desk::Desk;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
The numbers are those of `vestal kanban attachments ID`.

Example:
  vestal kanban attach-rm 12";

/// Takes a file away from its task.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct DetachArgs {
    /// Number of the file.
    #[arg(value_name = "NUMBER")]
    number: i64,

    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(desk: &Desk<'_>, args: &DetachArgs) -> Result<Exit, Failure> {
    let missing = || {
        Failure::new(format!("there is no attachment {}", args.number))
            .with_exit(Exit::No)
            .advise("to see those of a task: vestal kanban attachments ID")
    };
    let Some(board) = desk.board_if_any().await? else { return Err(missing()) };
    if board.read().await?.attachment(args.number).await?.is_none() {
        return Err(missing());
    }
    board.detach(&desk.by(), args.number).await?;
    if args.json {
        desk.print(&DetachedView { id: args.number, removed: true })?;
    } else {
        desk.console().print(&format!("removed attachment {}", args.number))?;
    }
    Ok(Exit::Success)
}
