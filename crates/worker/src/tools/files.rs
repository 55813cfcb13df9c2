//! Files that go from the sandbox to the board.

use std::path::Path;

use vestal_agent::ToolContext;
use vestal_board::{Attachment, Authority, Board, NewAttachment, Source, TaskId};
use vestal_sandbox::client::CallError;
use vestal_sandbox::files::FileError;

use super::Trouble;

/// Bytes of a file that a board takes.
pub(super) const MAX_BYTES: u64 = vestal_board::MAX_ATTACHMENT;

/// A file that was read in the sandbox.
pub(super) struct Taken {
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
}

/// Reads a file in the sandbox; the path means what it means to the model.
pub(super) async fn take(context: &ToolContext, path: &str) -> Result<Taken, Trouble> {
    let failed = |reason: String| Trouble::from(format!("{path}: {reason}"));
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
    Ok(Taken { name, bytes })
}

/// Puts a file on the board.
pub(super) async fn put(
    board: &Board,
    by: &Authority,
    task: &TaskId,
    Taken { name, bytes }: Taken,
    content_type: Option<String>,
) -> Result<Attachment, Trouble> {
    let new = NewAttachment { name, content_type, source: Source::Bytes(bytes) };
    Ok(board.attach(by, task, new).await?)
}

/// Copies files out of the sandbox and onto the board: all or none. It is done
/// before anything is decided about the task, and outside of any transaction.
pub(super) async fn copy_out(
    context: &ToolContext,
    board: &Board,
    by: &Authority,
    task: &TaskId,
    paths: &[String],
) -> Result<Vec<Attachment>, Trouble> {
    let mut copied = Vec::with_capacity(paths.len());
    for path in paths {
        let one = async { put(board, by, task, take(context, path).await?, None).await };
        match one.await {
            Ok(attachment) => copied.push(attachment),
            Err(trouble) => {
                take_back(board, by, &copied).await;
                return Err(Trouble::from(format!(
                    "nothing was reported, and the task goes on: the artifact {trouble}"
                )));
            }
        }
    }
    Ok(copied)
}

/// Takes files off the board again that nothing came of.
pub(super) async fn take_back(board: &Board, by: &Authority, copied: &[Attachment]) {
    for attachment in copied {
        if let Err(error) = board.detach(by, attachment.id).await {
            tracing::warn!(%error, name = %attachment.filename, "a copied file stays on the board");
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
