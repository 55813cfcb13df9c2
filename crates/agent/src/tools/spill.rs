//! Puts results that are too long for the conversation into files.

use std::time::Duration;

use serde_json::Value;
use vestal_sandbox::files::{Depth, FileError, Files, Parents, WriteOptions};
use vestal_sandbox::{Error, new_job_id};

use crate::tool::{Oversized, ToolContext, ToolOutput};

/// Where in the sandbox they are put.
const DIRECTORY: &str = "/tmp/vestal-results";

/// Files that are left alone there, and how long any is: beyond both they go,
/// so that a long life fills no disk.
const KEPT: usize = 64;
const KEPT_FOR: Duration = Duration::from_hours(24);

/// Characters of each end that a preview shows.
const HEAD: usize = 1000;
const TAIL: usize = 500;

/// Makes an output fit into `budget` bytes. What does not fit is put into a
/// file in the sandbox, and the model gets a preview with its path; if the
/// sandbox cannot take it, a preview that says so.
pub(crate) async fn fit(context: &ToolContext, output: ToolOutput, budget: usize) -> ToolOutput {
    let most = match output.oversized {
        Oversized::Spill => budget,
        // It knows the limit; what it adds to that is its own affair, within bounds.
        Oversized::Keep => budget.saturating_mul(2),
    };
    if output.content.len() <= most {
        return output;
    }
    let ToolOutput { content, is_error, images, .. } = output;
    let spilled = match LongestField::longest(&content) {
        // Of a result with one long text only that text is put away: the file
        // is then readable as what it is, and the rest stays in place.
        Some(field) if content.len() - field.weight() <= budget / 2 => {
            let preview = put_away(context, &field.text).await;
            field.replaced_by(preview)
        }
        _ => put_away(context, &content).await,
    };
    ToolOutput { content: spilled, is_error, oversized: Oversized::Keep, images }
}

/// The longest text of a JSON object.
struct LongestField {
    object: serde_json::Map<String, Value>,
    name: String,
    text: String,
}

impl LongestField {
    fn longest(content: &str) -> Option<Self> {
        let Ok(Value::Object(object)) = serde_json::from_str(content) else { return None };
        let texts = object.iter().filter_map(|(name, value)| Some((name, value.as_str()?)));
        let (name, text) = texts.max_by_key(|(_, text)| text.len())?;
        let (name, text) = (name.clone(), text.to_owned());
        Some(Self { object, name, text })
    }

    /// Returns how much of the object it is, written as JSON.
    fn weight(&self) -> usize {
        Value::from(self.text.as_str()).to_string().len()
    }

    fn replaced_by(mut self, preview: String) -> String {
        self.object.insert(self.name, preview.into());
        Value::Object(self.object).to_string()
    }
}

/// Puts a text into a file and returns a preview.
async fn put_away(context: &ToolContext, text: &str) -> String {
    let size = text.len();
    let (head, tail, shown) = ends(text);
    let omitted = size - shown;
    let place = match Box::pin(write(context, text)).await {
        Ok(path) => format!(
            "This result has {size} bytes, too many to show. As the tool gave it, it is in the sandbox at {path}: read it with read_file (offset, limit) or search_files. Its beginning and end:"
        ),
        Err(Unwritten(reason)) => format!(
            "This result has {size} bytes, too many to show, and could not be kept in the sandbox ({reason}). What is left out is lost; narrow the call down if it is needed. Its beginning and end:"
        ),
    };
    format!("{place}\n\n{head}\n\n[… {omitted} bytes left out here …]\n\n{tail}")
}

/// Returns the beginning and the end of a text, and how many bytes they are.
fn ends(text: &str) -> (&str, &str, usize) {
    let head = text.char_indices().nth(HEAD).map_or(text.len(), |(end, _)| end);
    let (head, rest) = text.split_at(head);
    let tail = rest.char_indices().rev().nth(TAIL - 1).map_or(0, |(start, _)| start);
    let tail = &rest[tail..];
    (head, tail, head.len() + tail.len())
}

/// Why a text could not be written.
struct Unwritten(String);

impl From<Error> for Unwritten {
    fn from(error: Error) -> Self {
        Self(error.to_string())
    }
}

impl From<FileError> for Unwritten {
    fn from(error: FileError) -> Self {
        Self(error.to_string())
    }
}

/// Keeps what a call brought as a file in the sandbox, beside results that are too long, and returns
/// its path; the error says why it could not be kept. The ending is of letters and digits.
pub async fn keep_file(
    context: &ToolContext,
    ending: &str,
    bytes: &[u8],
) -> Result<String, String> {
    let kept = Box::pin(write_bytes(context, ending, bytes)).await;
    kept.map_err(|Unwritten(reason)| reason)
}

async fn write(context: &ToolContext, text: &str) -> Result<String, Unwritten> {
    write_bytes(context, "txt", text.as_bytes()).await
}

async fn write_bytes(
    context: &ToolContext,
    ending: &str,
    bytes: &[u8],
) -> Result<String, Unwritten> {
    let files = context.sandbox.files(&context.events).await?;
    let path = format!("{DIRECTORY}/{}.{ending}", file_name(&context.call));
    // Others on a machine without isolation have no business with it.
    files.mkdir(DIRECTORY, Parents::Make, Some(0o700)).await?;
    let options = WriteOptions { mode: Some(0o600), ..WriteOptions::default() };
    files.write(&path, bytes, options).await?;
    if let Err(error) = clear(&files).await {
        tracing::debug!(%error, "old results were not removed");
    }
    Ok(path)
}

/// Removes what nobody will read any more.
async fn clear(files: &Files) -> Result<(), FileError> {
    let mut entries = files.list(DIRECTORY, 1000).await?.entries;
    entries.sort_by_key(|entry| entry.mtime_ns);
    entries.truncate(entries.len().saturating_sub(KEPT));
    let now = jiff::Timestamp::now().as_nanosecond();
    for entry in entries {
        let age = u64::try_from(now - i128::from(entry.mtime_ns)).unwrap_or(0);
        if Duration::from_nanos(age) > KEPT_FOR {
            let name = String::from_utf8_lossy(&entry.name);
            files.delete(format!("{DIRECTORY}/{name}"), Depth::One).await?;
        }
    }
    Ok(())
}

/// Returns a name for a call's file that nobody has used. The call's id is the
/// provider's: it could be anything, and come again.
fn file_name(call: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let name: String = call.chars().take(80).map(safe).collect();
    format!("{name}-{}", new_job_id().as_str().trim_start_matches("j-"))
}

#[cfg(test)]
#[path = "spill_tests.rs"]
mod tests;
