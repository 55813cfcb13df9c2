//! `vestal memory`: its verbs, and what they share.

mod edit;
mod entries;

use std::io::{ErrorKind, Read as _};
use std::path::Path;

use clap::{Args, Subcommand};
use vestal_api::NotesView;
use vestal_config::AnyKey as _;
use vestal_memory::{Enabled, Entries, MemoryError, NoteChange, NoteFiles, NotesTarget, keys};

use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;
use crate::values::quoted;

/// Bytes of a note that are read from standard input.
const MOST: u64 = 1 << 20;

const AFTER_HELP: &str = "\
`memory` are the agent's own notes (MEMORY.md), `user` its notes about you (USER.md). The agent
reads both when a conversation begins, and changes them itself. The exit code is 1 if a note is not
found, is ambiguous, exists already or does not fit.

Examples:
  vestal memory
  vestal memory add 'the tests need a running database'
  vestal memory edit user";

/// Show and change what the agent remembers across conversations.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
pub(crate) struct MemoryArgs {
    #[command(subcommand)]
    verb: Option<MemoryVerb>,

    #[command(flatten)]
    wanted: entries::NotesSelection,
}

#[derive(Debug, Subcommand)]
enum MemoryVerb {
    Show(entries::ShowArgs),
    Add(entries::AddArgs),
    Replace(entries::ReplaceArgs),
    Remove(entries::RemoveArgs),
    Edit(edit::EditArgs),
    Path(entries::PathArgs),
    Clear(entries::ClearArgs),
}

/// Which notes are meant.
#[derive(Debug, Clone, Copy, Args)]
struct TargetOption {
    /// Notes to change: memory or user.
    #[arg(long, value_name = "NOTES", default_value = "memory")]
    target: NotesTarget,
}

pub(crate) fn run(context: &Context, args: MemoryArgs) -> Result<Exit, CommandFailure> {
    let settings = context.settings()?;
    let files = vestal_memory::files(&settings, vestal_runtime::redactor(&settings)?)?;
    let ctx = MemoryContext { context, files, enabled: Enabled::of(&settings)? };
    let Some(verb) = args.verb else { return entries::show(&ctx, args.wanted) };
    match verb {
        MemoryVerb::Show(args) => entries::show(&ctx, args.wanted),
        MemoryVerb::Add(args) => entries::add(&ctx, &args),
        MemoryVerb::Replace(args) => entries::replace(&ctx, &args),
        MemoryVerb::Remove(args) => entries::remove(&ctx, &args),
        MemoryVerb::Edit(args) => edit::run(&ctx, args),
        MemoryVerb::Path(args) => entries::path(&ctx, args),
        MemoryVerb::Clear(args) => entries::clear(&ctx, args),
    }
}

/// What every verb works with.
struct MemoryContext<'c> {
    context: &'c Context,
    files: NoteFiles,
    enabled: Enabled,
}

impl MemoryContext<'_> {
    fn view(&self, target: NotesTarget, entries: &Entries) -> NotesView {
        NotesView::new(&self.files, self.enabled.has(target), target, entries)
    }

    /// Changes notes and says what came of it.
    fn change(
        &self,
        target: NotesTarget,
        change: NoteChange<'_>,
        done: &str,
        json: bool,
    ) -> Result<Exit, CommandFailure> {
        let entries = self.files.change(target, change)?;
        self.changed(target, &entries, done, json)?;
        Ok(Exit::Success)
    }

    fn changed(
        &self,
        target: NotesTarget,
        entries: &Entries,
        done: &str,
        json: bool,
    ) -> Result<(), CommandFailure> {
        let console = self.context.console;
        if json {
            entries::print(console, &self.view(target, entries))?;
        } else {
            console.print(&format!(
                "{done}; {target} has {}",
                entries::usage(self, target, entries)
            ))?;
        }
        self.warn_if_off(target);
        Ok(())
    }

    /// Says that the agent is not told, where the settings want it so.
    fn warn_if_off(&self, target: NotesTarget) {
        if !self.enabled.has(target) {
            let key = match target {
                NotesTarget::Memory => keys::MEMORY_ENABLED.name(),
                NotesTarget::User => keys::MEMORY_USER_PROFILE_ENABLED.name(),
            };
            let message = format!("the agent does not see {target}: {key} is off");
            self.context.console.warn(&message);
        }
    }

    /// Says that a secret was left out.
    fn warn_of_secret(&self, words: &str) {
        if self.files.has_secret(words) {
            let message =
                "text that looks like a secret was left out: notes are sent to every model";
            self.context.console.warn(message);
        }
    }
}

/// Returns the words of a note; `-` stands for what is piped in.
fn words(argument: &str) -> Result<String, CommandFailure> {
    if argument != "-" {
        return Ok(argument.to_owned());
    }
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(MOST + 1).read_to_end(&mut bytes);
    read.map_err(|error| CommandFailure::io("read standard input", &error))?;
    if bytes.len() as u64 > MOST {
        return Err(CommandFailure::usage("what is piped in is too long for a note"));
    }
    String::from_utf8(bytes).map_err(|_| CommandFailure::usage("what is piped in is not UTF-8"))
}

impl From<MemoryError> for CommandFailure {
    fn from(trouble: MemoryError) -> Self {
        let failure = Self::new(trouble.to_string());
        match trouble {
            MemoryError::Refused(_) => {
                failure.advise("to see the notes: vestal memory").with_exit(Exit::No)
            }
            MemoryError::Read(_) => {
                failure.advise("repair the file or move it away; nothing was changed")
            }
            MemoryError::Busy { .. } => failure.advise("wait for it, and try again"),
            MemoryError::Write { path, source } => failure.advise(remedy(&path, &source)),
            MemoryError::Lock { lock, source } => failure.advise(remedy(&lock, &source)),
        }
    }
}

/// Says what helps where the system does not let notes be written.
fn remedy(path: &Path, error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "nothing was changed; free some space and try again".to_owned()
        }
        _ => {
            let dir = path.parent().unwrap_or(path).to_string_lossy();
            format!("nothing was changed; to see who may write there: ls -la {}", quoted(&dir))
        }
    }
}
