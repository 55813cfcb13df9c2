//! `vestal kanban watch`.

use std::convert::Infallible;
use std::time::Duration;

use clap::Args;
use vestal_api::EventView;
use vestal_board::store::EventQuery;
use vestal_board::{Board, Event};
use vestal_sandbox::Terminations;

use super::desk::Desk;
use super::events;
use crate::error::Failure;
use crate::exit::Exit;
use crate::follow::unless_terminated;

const AFTER_HELP: &str = "\
Each event is printed when it happens, whoever makes it. Ctrl-C ends it.

Examples:
  vestal kanban watch
  vestal kanban watch --kinds completed,blocked,gave_up
  vestal kanban watch --json | jq -c '[.task_id, .kind]'";

/// Events fetched at a time.
pub(super) const PAGE: u32 = 500;
/// Time between two looks for a board that is not there yet.
const LOOK: Duration = Duration::from_millis(250);

/// Prints what happens on the board, as it happens.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct WatchArgs {
    /// Only of tasks of this profile.
    #[arg(short, long, value_name = "PROFILE")]
    assignee: Option<String>,

    /// Only of tasks of this tenant.
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,

    /// Only of these kinds, separated by commas.
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    kinds: Vec<String>,

    /// Prints a JSON object a line.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(desk: &Desk<'_>, args: WatchArgs) -> Result<Exit, Failure> {
    let watching = async {
        let (board, after) = match desk.board_if_any().await? {
            Some(board) => {
                let after = board.read().await?.last_event().await?;
                (board, after)
            }
            // Looking makes nothing; the first task does.
            None => (first(desk).await?, 0),
        };
        if !args.json {
            desk.console().note(&format!("watching board {}; Ctrl-C ends it", desk.slug()));
        }
        let query = EventQuery {
            after,
            task: None,
            kinds: args.kinds,
            assignee: args.assignee,
            tenant: args.tenant,
            limit: PAGE,
        };
        pass_on(desk, &board, query, args.json).await
    };
    until_signal(watching).await
}

/// Waits for a board that nobody has made yet.
async fn first(desk: &Desk<'_>) -> Result<Board, Failure> {
    desk.console().note(&format!("board {} has no task yet; waiting for the first", desk.slug()));
    loop {
        if let Some(board) = desk.board_if_any().await? {
            return Ok(board);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Does what never ends by itself, until a signal asks this process to end.
pub(super) async fn until_signal(
    work: impl Future<Output = Result<Infallible, Failure>>,
) -> Result<Exit, Failure> {
    let mut signals =
        Terminations::listen().map_err(|error| Failure::io("listen for signals", &error))?;
    match unless_terminated(&mut signals, work).await {
        Ok(Ok(never)) => match never {},
        Ok(Err(failure)) => Err(failure),
        Err(signal) => Ok(Exit::Terminated(signal)),
    }
}

/// Prints events as they come.
pub(super) async fn pass_on(
    desk: &Desk<'_>,
    board: &Board,
    mut query: EventQuery,
    json: bool,
) -> Result<Infallible, Failure> {
    // Before the first look: no change is missed between the two.
    let mut changes = board.changes()?;
    loop {
        loop {
            let page = board.events_after(&query).await?;
            for event in &page {
                if json {
                    desk.print_line(&EventView::from(event))?;
                } else {
                    // Whoever looks at one task knows what it is about.
                    let title = if query.task.is_none() { title(board, event).await } else { None };
                    events::print(desk, event, title.as_deref())?;
                }
                query.after = event.id;
            }
            if page.len() < PAGE as usize {
                break;
            }
        }
        changes.next().await?;
    }
}

/// Returns the title of an event's task; nothing where it is gone.
async fn title(board: &Board, event: &Event) -> Option<String> {
    Some(board.get(&event.task_id).await.ok()?.title)
}
