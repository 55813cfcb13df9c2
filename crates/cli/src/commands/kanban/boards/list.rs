//! `vestal kanban boards list`.

use clap::Args;
use vestal_api::BoardView;
use vestal_board::Status;
use vestal_board::boards::Listed;

use super::Desk;
use crate::console::{Cell, DIM, GREEN, RED, Table, YELLOW};
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
The one that is used when nobody names one is marked with *. OPEN are all tasks that are not done.

Examples:
  vestal kanban boards list
  vestal kanban boards list --all --json | jq -r '.[].slug'";

/// Lists the boards.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ListArgs {
    /// Also archived ones.
    #[arg(short, long)]
    all: bool,

    /// Prints an array of JSON objects.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(desk: &Desk<'_>, args: &ListArgs) -> Result<Exit, Failure> {
    let boards = desk.boards().list(args.all).await?;
    let views: Vec<BoardView> = boards.iter().map(|board| view(desk, board)).collect();
    if args.json {
        desk.print(&views)?;
        return Ok(Exit::Success);
    }
    let mut table =
        Table::new(&["", "SLUG", "OPEN", "RUNNING", "NEED YOU", "NAME", "DESCRIPTION", "STATE"]);
    for view in &views {
        let state = match (&view.trouble, view.archived) {
            (Some(_), _) => Cell::styled("unreadable", YELLOW),
            (None, true) => Cell::styled("archived", DIM),
            (None, false) => Cell::from(""),
        };
        let name = format!("{} {}", view.icon, view.name);
        table.row(vec![
            Cell::styled(if view.current { "*" } else { "" }, GREEN),
            view.slug.as_str().into(),
            count(view, |status| !matches!(status, Status::Done | Status::Archived)).into(),
            count(view, |status| status == Status::Running).into(),
            Cell::styled(attention(view), RED),
            name.trim().into(),
            Cell::styled(&view.description, DIM),
            state,
        ]);
    }
    desk.console().print_table(&table)?;
    for view in &views {
        if let Some(trouble) = &view.trouble {
            desk.console().warn(&format!("board {}: {trouble}", view.slug));
        }
    }
    Ok(Exit::Success)
}

/// Returns how many tasks are of some statuses; nothing where that is not known.
fn count(view: &BoardView, counts: impl Fn(Status) -> bool) -> String {
    let Some(tasks) = &view.tasks else { return "-".to_owned() };
    let counted = tasks.iter().filter(|(status, _)| counts(**status));
    counted.map(|(_, count)| *count).sum::<u64>().to_string()
}

fn attention(view: &BoardView) -> String {
    view.needs_attention
        .filter(|count| *count > 0)
        .map(|count| count.to_string())
        .unwrap_or_default()
}

pub(super) fn view(desk: &Desk<'_>, board: &Listed) -> BoardView {
    let path = desk.boards().dir(&board.slug).display().to_string();
    let current = &board.slug == desk.slug();
    BoardView::new(board, path, current)
}
