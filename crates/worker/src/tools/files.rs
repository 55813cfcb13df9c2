//! Files that go from the sandbox to the board, and the tool `kanban_attach`.

use std::path::Path;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use vestal_agent::ToolContext;
use vestal_agent::tools::BadArgument;
use vestal_board::{Attachment, AttachmentSource, Authority, Board, NewAttachment, TaskId};
use vestal_sandbox::client::CallError;
use vestal_sandbox::files::FileError;

use super::tool::{BoardVerb, Effect, fields};
use super::{BoardArgument, TaskArgument, ToolError};
use crate::context::AgentBoard;

#[derive(Deserialize, JsonSchema)]
pub(super) struct AttachFile {
    #[serde(default)]
    board: BoardArgument,
    #[serde(default)]
    task_id: TaskArgument,
    /// A file in the sandbox.
    path: Option<String>,
    /// The content in base64, if there is no file.
    content_base64: Option<String>,
    /// The name on the board; default: the name of the file.
    filename: Option<String>,
    /// The media type, such as text/plain.
    content_type: Option<String>,
}

#[async_trait]
impl BoardVerb for AttachFile {
    const NAME: &'static str = "kanban_attach";
    const DESCRIPTION: &'static str = "\
Attaches a file to a task: a file of the sandbox by `path`, or bytes as `content_base64` with a `filename`. At most 25 MiB.";
    const EFFECT: Effect = Effect::Adds;

    async fn call(
        self,
        kanban: &AgentBoard,
        context: &ToolContext,
    ) -> Result<Map<String, Value>, ToolError> {
        let board = kanban.board(&self.board).await?;
        let task = kanban.task(&board, &self.task_id).await?;
        let named = self.filename.filter(|name| !name.trim().is_empty());
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        let mut file = match (given(self.path), given(self.content_base64)) {
            (Some(path), None) => take(context, &path).await?,
            (None, Some(encoded)) => {
                let name = named.clone();
                let name = name.ok_or_else(|| {
                    BadArgument::new("`filename` is required with `content_base64`")
                })?;
                BoardFile { name, bytes: decoded(&encoded)? }
            }
            _ => {
                let both = "give either `path` or `content_base64`";
                return Err(BadArgument::new(both).into());
            }
        };
        if let Some(name) = named {
            file.name = name;
        }
        let attachment = put(&board, &kanban.authority(), &task, file, self.content_type).await?;
        Ok(fields(json!({
            "task_id": task,
            "attachment_id": attachment.id,
            "filename": attachment.filename,
            "size": attachment.size,
        })))
    }
}

/// Decodes base64, also with line breaks or without padding, as models write it.
fn decoded(encoded: &str) -> Result<Vec<u8>, BadArgument> {
    let clean: String = encoded.chars().filter(|c| !c.is_whitespace()).collect();
    let longest = MAX_BYTES / 3 * 4 + 4;
    if clean.len() as u64 > longest {
        return Err(BadArgument::new("`content_base64` is more than 25 MiB"));
    }
    STANDARD
        .decode(&clean)
        .or_else(|_| STANDARD_NO_PAD.decode(&clean))
        .map_err(|error| BadArgument::new(format!("`content_base64` is not base64: {error}")))
}

/// The largest file a board accepts.
pub(super) const MAX_BYTES: u64 = vestal_board::MAX_ATTACHMENT;

/// A file for the board, out of the sandbox or as the model gave it.
pub(super) struct BoardFile {
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
}

/// Reads a file in the sandbox; relative paths are resolved as for the model.
pub(super) async fn take(context: &ToolContext, path: &str) -> Result<BoardFile, ToolError> {
    let failed = |reason: String| ToolError::from(format!("{path}: {reason}"));
    let files = context.sandbox.files(&context.events).await;
    let files = files.map_err(|error| failed(error.to_string()))?;
    let read = tokio::select! {
        biased;
        () = context.cancel.cancelled() => return Err(failed("interrupted".to_owned())),
        read = files.read(path, MAX_BYTES) => read,
    };
    let bytes = read.map_err(|error| failed(in_words(&error)))?;
    let name = Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned());
    let name = name.ok_or_else(|| failed("a file has a name".to_owned()))?;
    Ok(BoardFile { name, bytes })
}

/// Puts a file on the board.
pub(super) async fn put(
    board: &Board,
    by: &Authority,
    task: &TaskId,
    BoardFile { name, bytes }: BoardFile,
    content_type: Option<String>,
) -> Result<Attachment, ToolError> {
    let new = NewAttachment { name, content_type, source: AttachmentSource::Bytes(bytes) };
    Ok(board.attach(by, task, new).await?)
}

/// Copies files from the sandbox to the board, all or none. This happens before the task changes,
/// outside of any transaction.
pub(super) async fn copy_out(
    context: &ToolContext,
    board: &Board,
    by: &Authority,
    task: &TaskId,
    paths: &[String],
) -> Result<Vec<Attachment>, ToolError> {
    let mut copied = Vec::with_capacity(paths.len());
    for path in paths {
        let one = async { put(board, by, task, take(context, path).await?, None).await };
        match one.await {
            Ok(attachment) => copied.push(attachment),
            Err(error) => {
                take_back(board, by, &copied).await;
                return Err(ToolError::from(format!(
                    "nothing was reported; the task continues: artifact {error}"
                )));
            }
        }
    }
    Ok(copied)
}

/// Removes copied files again after a failure.
pub(super) async fn take_back(board: &Board, by: &Authority, copied: &[Attachment]) {
    for attachment in copied {
        if let Err(error) = board.detach(by, attachment.id).await {
            tracing::warn!(%error, name = %attachment.filename, "cannot remove a copied file from the board");
        }
    }
}

fn in_words(error: &FileError) -> String {
    match error {
        FileError::Call(CallError::Fault(fault)) => fault.message.clone(),
        FileError::TooLarge { max } => {
            format!("it is larger than {} MiB", max / (1024 * 1024))
        }
        other => other.to_string(),
    }
}
