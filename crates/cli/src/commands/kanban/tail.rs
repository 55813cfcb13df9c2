//! `vestal kanban tail`.

use clap::Args;
use vestal_api::EventView;
use vestal_board::store::EventQuery;

use super::desk::Desk;
use super::{events, watch};
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
Begins with what happened last. Ctrl-C ends it.

Example:
  vestal kanban tail t_4x7k";

/// Events of the past that are printed first.
const PAST: u32 = 20;

/// Prints what happens to a task, as it happens.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct TailArgs {
    /// The task.
    #[arg(value_name = "ID")]
    id: String,

    /// Events of the past to begin with.
    #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = PAST)]
    last: u32,

    /// Prints a JSON object a line.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(desk: &Desk<'_>, args: &TailArgs) -> Result<Exit, Failure> {
    let (board, id) = desk.task(&args.id).await?;
    let mut read = board.read().await?;
    let (past, after) = (read.events(&id, args.last).await?, read.last_event().await?);
    drop(read);
    for event in &past {
        if args.json {
            desk.print_line(&EventView::from(event))?;
        } else {
            events::print(desk, event, None)?;
        }
    }
    let query = EventQuery {
        after,
        task: Some(id),
        kinds: Vec::new(),
        assignee: None,
        tenant: None,
        limit: watch::PAGE,
    };
    watch::until_signal(watch::pass_on(desk, &board, query, args.json)).await
}
