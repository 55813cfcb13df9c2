//! `vestal memory show`.

use clap::Args;
use vestal_memory::{Entries, Target};

use super::Desk;
use super::view::{self, NotesView};
use crate::console::{BOLD, DIM, text};
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
The exit code is 1 when notes are there and cannot be read.

Examples:
  vestal memory show user
  vestal memory --json | jq -r '.[].entries[]'";

/// Shows the notes, as `vestal memory` does without a verb.
#[derive(Debug, Clone, Copy, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ShowArgs {
    #[command(flatten)]
    pub(super) wanted: Wanted,
}

// What is asked for with the verb and without it. No documentation of its own:
// that would take the place of the command's.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct Wanted {
    /// Notes to show: memory or user; without it both.
    #[arg(value_name = "NOTES")]
    target: Option<Target>,

    /// Prints an array of JSON objects.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(desk: &Desk<'_>, args: Wanted) -> Result<Exit, Failure> {
    let console = desk.context.console;
    let mut exit = Exit::Success;
    let mut views = Vec::new();
    let mut shown = Vec::new();
    for target in Target::ALL.into_iter().filter(|own| args.target.is_none_or(|it| it == *own)) {
        let (entries, error) = match desk.files.read(target) {
            Ok(entries) => (entries, None),
            Err(error) => (Entries::default(), Some(error.to_string())),
        };
        if let Some(error) = &error {
            exit = Exit::No;
            console.warn(error);
        }
        let mut view = NotesView::of(desk, target, &entries);
        view.error.clone_from(&error);
        views.push(view);
        if error.is_none() {
            shown.push(notes(desk, target, &entries));
        }
    }
    if args.json {
        view::print(console, &views)?;
    } else if !shown.is_empty() {
        console.write(&shown.join("\n"))?;
    }
    Ok(exit)
}

fn notes(desk: &Desk<'_>, target: Target, entries: &Entries) -> String {
    let console = desk.context.console;
    let heading = match target {
        Target::Memory => "memory: the agent's own notes",
        Target::User => "user: about you",
    };
    let off = if desk.enabled.has(target) { "" } else { ", switched off" };
    let usage = format!("({}{off})", view::usage(desk, target, entries));
    let mut shown = format!("{} {}\n", console.paint(BOLD, heading), console.paint(DIM, &usage));
    for entry in entries.iter() {
        let lines = text::printable_lines(entry).replace('\n', "\n    ");
        shown.extend(["  - ", &lines, "\n"]);
    }
    shown
}
