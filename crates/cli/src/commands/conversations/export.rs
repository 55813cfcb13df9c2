//! `vestal conversations export`.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use vestal_api::{EXPORT_VERSION, ExportLine, ExportedConversationView};
use vestal_conversations::{
    ConversationId, ConversationStore, ConversationSummary, MessageStanding, Stored,
};
use vestal_model::Message;

use super::read::{Detail, Passage, passage};
use super::{find, print};
use crate::console::{json, text};
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;

const EXPORT_HELP: &str = "\
json: one object per line; the first is the conversation, the others are its messages, including
those that were taken back or summarized. markdown: the messages, for reading.

Example:
  vestal conversations export k3f9ab -o talk.jsonl";

/// Export a conversation to a file or to standard output.
#[derive(Debug, Args)]
#[command(after_help = EXPORT_HELP)]
pub(super) struct ExportArgs {
    /// Conversation id, a unique prefix of it, or its title.
    #[arg(value_name = "ID")]
    id: String,

    /// File to write; it must not exist, and only you can read it [default: standard output].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Format of the export.
    #[arg(long, value_name = "FORMAT", default_value = "json")]
    format: Format,

    /// Print a JSON object about the file that was written.
    #[arg(long, requires = "output")]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Lines of JSON.
    Json,
    /// Text.
    Markdown,
}

pub(super) async fn run(
    context: &Context,
    store: Option<&ConversationStore>,
    args: &ExportArgs,
) -> Result<Exit, CommandFailure> {
    let (store, id) = find(store, &args.id).await?;
    let (exported, messages) = match args.format {
        Format::Json => lines(store, &id).await?,
        Format::Markdown => {
            let mut history = store.history(&id).await?;
            history.retain(|stored| stored.standing != MessageStanding::Undone);
            (render(&store.summary(&id).await?, &history), history.len())
        }
    };
    let Some(path) = &args.output else {
        let shown = io::stdout().is_terminal() && args.format == Format::Markdown;
        let exported = if shown { text::printable_lines(&exported) + "\n" } else { exported };
        context.console.write(&exported)?;
        return Ok(Exit::Success);
    };
    write(path, exported.as_bytes())?;
    if args.json {
        let path = path.display().to_string();
        let bytes = exported.len();
        print(context, &ExportedConversationView { id: id.into(), path, messages, bytes })?;
    } else {
        let messages = text::count(messages, "message");
        let path = text::printable(&path.to_string_lossy());
        context.console.print(&format!("wrote {path} ({messages})"))?;
    }
    Ok(Exit::Success)
}

/// Returns a conversation as lines of JSON, and how many messages there are.
async fn lines(
    store: &ConversationStore,
    id: &ConversationId,
) -> Result<(String, usize), CommandFailure> {
    let head = ExportLine::Conversation {
        version: EXPORT_VERSION,
        conversation: Box::new((&store.summary(id).await?).into()),
        system_prompt: store.system_prompt(id).await?,
    };
    let history = store.history(id).await?;
    let messages = history.len();
    let mut text = json::line(&head)?;
    for stored in history {
        text.push_str(&json::line(&ExportLine::Message(Box::new(stored)))?);
    }
    Ok((text, messages))
}

/// Writes a new file that only its owner can read, whole or not at all.
fn write(path: &Path, bytes: &[u8]) -> Result<(), CommandFailure> {
    let failed =
        |error: &io::Error| CommandFailure::io(&format!("write {}", path.display()), error);
    let mut file = match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return Err(CommandFailure::new(format!("{} exists already", path.display()))
                .with_exit(Exit::No)
                .advise("choose another file, or remove that one first"));
        }
        Err(error) => return Err(failed(&error)),
    };
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    written.map_err(|error| {
        // An incomplete export is of no use; the failure is reported either way.
        if let Err(error) = std::fs::remove_file(path) {
            tracing::debug!(%error, "cannot remove half an export");
        }
        failed(&error)
    })
}

/// Returns the messages as Markdown.
pub(super) fn render(summary: &ConversationSummary, history: &[Stored]) -> String {
    let conversation = &summary.conversation;
    let title = conversation.title.as_deref().unwrap_or("Conversation");
    let mut out = format!("# {}\n\n", text::printable(title));
    let facts = [
        ("id", conversation.id.to_string()),
        ("model", conversation.model.clone()),
        ("begun", conversation.started_at.to_string()),
        ("last used", conversation.updated_at.to_string()),
    ];
    for (name, fact) in facts {
        // Writing to a string cannot fail.
        writeln!(out, "- {name}: {}", text::printable(&fact)).ok();
    }
    for stored in history {
        let Passage { speaker, remark, words, calls } = passage(stored, Detail::Full);
        let remark = remark.map(|remark| format!(" ({remark})")).unwrap_or_default();
        write!(out, "\n## {}{remark}\n", text::printable(&speaker)).ok();
        // What a tool says is not Markdown.
        if matches!(stored.message, Message::Tool(_)) {
            fenced(&mut out, &words);
        } else if !words.is_empty() {
            write!(out, "\n{}\n", words.trim_end_matches('\n')).ok();
        }
        for call in calls {
            fenced(&mut out, &format!("→ {call}"));
        }
    }
    out
}

/// Adds a block of code, with a fence longer than any in it.
fn fenced(out: &mut String, words: &str) {
    let longest = words.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    write!(out, "\n{fence}\n{}\n{fence}\n", words.trim_end_matches('\n')).ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_in_the_output_does_not_end_the_block() {
        let mut out = String::new();
        fenced(&mut out, "a\n````\nb\n");
        assert_eq!(out, "\n`````\na\n````\nb\n`````\n");
    }
}
