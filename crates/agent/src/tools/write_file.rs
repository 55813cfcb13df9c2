//! `write_file`: the whole content of a file.

use std::borrow::Cow;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use vestal_model::ToolSpec;
use vestal_sandbox::FaultCode;
use vestal_sandbox::files::{FileContent, FileError, Files, Parents, WriteOptions};

use super::arguments::{BadArgument, NonEmptyString, parse, tool_spec};
use super::files::{
    BOM, FileText, Newline, ResolvedPath, check_write, has_code, message_of, numbered_lines,
    require_unmasked, resolve, unified_diff, with_lf,
};
use super::lint::lint;
use super::read_file::UNCHANGED;
use crate::tool::{Footprint, Tool, ToolContext, ToolOutput};

/// How much of the file that is replaced is looked at, for how its lines end.
const LOOKED_AT: u64 = 4 << 20;

const DESCRIPTION: &str = "\
Writes `content` as the whole content of a file; missing directories are created. Use this rather than echo or a \
here-document, and `patch` to change a part of a file. Line endings of an existing file are kept. \
JSON is checked after writing.";

#[derive(Deserialize, JsonSchema)]
struct WriteFileArguments {
    /// The file: absolute, relative to the shell's directory, or below ~
    path: NonEmptyString,
    /// All of its content
    #[schemars(with = "String")]
    content: Value,
}

/// Writes files.
#[derive(Debug, Default)]
pub struct WriteFile;

struct WriteFileRequest {
    path: String,
    content: String,
}

impl WriteFileRequest {
    fn new(arguments: Value) -> Result<Self, BadArgument> {
        let WriteFileArguments { path, content } = parse(arguments)?;
        let path = path.into_inner();
        let content = match content {
            Value::String(content) => content,
            // Models hand over JSON as what it is now and then.
            content @ (Value::Object(_) | Value::Array(_)) => format!("{content:#}\n"),
            other => other.to_string(),
        };
        require_unmasked("content", &content).map_err(BadArgument::new)?;
        Ok(Self { path, content })
    }
}

#[async_trait]
impl Tool for WriteFile {
    fn spec(&self) -> ToolSpec {
        tool_spec::<WriteFileArguments>("write_file", DESCRIPTION)
    }

    fn toolset(&self) -> &'static str {
        "file"
    }

    fn footprint(&self, arguments: &Value) -> Footprint {
        match arguments.get("path").and_then(Value::as_str) {
            Some(path) => Footprint::Writes(vec![path.to_owned()]),
            None => Footprint::Reads,
        }
    }

    fn only_reads(&self, _: &Value) -> bool {
        false
    }

    async fn call(&self, context: &ToolContext, arguments: Value) -> ToolOutput {
        let asked = match WriteFileRequest::new(arguments) {
            Ok(asked) => asked,
            Err(bad) => return bad.into(),
        };
        let files = match context.sandbox.files(&context.events).await {
            Ok(files) => files,
            Err(error) => return ToolOutput::error(error.to_string()),
        };
        tokio::select! {
            output = write(context, &files, &asked) => output.unwrap_or_else(|refusal| refusal),
            () = context.cancel.cancelled() => ToolOutput::error("interrupted; look whether the file was written"),
        }
    }
}

async fn write(
    context: &ToolContext,
    files: &Files,
    asked: &WriteFileRequest,
) -> Result<ToolOutput, ToolOutput> {
    let failed = |error: FileError| ToolOutput::error(message_of(&error));
    let target = resolve(files, &asked.path).await.map_err(failed)?;
    let approval = check_write(context, &target).await?;
    let before = existing(files, &asked.path).await.map_err(failed)?;
    let text = before.as_ref().map(|before| FileText::new(before.bytes.clone()));
    require_original(text.as_ref().map(FileText::view), &asked.content)
        .map_err(ToolOutput::error)?;
    let bytes = with_original_style(text.as_ref(), &asked.content);
    let options = WriteOptions { parents: Parents::Make, ..WriteOptions::default() };
    let written = files.write(&asked.path, &bytes, options).await.map_err(failed)?;
    let is_stale = before.as_ref().is_some_and(|before| {
        context.observed_files.is_stale(&target.absolute, before.metadata.version)
    });
    context.observed_files.record_file(&target.absolute, written.metadata.version);
    let is_whole = before.as_ref().map_or(written.created, |before| before.eof);
    if is_whole {
        emit_file_change(context, &target, text, bytes.to_vec()).await;
    }
    let mut result = json!({
        "path": target.shown(),
        "bytes_written": bytes.len(),
        "created": written.created,
    });
    if is_stale {
        result["warning"] = "the file had been changed by something else since you last read or \
            wrote it, and those changes are gone now"
            .into();
    }
    if bytes.windows(2).any(|pair| pair == b"\r\n") && !asked.content.contains("\r\n") {
        result["line_endings"] = "CRLF, as before".into();
    }
    if written.in_place {
        result["in_place"] = true.into();
    }
    if let Some(approval) = approval {
        result["approval"] = approval.into();
    }
    let old = before.as_ref().filter(|before| before.eof).map(|before| &before.bytes[..]);
    if let Some(found) = lint(&lint_name(&target), old, &bytes) {
        result["lint"] = found;
    }
    Ok(ToolOutput::json(&result))
}

/// Emits what has changed. The diff is computed off the threads that
/// others wait on.
async fn emit_file_change(
    context: &ToolContext,
    target: &ResolvedPath,
    before: Option<FileText>,
    now: Vec<u8>,
) {
    let shown = target.shown();
    let compared = tokio::task::spawn_blocking(move || {
        let now = FileText::new(now);
        let old_name = if before.is_some() { shown.as_str() } else { "/dev/null" };
        let old = before.as_ref().map_or("", FileText::view);
        unified_diff(old_name, &shown, old, now.view())
    });
    // Without it nobody sees what changed; the file is written all the same.
    if let Ok(diff) = compared.await
        && !diff.is_empty()
    {
        context.emit_file_change(target.shown(), &diff);
    }
}

/// Returns the name that says what kind of file it is.
fn lint_name(target: &ResolvedPath) -> Cow<'_, str> {
    target.absolute.to_string_lossy()
}

/// Returns the start of the file that is there, if any.
async fn existing(files: &Files, path: &str) -> Result<Option<FileContent>, FileError> {
    match files.read_range(path, 0, LOOKED_AT).await {
        Ok(before) => Ok(Some(before)),
        Err(error) if has_code(&error, FaultCode::NotFound) => Ok(None),
        // A file that may be written but not read is replaced as it comes.
        Err(error) if has_code(&error, FaultCode::Denied) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns content with the ends of lines and the mark that the file had.
fn with_original_style<'a>(before: Option<&FileText>, content: &'a str) -> Cow<'a, [u8]> {
    let Some(before) = before else {
        return Cow::Borrowed(content.as_bytes());
    };
    let mut bytes = match before.newline() {
        Newline::Crlf => Cow::Owned(with_lf(content).replace('\n', "\r\n").into_bytes()),
        Newline::Lf => Cow::Borrowed(content.as_bytes()),
    };
    if before.bytes().starts_with(BOM) && !bytes.starts_with(BOM) {
        bytes = Cow::Owned([BOM, &bytes].concat());
    }
    bytes
}

/// Fewest lines with numbers that are taken for what reading a file shows.
const LINES: usize = 2;

/// Refuses content that is not a file's but a tool's words about it. A file
/// that has such lines already may have them again.
fn require_original(before: Option<&str>, content: &str) -> Result<(), String> {
    if content.trim() == UNCHANGED {
        return Err("`content` is a remark of read_file, not the content of a file".to_owned());
    }
    let is_numbered = |text: &str| numbered_lines(text).is_some_and(|lines| lines >= LINES);
    if is_numbered(content) && !before.is_some_and(is_numbered) {
        return Err("every line of `content` starts with a line number and `|`, as read_file \
             shows them; they are not part of the file. Write it without them. A file that is \
             meant to have them can be written by a command"
            .to_owned());
    }
    Ok(())
}

#[cfg(test)]
#[path = "write_file_tests.rs"]
mod tests;
