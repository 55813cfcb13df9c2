//! `vestal conversations export`.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use vestal_api::{EXPORT_VERSION, ExportLine, ExportedConversationView};
use vestal_conversations::{ConversationId, Standing, Store};

use super::{find, markdown, print};
use crate::console::text;
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;
use crate::json;

const AFTER_HELP: &str = "\
json: one object a line; the first is the conversation, the others are its messages, with what was
taken back or summed up. markdown: what was said, to read.

Example:
  vestal conversations export k3f9ab -o talk.jsonl";

/// Writes a conversation to a file, or to standard output.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ExportArgs {
    /// The conversation.
    #[arg(value_name = "ID")]
    id: String,

    /// The file to write, which must not exist; only you can read it. Without it, standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// How it is written.
    #[arg(long, value_name = "FORMAT", default_value = "json")]
    format: Format,

    /// Prints a JSON object about the file that was written.
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
    store: Option<&Store>,
    args: &ExportArgs,
) -> Result<Exit, Failure> {
    let (store, id) = find(store, &args.id).await?;
    let (exported, messages) = match args.format {
        Format::Json => lines(store, &id).await?,
        Format::Markdown => {
            let mut history = store.history(&id).await?;
            history.retain(|stored| stored.standing != Standing::Undone);
            (markdown::render(&store.summary(&id).await?, &history), history.len())
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
        let messages = text::count(messages as u64, "message");
        let path = text::printable(&path.to_string_lossy());
        context.console.print(&format!("wrote {path} ({messages})"))?;
    }
    Ok(Exit::Success)
}

/// Returns a conversation as lines of JSON, and how many messages there are.
async fn lines(store: &Store, id: &ConversationId) -> Result<(String, usize), Failure> {
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
fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let failed = |error: &io::Error| Failure::io(&format!("write {}", path.display()), error);
    let mut file = match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return Err(Failure::new(format!("{} exists already", path.display()))
                .with_exit(Exit::No)
                .advise("choose another file, or remove that one first"));
        }
        Err(error) => return Err(failed(&error)),
    };
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    written.map_err(|error| {
        // Half a conversation is nothing to keep; the failure is told either way.
        if let Err(error) = std::fs::remove_file(path) {
            tracing::debug!(%error, "cannot remove half an export");
        }
        failed(&error)
    })
}
