//! `read_file`: a part of a text file, with line numbers.

mod collect;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::AsyncWrite;
use vestal_model::{Image, ToolSpec};
use vestal_sandbox::files::{FileError, Files, Links};
use vestal_sandbox::{FaultCode, FileKind, Metadata};

use super::arguments::{CountArgument, NonEmptyString, parse, tool_spec};
use super::files::{
    FilePage, FileText, Readable, ResolvedPath, has_code, message_of, not_found, readable, resolve,
};
use super::pictures::shown_picture;
use crate::tool::{Footprint, Oversized, Tool, ToolContext, ToolOutput};
use collect::{Collector, ContentKind, Flow};

/// Lines shown when the model does not say how many.
const LINES: usize = 500;

/// Bytes that are read first: most files have no more.
const FIRST: u64 = 256 << 10;

const DESCRIPTION: &str = "\
Reads a text file and returns its lines as `N|text`. N is the line number, which is not part of the file. \
Use this rather than cat, head, tail or sed. Long files come in parts: continue with `offset` set to the `next_offset` \
of the result. Secrets are masked. Relative paths start at the directory of the shell. \
A picture (PNG, JPEG, GIF, WebP) is shown to you as it is. For other binary files use the terminal.";

/// Reads files.
#[derive(Debug, Default)]
pub struct ReadFile;

#[derive(Debug, Deserialize, JsonSchema)]
struct ReadFileArguments {
    /// The file: absolute, relative or below ~
    path: NonEmptyString,
    /// First line, from 1
    #[serde(default = "first_line")]
    #[schemars(range(min = 1))]
    offset: CountArgument<0>,
    /// How many lines
    #[serde(default = "usual_lines")]
    #[schemars(range(max = 2000))]
    limit: CountArgument<1>,
}

fn first_line() -> CountArgument<0> {
    CountArgument(1)
}

fn usual_lines() -> CountArgument<1> {
    CountArgument(LINES)
}

/// The lines that are asked for.
#[derive(Debug)]
struct ReadFileRequest {
    path: String,
    offset: usize,
    limit: usize,
}

#[async_trait]
impl Tool for ReadFile {
    fn spec(&self) -> ToolSpec {
        tool_spec::<ReadFileArguments>("read_file", DESCRIPTION)
    }

    fn toolset(&self) -> &'static str {
        "file"
    }

    fn footprint(&self, _: &Value) -> Footprint {
        Footprint::Reads
    }

    async fn call(&self, context: &ToolContext, arguments: Value) -> ToolOutput {
        let ReadFileArguments { path, offset, limit } = match parse(arguments) {
            Ok(arguments) => arguments,
            Err(bad) => return bad.into(),
        };
        let asked = ReadFileRequest {
            path: path.into_inner(),
            offset: offset.0.max(1),
            limit: limit.0.min(context.limits.output_lines.max(1)),
        };
        let files = match context.sandbox.files(&context.events).await {
            Ok(files) => files,
            Err(error) => return ToolOutput::error(error.to_string()),
        };
        let mut output = tokio::select! {
            output = read(context, &files, &asked) => output,
            () = context.cancel.cancelled() => ToolOutput::error("interrupted"),
        };
        output.oversized = Oversized::Keep;
        output
    }
}

async fn read(context: &ToolContext, files: &Files, asked: &ReadFileRequest) -> ToolOutput {
    let target = match resolve(files, &asked.path).await {
        Ok(target) => target,
        Err(error) => return ToolOutput::error(message_of(&error)),
    };
    if let Readable::No(why) = readable(&target.real) {
        return ToolOutput::error(format!("{} is not read: {why}", target.shown()));
    }
    let page = FilePage { path: target.absolute.clone(), offset: asked.offset, limit: asked.limit };
    if let Some(seen) = context.observed_files.page_version(&page)
        && let Ok(now) = files.stat(&target.absolute, Links::Follow).await
        && now.version == seen
    {
        return ToolOutput::json(&unchanged(&target));
    }
    match collected(context, files, asked).await {
        Ok((metadata, collector)) if collector.content == ContentKind::Image => {
            picture(files, &target, &metadata).await
        }
        Ok((metadata, collector)) => match shown_text(context, &target, &metadata, &collector) {
            Ok(shown) => {
                context.observed_files.record_page(page, metadata.version);
                ToolOutput::json(&shown)
            }
            Err(refusal) => failed(&refusal),
        },
        Err(error) => unread(files, &target, &error).await,
    }
}

/// Shows a picture.
async fn picture(files: &Files, target: &ResolvedPath, metadata: &Metadata) -> ToolOutput {
    let file_size = metadata.version.size;
    let refused = |why: &str| {
        failed(&json!({
            "error": format!("{} is a picture that cannot be shown: {why}", target.shown()),
            "is_binary": true,
            "is_image": true,
            "file_size": file_size,
            "hint": "Examine it, or make it smaller, with a program in the terminal.",
        }))
    };
    if file_size > Image::MOST_BYTES {
        return refused(&format!("it has {file_size} bytes, more than 20 MiB"));
    }
    let bytes = match files.read(&target.absolute, Image::MOST_BYTES).await {
        Ok(bytes) => bytes,
        Err(error) => return refused(&message_of(&error)),
    };
    match shown_picture(bytes).await {
        Ok(shown) => {
            let about = json!({
                "path": target.shown(),
                "is_image": true,
                "picture": shown.about(),
                "file_size": file_size,
                "note": "The picture is shown with this result, to a model that takes pictures.",
            });
            ToolOutput { images: vec![shown.image], ..ToolOutput::json(&about) }
        }
        Err(why) => refused(&why),
    }
}

fn failed(content: &Value) -> ToolOutput {
    ToolOutput { is_error: true, ..ToolOutput::json(content) }
}

/// Says why a file could not be read, and what to read instead.
async fn unread(files: &Files, target: &ResolvedPath, error: &FileError) -> ToolOutput {
    if has_code(error, FaultCode::NotFound) {
        return failed(&not_found(files, target).await);
    }
    if has_code(error, FaultCode::WrongKind)
        && let Ok(found) = files.stat(&target.absolute, Links::Follow).await
        && found.kind == FileKind::Directory
    {
        return ToolOutput::error(format!(
            "{} is a directory; use search_files with target \"files\" to see what is in it",
            target.shown()
        ));
    }
    ToolOutput::error(message_of(error))
}

/// Reads the lines that were asked for and counts the others.
async fn collected(
    context: &ToolContext,
    files: &Files,
    asked: &ReadFileRequest,
) -> Result<(Metadata, Collector), FileError> {
    // The file may be written while it is read; the second attempt is taken as it is.
    for attempt in 0.. {
        let mut collector = Collector::new(asked.offset, asked.limit, context.limits.line_length);
        let first = files.read_range(&asked.path, 0, FIRST).await?;
        let flow = collector.take(&first.bytes);
        if first.eof || flow == Flow::Enough {
            collector.finish(first.eof);
            return Ok((first.metadata, collector));
        }
        let mut sink = CollectorSink(&mut collector);
        let rest = files.read_to(&asked.path, &mut sink, FIRST, None).await;
        let version = match rest {
            Ok(rest) => {
                collector.finish(rest.eof);
                rest.metadata.version
            }
            Err(FileError::Io(_)) if collector.has_enough() => {
                collector.finish(false);
                first.metadata.version
            }
            Err(error) => return Err(error),
        };
        if version == first.metadata.version || attempt > 0 {
            return Ok((first.metadata, collector));
        }
    }
    Err(FileError::Invalid("the file could not be read"))
}

/// Hands what is read to a collector, and ends the read when it has enough.
struct CollectorSink<'a>(&'a mut Collector);

impl AsyncWrite for CollectorSink<'_> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(match self.0.take(bytes) {
            Flow::More => Ok(bytes.len()),
            Flow::Enough => Err(io::Error::other("enough has been read")),
        })
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// What is said instead of content that the model has already.
pub(in crate::tools) const UNCHANGED: &str = "The file has not changed since you read these lines; they are further up in this conversation.";

/// Says that a page was shown before and is still the same.
fn unchanged(target: &ResolvedPath) -> Value {
    json!({ "path": target.shown(), "status": "unchanged", "unchanged": true, "note": UNCHANGED })
}

/// Returns the lines with their numbers; the error is a result too, for files
/// that are not text.
fn shown_text(
    context: &ToolContext,
    target: &ResolvedPath,
    metadata: &Metadata,
    collector: &Collector,
) -> Result<Value, Value> {
    let file_size = metadata.version.size;
    let binary = |hint: &str| {
        let error = format!("{} is a binary file and cannot be shown as text", target.shown());
        json!({ "error": error, "is_binary": true, "file_size": file_size, "hint": hint })
    };
    match collector.content {
        ContentKind::Text => {}
        ContentKind::Image | ContentKind::Binary => {
            return Err(binary("Examine it in the terminal, with file, xxd or strings."));
        }
    }
    let total = collector.total();
    let first = collector.first_number();
    let page = ShownLines::new(context, collector);
    let most = context.limits.result_bytes;
    let mut content = String::new();
    let mut shown = 0_u64;
    let mut cut_lines = 0_u64;
    for line in &page.lines {
        let cut = line.char_indices().nth(context.limits.line_length).map(|(at, _)| at);
        let text = &line[..cut.unwrap_or(line.len())];
        let more = if cut.is_some() { "… [line cut]" } else { "" };
        let numbered = format!("{}|{text}{more}\n", first + shown);
        // A line longer than everything is shown all the same, or nobody could go on.
        if shown > 0 && content.len() + numbered.len() > most {
            break;
        }
        content.push_str(&numbered);
        shown += 1;
        cut_lines += u64::from(cut.is_some());
    }
    content.pop();
    let next = first + shown;
    let truncated = next <= total || !collector.counted;
    let mut result = json!({
        "content": content,
        "total_lines": total,
        "file_size": file_size,
        "truncated": truncated,
    });
    let mut hints = Vec::new();
    if shown == 0 && total == 0 {
        hints.push("The file is empty.".to_owned());
    } else if shown == 0 {
        hints.push(format!("The file has {total} lines; there is no line {first}."));
    } else if truncated {
        result["next_offset"] = next.into();
        let of = if collector.counted { String::new() } else { " at least".to_owned() };
        hints.push(format!(
            "Lines {first} to {} of{of} {total} are shown; go on with offset={next}.",
            next - 1
        ));
    }
    if !collector.counted {
        result["total_lines_exact"] = false.into();
    }
    if cut_lines > 0 {
        result["lines_cut"] = cut_lines.into();
    }
    if page.strays > 0 {
        hints.push(format!(
            "{} bytes here are not UTF-8 and are shown as \u{fffd}; patch leaves them as they are.",
            page.strays
        ));
    }
    if !hints.is_empty() {
        result["hint"] = hints.join(" ").into();
    }
    Ok(result)
}

/// Lines as they may be shown.
struct ShownLines {
    lines: Vec<String>,
    strays: usize,
}

impl ShownLines {
    /// Masks what is secret. What opens a secret may be on a line before the
    /// ones to show, so those are looked at too.
    fn new(context: &ToolContext, collector: &Collector) -> Self {
        let plain = |line: &Vec<u8>| FileText::new(line.clone());
        let before: Vec<FileText> = collector.before.iter().map(plain).collect();
        let wanted: Vec<FileText> = collector.lines.iter().map(plain).collect();
        let strays = wanted.iter().map(FileText::strays).sum();
        let all: Vec<&str> = before.iter().chain(&wanted).map(FileText::view).collect();
        let joined = all.join("\n");
        // As many lines come out as went in.
        let masked = context.redactor.redact_file(&joined);
        let shown = masked.split('\n').skip(before.len()).take(wanted.len());
        let lines = shown.map(str::to_owned).collect();
        Self { lines, strays }
    }
}

#[cfg(test)]
#[path = "read_file_tests.rs"]
mod tests;
