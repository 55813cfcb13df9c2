//! `vestal memory replace`.

use clap::Args;
use vestal_memory::Change;

use super::{Desk, TargetOption, words};
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
Example:
  vestal memory replace database 'the tests need no database any more'";

/// Puts a note in the place of another.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ReplaceArgs {
    /// Some words of the note that is meant, which no other has.
    #[arg(value_name = "WORDS")]
    old: String,

    /// The new note; `-` reads it from standard input.
    #[arg(value_name = "TEXT")]
    text: String,

    #[command(flatten)]
    target: TargetOption,

    /// Prints a JSON object with the notes there are then.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(desk: &Desk<'_>, args: &ReplaceArgs) -> Result<Exit, Failure> {
    let entry = words(&args.text)?;
    let change = Change::Replace { old: &args.old, entry: &entry };
    let exit = desk.change(args.target.target, change, "replaced", args.json)?;
    desk.warn_of_secret(&entry);
    Ok(exit)
}
