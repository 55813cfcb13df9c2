//! `vestal kanban boards list`.

use clap::Args;
use serde::Serialize;
use vestal_board::boards::Listed;

use super::Desk;
use crate::console::{Cell, DIM, GREEN, Table, YELLOW};
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
The one that is used when nobody names one is marked with *.

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

#[derive(Debug, Serialize)]
pub(super) struct BoardView {
    #[serde(flatten)]
    pub(super) board: Listed,
    pub(super) path: String,
    pub(super) current: bool,
}

pub(super) async fn run(desk: &Desk<'_>, args: &ListArgs) -> Result<Exit, Failure> {
    let boards = desk.boards().list(args.all).await?;
    let views: Vec<BoardView> = boards.into_iter().map(|board| view(desk, board)).collect();
    if args.json {
        desk.print(&views)?;
        return Ok(Exit::Success);
    }
    let mut table = Table::new(&["", "SLUG", "NAME", "DESCRIPTION", "STATE"]);
    for view in &views {
        let state = match (&view.board.trouble, view.board.info.archived) {
            (Some(_), _) => Cell::styled("unreadable", YELLOW),
            (None, true) => Cell::styled("archived", DIM),
            (None, false) => Cell::from(""),
        };
        let name = format!("{} {}", view.board.info.icon, view.board.info.name);
        table.row(vec![
            Cell::styled(if view.current { "*" } else { "" }, GREEN),
            view.board.slug.as_str().into(),
            name.trim().into(),
            Cell::styled(&view.board.info.description, DIM),
            state,
        ]);
    }
    desk.console().print_table(&table)?;
    for view in &views {
        if let Some(trouble) = &view.board.trouble {
            desk.console().warn(&format!("board {}: {trouble}", view.board.slug));
        }
    }
    Ok(Exit::Success)
}

pub(super) fn view(desk: &Desk<'_>, board: Listed) -> BoardView {
    let path = desk.boards().dir(&board.slug).display().to_string();
    let current = &board.slug == desk.slug();
    BoardView { board, path, current }
}
