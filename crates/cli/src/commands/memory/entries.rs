//! The verbs that read and change single entries: `show`, `path`, `add`, `replace`, `remove` and `clear`.

use clap::Args;
use serde::Serialize;
use vestal_memory::{Entries, NoteChange, NotesTarget};

use super::{MemoryContext, TargetOption, words};
use crate::confirm;
use crate::console::{BOLD, Console, DIM, json, text};
use crate::error::CommandFailure;
use crate::exit::Exit;

const SHOW_HELP: &str = "\
The same as `vestal memory`. The exit code is 1 if notes exist but cannot be read.

Examples:
  vestal memory show user
  vestal memory --json | jq -r '.[].entries[]'";

/// Show the notes.
#[derive(Debug, Clone, Copy, Args)]
#[command(after_help = SHOW_HELP)]
pub(super) struct ShowArgs {
    #[command(flatten)]
    pub(super) wanted: NotesSelection,
}

// What is asked for with the verb and without it. No documentation of its own:
// that would take the place of the command's.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct NotesSelection {
    /// Notes to show: memory or user [default: both].
    #[arg(value_name = "NOTES")]
    target: Option<NotesTarget>,

    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

pub(super) fn show(ctx: &MemoryContext<'_>, args: NotesSelection) -> Result<Exit, CommandFailure> {
    let console = ctx.context.console;
    let mut exit = Exit::Success;
    let mut views = Vec::new();
    let mut shown = Vec::new();
    for target in NotesTarget::ALL.into_iter().filter(|own| args.target.is_none_or(|it| it == *own))
    {
        let (entries, error) = match ctx.files.read(target) {
            Ok(entries) => (entries, None),
            Err(error) => (Entries::default(), Some(error.to_string())),
        };
        if let Some(error) = &error {
            exit = Exit::No;
            console.warn(error);
        }
        let mut view = ctx.view(target, &entries);
        view.error.clone_from(&error);
        views.push(view);
        if error.is_none() {
            shown.push(notes_text(ctx, target, &entries));
        }
    }
    if args.json {
        print(console, &views)?;
    } else if !shown.is_empty() {
        console.write(&shown.join("\n"))?;
    }
    Ok(exit)
}

fn notes_text(ctx: &MemoryContext<'_>, target: NotesTarget, entries: &Entries) -> String {
    let console = ctx.context.console;
    let heading = match target {
        NotesTarget::Memory => "memory: the agent's own notes",
        NotesTarget::User => "user: about you",
    };
    let off = if ctx.enabled.has(target) { "" } else { ", disabled" };
    let usage = format!("({}{off})", usage(ctx, target, entries));
    let mut shown = format!("{} {}\n", console.paint(BOLD, heading), console.paint(DIM, &usage));
    for entry in entries.iter() {
        let lines = text::printable_lines(entry).replace('\n', "\n    ");
        shown.extend(["  - ", &lines, "\n"]);
    }
    shown
}

const PATH_HELP: &str = "\
Example:
  cat \"$(vestal memory path user)\"";

/// Print the path of the notes.
#[derive(Debug, Clone, Copy, Args)]
#[command(after_help = PATH_HELP)]
pub(super) struct PathArgs {
    /// Notes: memory or user [default: the directory of both].
    #[arg(value_name = "NOTES")]
    target: Option<NotesTarget>,
}

pub(super) fn path(ctx: &MemoryContext<'_>, args: PathArgs) -> Result<Exit, CommandFailure> {
    let path = args.target.map_or_else(|| ctx.files.dir().to_owned(), |it| ctx.files.path(it));
    ctx.context.console.print(&path.to_string_lossy())?;
    Ok(Exit::Success)
}

const ADD_HELP: &str = "\
Conversations that have already begun do not see the new note.

Examples:
  vestal memory add 'the tests need a running database'
  vestal memory add --target user 'prefers short answers'
  git log -1 --format=%s | vestal memory add -";

/// Add a note.
#[derive(Debug, Args)]
#[command(after_help = ADD_HELP)]
pub(super) struct AddArgs {
    /// Text of the note; `-` reads it from standard input.
    #[arg(value_name = "TEXT")]
    text: String,

    #[command(flatten)]
    target: TargetOption,

    /// Print a JSON object with the resulting notes.
    #[arg(long)]
    json: bool,
}

pub(super) fn add(ctx: &MemoryContext<'_>, args: &AddArgs) -> Result<Exit, CommandFailure> {
    let entry = words(&args.text)?;
    let change = NoteChange::Add { entry: &entry };
    let exit = ctx.change(args.target.target, change, "added", args.json)?;
    ctx.warn_of_secret(&entry);
    Ok(exit)
}

const REPLACE_HELP: &str = "\
Example:
  vestal memory replace database 'the tests need no database any more'";

/// Replace a note.
#[derive(Debug, Args)]
#[command(after_help = REPLACE_HELP)]
pub(super) struct ReplaceArgs {
    /// Words that only this note contains.
    #[arg(value_name = "WORDS")]
    old: String,

    /// New text; `-` reads it from standard input.
    #[arg(value_name = "TEXT")]
    text: String,

    #[command(flatten)]
    target: TargetOption,

    /// Print a JSON object with the resulting notes.
    #[arg(long)]
    json: bool,
}

pub(super) fn replace(ctx: &MemoryContext<'_>, args: &ReplaceArgs) -> Result<Exit, CommandFailure> {
    let entry = words(&args.text)?;
    let change = NoteChange::Replace { old: &args.old, entry: &entry };
    let exit = ctx.change(args.target.target, change, "replaced", args.json)?;
    ctx.warn_of_secret(&entry);
    Ok(exit)
}

const REMOVE_HELP: &str = "\
Example:
  vestal memory remove 'short answers' --target user";

/// Remove a note.
#[derive(Debug, Args)]
#[command(after_help = REMOVE_HELP)]
pub(super) struct RemoveArgs {
    /// Words that only this note contains.
    #[arg(value_name = "WORDS")]
    old: String,

    #[command(flatten)]
    target: TargetOption,

    /// Print a JSON object with the resulting notes.
    #[arg(long)]
    json: bool,
}

pub(super) fn remove(ctx: &MemoryContext<'_>, args: &RemoveArgs) -> Result<Exit, CommandFailure> {
    ctx.change(args.target.target, NoteChange::Remove { old: &args.old }, "removed", args.json)
}

const CLEAR_HELP: &str = "\
Asks for confirmation on a terminal; without a terminal, -y is required.

Example:
  vestal memory clear memory -y";

/// Remove all notes of a file.
#[derive(Debug, Clone, Copy, Args)]
#[command(after_help = CLEAR_HELP)]
pub(super) struct ClearArgs {
    /// Notes to remove: memory or user.
    #[arg(value_name = "NOTES")]
    target: NotesTarget,

    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,

    /// Print a JSON object with the resulting notes.
    #[arg(long)]
    json: bool,
}

pub(super) fn clear(ctx: &MemoryContext<'_>, args: ClearArgs) -> Result<Exit, CommandFailure> {
    let console = ctx.context.console;
    let notes = ctx.files.read(args.target).map_err(vestal_memory::MemoryError::from)?;
    if !args.yes && !notes.is_empty() {
        let count = text::count(notes.len(), "note");
        let plan = format!("{count} of {} will be removed", ctx.files.path(args.target).display());
        if !confirm::is_confirmed(console, "clear", "Clear?", &[plan])? {
            console.note("nothing was removed");
            return Ok(Exit::No);
        }
    }
    let left = ctx.files.change(args.target, NoteChange::Clear)?;
    if args.json {
        print(console, &ctx.view(args.target, &left))?;
    } else {
        console.print(&format!("removed {}", text::count(notes.len(), "note")))?;
    }
    Ok(Exit::Success)
}

/// Says how full a file is.
pub(super) fn usage(ctx: &MemoryContext<'_>, target: NotesTarget, entries: &Entries) -> String {
    let (used, limit) = (entries.characters(), ctx.files.limit(target));
    let notes = crate::console::text::count(entries.len(), "note");
    format!("{notes}, {used} of {limit} characters")
}

/// Prints a value as JSON: on one line for programs, indented for people.
pub(super) fn print(console: Console, value: &impl Serialize) -> Result<(), CommandFailure> {
    console.print(&json::shown(value)?)
}
