//! `vestal memory add`.

use clap::Args;
use vestal_memory::Change;

use super::{Desk, TargetOption, words};
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
Conversations that are already under way are not told of it.

Examples:
  vestal memory add 'the tests need a running database'
  vestal memory add --target user 'prefers short answers'
  git log -1 --format=%s | vestal memory add -";

/// Adds a note.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct AddArgs {
    /// The note; `-` reads it from standard input.
    #[arg(value_name = "TEXT")]
    text: String,

    #[command(flatten)]
    target: TargetOption,

    /// Prints a JSON object with the notes there are then.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(desk: &Desk<'_>, args: &AddArgs) -> Result<Exit, Failure> {
    let entry = words(&args.text)?;
    let change = Change::Add { entry: &entry };
    let exit = desk.change(args.target.target, change, "added", args.json)?;
    desk.warn_of_secret(&entry);
    Ok(exit)
}
