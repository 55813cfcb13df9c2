//! `vestal memory remove`.

use clap::Args;
use vestal_memory::Change;

use super::{Desk, TargetOption};
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
Example:
  vestal memory remove 'short answers' --target user";

/// Removes a note.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct RemoveArgs {
    /// Some words of the note that is meant, which no other has.
    #[arg(value_name = "WORDS")]
    old: String,

    #[command(flatten)]
    target: TargetOption,

    /// Prints a JSON object with the notes there are then.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(desk: &Desk<'_>, args: &RemoveArgs) -> Result<Exit, Failure> {
    desk.change(args.target.target, Change::Remove { old: &args.old }, "removed", args.json)
}
