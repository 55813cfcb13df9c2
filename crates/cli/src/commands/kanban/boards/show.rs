//! `vestal kanban boards show`.

use clap::Args;
use vestal_board::boards::{ChosenBy, Listed};

use super::{Desk, list};
use crate::console::{DIM, text};
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
Examples:
  vestal kanban boards show
  vestal kanban --board website boards show --json";

/// Shows which board is used, and what is known about it.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ShowArgs {
    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(desk: &Desk<'_>, args: &ShowArgs) -> Result<Exit, Failure> {
    let slug = desk.slug().clone();
    let info = match desk.board_if_any().await? {
        Some(board) => board.info().await?,
        // The board that is always there, and has not been made yet.
        None => {
            let listed = desk.boards().list(true).await?;
            let found = listed.into_iter().find(|board| board.slug == slug);
            match found {
                Some(found) => found.info,
                None => return Err(Failure::new(format!("board {slug} is not listed"))),
            }
        }
    };
    let view = list::view(desk, &Listed::new(slug.clone(), info));
    if args.json {
        desk.print(&view)?;
        return Ok(Exit::Success);
    }
    let why = match (desk.is_named(), desk.chosen_by()) {
        (true, _) => "--board",
        (false, ChosenBy::Environment) => "VESTAL_KANBAN_BOARD",
        (false, ChosenBy::Switch) => "vestal kanban boards switch",
        (false, ChosenBy::Nobody) => "nobody chose another",
    };
    let given = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    let workdir = view.default_workdir.clone();
    let lines = [
        ("board", slug.to_string()),
        ("name", given(&view.name)),
        ("description", given(&view.description)),
        ("workdir", workdir.unwrap_or_else(|| "-".to_owned())),
        ("path", view.path.clone()),
        ("chosen by", why.to_owned()),
    ];
    for (label, value) in lines {
        let label = desk.console().paint(DIM, &format!("{label:<12}"));
        desk.console().print(&format!("{label} {}", text::printable(&value)))?;
    }
    Ok(Exit::Success)
}
