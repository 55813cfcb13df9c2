//! `vestal memory edit`.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use vestal_memory::{MemoryError, NoteChange, NotesTarget};

use super::MemoryContext;
use crate::error::CommandFailure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
The editor is $VISUAL, else $EDITOR, else vi. Notes are separated by a line with a single §. If the
notes were changed meanwhile, or do not fit, your text is kept in a file, whose path is printed.

Example:
  vestal memory edit user";

/// Edit the notes in your editor.
#[derive(Debug, Clone, Copy, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct EditArgs {
    /// Notes to edit: memory or user.
    #[arg(value_name = "NOTES", default_value = "memory")]
    target: NotesTarget,
}

pub(super) fn run(ctx: &MemoryContext<'_>, args: EditArgs) -> Result<Exit, CommandFailure> {
    let target = args.target;
    let from = ctx.files.read_text(target).map_err(MemoryError::from)?;
    let dir = ctx.context.home()?.dir().join("run");
    let draft = write_draft(&dir, target, &from);
    let draft = draft.map_err(|error| CommandFailure::io("make a draft", &error))?;
    let edited = edit(&editor(ctx), &draft).and_then(|()| read_draft(&draft));
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
fn edit(editor: &OsStr, draft: &Path) -> Result<(), CommandFailure> {
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
        edit(OsStr::new("kill -INT $PPID; kill -QUIT $PPID; echo written >"), &draft).unwrap();
        assert_eq!(read_draft(&draft).unwrap(), "written\n");
    }
}
