//! `vestal memory`: its verbs, and what they share.

mod entries;

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Args, Subcommand};
use tokio::signal::unix::{SignalKind, signal};
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
    Edit(EditArgs),
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
        MemoryVerb::Edit(args) => edit(&ctx, args),
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

    /// Warns where the settings keep the notes from the agent.
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

const EDIT_HELP: &str = "\
The editor is $VISUAL, else $EDITOR, else vi. Notes are separated by a line with a single §. If the
notes were changed meanwhile, or do not fit, your text is kept in a file, whose path is printed.

Example:
  vestal memory edit user";

/// Edit the notes in your editor.
#[derive(Debug, Clone, Copy, Args)]
#[command(after_help = EDIT_HELP)]
struct EditArgs {
    /// Notes to edit: memory or user.
    #[arg(value_name = "NOTES", default_value = "memory")]
    target: NotesTarget,
}

fn edit(ctx: &MemoryContext<'_>, args: EditArgs) -> Result<Exit, CommandFailure> {
    let target = args.target;
    let from = ctx.files.read_text(target).map_err(MemoryError::from)?;
    let dir = ctx.context.home()?.dir().join("run");
    let draft = write_draft(&dir, target, &from);
    let draft = draft.map_err(|error| CommandFailure::io("make a draft", &error))?;
    let edited = run_editor(&editor(ctx), &draft).and_then(|()| read_draft(&draft));
    let text = match edited {
        Ok(text) => text,
        // What was not written down in full is not lost either.
        Err(failure) => return Err(kept(failure, &draft, &from)),
    };
    if text == from {
        fs::remove_file(&draft).ok();
        ctx.context.console.note("nothing was changed");
        return Ok(Exit::Success);
    }
    match ctx.files.change(target, NoteChange::Rewrite { from: &from, text: &text }) {
        Ok(entries) => {
            fs::remove_file(&draft).ok();
            ctx.changed(target, &entries, "kept", false)?;
            ctx.warn_of_secret(&text);
            Ok(Exit::Success)
        }
        Err(trouble) => Err(kept(trouble.into(), &draft, &from)),
    }
}

/// Says where the draft is, unless there is nothing new in it.
fn kept(failure: CommandFailure, draft: &Path, from: &str) -> CommandFailure {
    if fs::read(draft).is_ok_and(|text| text == from.as_bytes()) {
        fs::remove_file(draft).ok();
        return failure;
    }
    failure.advise(format!("what you wrote is in {}", draft.display()))
}

fn editor(ctx: &MemoryContext<'_>) -> OsString {
    let environment = ctx.context.environment();
    let named = ["VISUAL", "EDITOR"].into_iter().find_map(|name| environment.non_empty(name));
    named.unwrap_or(OsStr::new("vi")).to_owned()
}

/// Waits for the editor, whose name may come with options as in `code --wait`.
fn run_editor(editor: &OsStr, draft: &Path) -> Result<(), CommandFailure> {
    // Ctrl-C is a key of the editor's, and comes to this process as well.
    let _keys = [SignalKind::interrupt(), SignalKind::quit()].map(signal);
    let mut text = editor.to_owned();
    text.push(" \"$@\"");
    let ended = Command::new("sh").arg("-c").arg(text).arg(editor).arg(draft).status();
    let ended = ended.map_err(|error| CommandFailure::io("start the editor", &error))?;
    if ended.success() {
        return Ok(());
    }
    let shown = editor.to_string_lossy();
    Err(CommandFailure::new(format!(
        "the editor {shown:?} ended with {ended}; nothing was changed"
    ))
    .advise("to use another one: VISUAL=nano vestal memory edit"))
}

/// Makes a draft under a name that no other has: one that was kept stays, also
/// when the number of its process comes again.
fn write_draft(dir: &Path, target: NotesTarget, text: &str) -> std::io::Result<PathBuf> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let own = format!("edit-{}", std::process::id());
    for number in 1_u32.. {
        let draft = dir.join(format!("{own}-{number}-{}", target.file_name()));
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft) {
            Ok(mut file) => {
                file.write_all(text.as_bytes())?;
                return Ok(draft);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

fn read_draft(draft: &Path) -> Result<String, CommandFailure> {
    let bytes =
        fs::read(draft).map_err(|error| CommandFailure::io("read what you wrote", &error))?;
    String::from_utf8(bytes).map_err(|_| CommandFailure::new("what you wrote is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draft_that_was_kept_is_in_nobodys_way() {
        let dir = tempfile::tempdir().unwrap();
        let kept = write_draft(dir.path(), NotesTarget::Memory, "kept").unwrap();
        let draft = write_draft(dir.path(), NotesTarget::Memory, "new").unwrap();
        assert_eq!(fs::read_to_string(kept).unwrap(), "kept");
        assert_eq!(fs::read_to_string(draft).unwrap(), "new");
    }

    #[tokio::test]
    async fn a_key_that_interrupts_is_the_editors() {
        let dir = tempfile::tempdir().unwrap();
        let draft = write_draft(dir.path(), NotesTarget::Memory, "").unwrap();
        run_editor(OsStr::new("kill -INT $PPID; kill -QUIT $PPID; echo written >"), &draft)
            .unwrap();
        assert_eq!(read_draft(&draft).unwrap(), "written\n");
    }
}
