//! `read_file`: a part of a text file, with line numbers.

mod binary;
mod collect;
mod show;

pub(super) use show::UNCHANGED;

#[cfg(test)]
#[path = "read_file_tests.rs"]
mod tests;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::io::AsyncWrite;
use vestal_model::ToolSpec;
use vestal_sandbox::files::{FileError, Files, Links};
use vestal_wire::{FaultCode, FileKind, Metadata};

use super::arguments::{Arguments, BadArgument};
use super::files::{Page, Place, Readable, in_words, is, locate, not_found, readable};
use crate::tool::{Footprint, Oversized, Tool, ToolContext, ToolOutput};
use collect::{Collector, Flow};

/// Lines shown when the model does not say how many.
const LINES: usize = 500;

/// Bytes that are read first: most files have no more.
const FIRST: u64 = 256 << 10;

/// Reads files.
#[derive(Debug, Default)]
pub struct ReadFile;

struct Asked {
    path: String,
    offset: usize,
    limit: usize,
}

impl Asked {
    fn new(context: &ToolContext, arguments: Value) -> Result<Self, BadArgument> {
        let arguments = Arguments::new(arguments)?;
        let path = arguments.words("path")?;
        let offset = arguments.count("offset", 0)?.unwrap_or(1).max(1);
        let most = context.limits.output_lines.max(1);
        let limit = arguments.count("limit", 1)?.unwrap_or(LINES).min(most);
        Ok(Self { path, offset, limit })
    }
}

#[async_trait]
impl Tool for ReadFile {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "read_file".to_owned(),
            description: "Reads a text file and returns its lines as `N|text`, N being the line \
                number, which is not part of the file. Use this rather than cat, head, tail or sed. \
                Long files come in parts: go on with `offset` set to the `next_offset` of the \
                result. Secrets are masked. Relative paths start at the shell's directory. For \
                images and other binary files use the terminal."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "path": { "type": "string", "description": "The file: absolute, relative or below ~" },
                    "offset": { "type": "integer", "minimum": 1, "default": 1, "description": "First line, from 1" },
                    "limit": { "type": "integer", "minimum": 1, "maximum": 2000, "default": LINES, "description": "How many lines" }
                },
                "required": ["path"]
            }),
        }
    }

    fn toolset(&self) -> &'static str {
        "file"
    }

    fn footprint(&self, _: &Value) -> Footprint {
        Footprint::Reads
    }

    async fn call(&self, context: &ToolContext, arguments: Value) -> ToolOutput {
        let asked = match Asked::new(context, arguments) {
            Ok(asked) => asked,
            Err(bad) => return bad.into(),
        };
        let files = match context.workshop.files(&context.events).await {
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

async fn read(context: &ToolContext, files: &Files, asked: &Asked) -> ToolOutput {
    let place = match locate(files, &asked.path).await {
        Ok(place) => place,
        Err(error) => return ToolOutput::error(in_words(&error)),
    };
    if let Readable::No(why) = readable(&place.real) {
        return ToolOutput::error(format!("{} is not read: {why}", place.shown()));
    }
    let page = Page { path: place.absolute.clone(), offset: asked.offset, limit: asked.limit };
    if let Some(seen) = context.sightings.shown(&page)
        && let Ok(now) = files.stat(&place.absolute, Links::Follow).await
        && now.version == seen
    {
        return ToolOutput::json(&show::unchanged(&place));
    }
    match collected(context, files, asked).await {
        Ok((metadata, collector)) => match show::text(context, &place, &metadata, &collector) {
            Ok(shown) => {
                context.sightings.show(page, metadata.version);
                ToolOutput::json(&shown)
            }
            Err(refusal) => failed(&refusal),
        },
        Err(error) => unread(files, &place, &error).await,
    }
}

fn failed(content: &Value) -> ToolOutput {
    ToolOutput { is_error: true, ..ToolOutput::json(content) }
}

/// Says why a file could not be read, and what to read instead.
async fn unread(files: &Files, place: &Place, error: &FileError) -> ToolOutput {
    if is(error, FaultCode::NotFound) {
        return failed(&not_found(files, place).await);
    }
    if is(error, FaultCode::WrongKind)
        && let Ok(found) = files.stat(&place.absolute, Links::Follow).await
        && found.kind == FileKind::Directory
    {
        return ToolOutput::error(format!(
            "{} is a directory; use search_files with target \"files\" to see what is in it",
            place.shown()
        ));
    }
    ToolOutput::error(in_words(error))
}

/// Reads the lines that were asked for and counts the others.
async fn collected(
    context: &ToolContext,
    files: &Files,
    asked: &Asked,
) -> Result<(Metadata, Collector), FileError> {
    // Somebody may write while it is read; the second attempt is taken as it comes.
    for attempt in 0.. {
        let mut collector = Collector::new(asked.offset, asked.limit, context.limits.line_length);
        let first = files.read_range(&asked.path, 0, FIRST).await?;
        let flow = collector.take(&first.bytes);
        if first.eof || flow == Flow::Enough {
            collector.finish(first.eof);
            return Ok((first.metadata, collector));
        }
        let mut sink = Sink(&mut collector);
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
struct Sink<'a>(&'a mut Collector);

impl AsyncWrite for Sink<'_> {
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
