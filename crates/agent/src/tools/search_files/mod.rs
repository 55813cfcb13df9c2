//! `search_files`: lines by what they say, files by their names.

mod query;
mod results;

#[cfg(test)]
#[path = "search_files_tests.rs"]
mod tests;

use async_trait::async_trait;
use serde_json::{Value, json};
use vestal_model::ToolSpec;
use vestal_sandbox::files::{FileError, Files, Links};
use vestal_wire::{FaultCode, FileKind};

use super::files::{Place, Readable, in_words, is, locate, not_found, readable};
use crate::tool::{Footprint, Tool, ToolContext, ToolOutput};
use query::{Asked, Wanted};
use results::Shown;

/// Searches files.
#[derive(Debug, Default)]
pub struct SearchFiles;

#[async_trait]
impl Tool for SearchFiles {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "search_files".to_owned(),
            description:
                "Finds lines by a regular expression (target `content`) or files by a glob \
                on their names (target `files`). Use this rather than grep, rg, find or ls. What \
                .gitignore leaves out and hidden files are not searched, unless `path` or \
                `file_glob` names them. Results are sorted by path and come in parts: go on with \
                `offset` set to the `next_offset` of the result."
                    .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "pattern": { "type": "string", "description": "content: a regular expression, matched line by line; (?i) at its start ignores case. files: a glob such as *.py or src/**/test_*" },
                    "target": { "type": "string", "enum": ["content", "files"], "default": "content" },
                    "path": { "type": "string", "default": ".", "description": "Where to look: a directory or a file" },
                    "file_glob": { "type": "string", "description": "content: only in files with such names, for instance *.rs" },
                    "limit": { "type": "integer", "minimum": 1, "default": query::LIMIT, "description": "How many results" },
                    "offset": { "type": "integer", "minimum": 0, "default": 0, "description": "Results to pass over" },
                    "output_mode": { "type": "string", "enum": ["content", "files_only", "count"], "default": "content", "description": "content: the lines; files_only: only which files have any; count: how many each file has" },
                    "context": { "type": "integer", "minimum": 0, "default": 0, "description": "Lines to show before and after each match" }
                },
                "required": ["pattern"]
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
        let asked = match Asked::new(arguments) {
            Ok(asked) => asked,
            Err(bad) => return bad.into(),
        };
        let files = match context.workshop.files(&context.events).await {
            Ok(files) => files,
            Err(error) => return ToolOutput::error(error.to_string()),
        };
        tokio::select! {
            output = search(context, &files, &asked) => output.unwrap_or_else(|refusal| refusal),
            () = context.cancel.cancelled() => ToolOutput::error("interrupted"),
        }
    }
}

async fn search(
    context: &ToolContext,
    files: &Files,
    asked: &Asked,
) -> Result<ToolOutput, ToolOutput> {
    let place = locate(files, &asked.path).await;
    let place = place.map_err(|error| ToolOutput::error(in_words(&error)))?;
    if let Readable::No(why) = readable(&place.real) {
        return Err(ToolOutput::error(format!("{} is not searched: {why}", place.shown())));
    }
    let root = match files.stat(&asked.path, Links::Follow).await {
        Ok(root) => root,
        Err(error) => return Err(failed(files, &place, asked, &error).await),
    };
    let shown = Shown {
        root: &asked.path,
        is_file: root.kind == FileKind::File,
        redactor: &context.redactor,
        line_length: context.limits.line_length,
    };
    let found = match asked.wanted {
        Wanted::Names => results::names(files, asked, &shown).await,
        Wanted::Lines => results::lines(files, asked, &shown).await,
        Wanted::Files => results::files_only(files, asked, &shown).await,
        Wanted::Counts => results::counts(files, asked, &shown).await,
    };
    match found {
        Ok(result) => Ok(ToolOutput::json(&result)),
        Err(error) => Err(failed(files, &place, asked, &error).await),
    }
}

async fn failed(files: &Files, place: &Place, asked: &Asked, error: &FileError) -> ToolOutput {
    if is(error, FaultCode::NotFound) {
        let content = not_found(files, place).await;
        return ToolOutput { is_error: true, ..ToolOutput::json(&content) };
    }
    let mut message = in_words(error);
    if is(error, FaultCode::Invalid) && asked.regex().is_some() {
        message.push_str(
            ". Look-around and back-references are not supported; put a backslash before ( ) [ ] { } \
             . * + ? | to mean the character itself",
        );
    }
    ToolOutput::error(message)
}
