//! `vestal memory clear`.

use clap::Args;
use vestal_memory::{Change, Target};

use super::Desk;
use super::view::{self, NotesView};
use crate::confirm;
use crate::console::text;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
On a terminal it asks first, unless -y is given; without a terminal it needs -y.

Example:
  vestal memory clear memory -y";

/// Removes all notes of a file.
#[derive(Debug, Clone, Copy, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ClearArgs {
    /// Notes that go: memory or user.
    #[arg(value_name = "NOTES")]
    target: Target,

    /// Asks no question.
    #[arg(short, long)]
    yes: bool,

    /// Prints a JSON object with the notes there are then.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(desk: &Desk<'_>, args: ClearArgs) -> Result<Exit, Failure> {
    let console = desk.context.console;
    let notes = desk.files.read(args.target).map_err(vestal_memory::MemoryError::from)?;
    if !args.yes && !notes.is_empty() {
        let count = text::count(notes.len() as u64, "note");
        let plan = format!("{count} of {} will be gone", desk.files.path(args.target).display());
        if !confirm::is_confirmed(console, "clear", "Clear?", &[plan])? {
            console.note("nothing was removed");
            return Ok(Exit::No);
        }
    }
    let left = desk.files.change(args.target, Change::Clear)?;
    if args.json {
        view::print(console, &NotesView::of(desk, args.target, &left))?;
    } else {
        console.print(&format!("removed {}", text::count(notes.len() as u64, "note")))?;
    }
    Ok(Exit::Success)
}
