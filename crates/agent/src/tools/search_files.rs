//! `search_files`: lines by what they say, files by their names.

mod results;

use async_trait::async_trait;
use serde_json::{Value, json};
use vestal_model::ToolSpec;
use vestal_sandbox::files::{FileError, Files, Links};
use vestal_wire::{FaultCode, FileKind, SearchQuery};

use super::arguments::{Arguments, BadArgument};
use super::files::{Place, Readable, in_words, is, locate, not_found, readable};
use crate::tool::{Footprint, Tool, ToolContext, ToolOutput};
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
                    "limit": { "type": "integer", "minimum": 1, "default": LIMIT, "description": "How many results" },
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

/// Results shown when the model does not say how many.
pub(super) const LIMIT: usize = 50;

/// Most results at once.
const MAX_LIMIT: usize = 1_000;

/// Most lines around a match.
const MAX_CONTEXT: usize = 50;

/// What comes out of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Files by name.
    Names,
    /// Lines.
    Lines,
    /// Files that have such lines.
    Files,
    /// How many such lines files have.
    Counts,
}

/// A search as it is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    pattern: String,
    file_glob: Option<String>,
    context: u32,
    pub(super) path: String,
    pub(super) limit: usize,
    pub(super) offset: usize,
    pub(super) wanted: Wanted,
}

impl Asked {
    pub(super) fn new(arguments: Value) -> Result<Self, BadArgument> {
        let arguments = Arguments::new(arguments)?;
        let pattern = arguments.text("pattern")?;
        let target = arguments.optional_text("target")?;
        let mode = arguments.optional_text("output_mode")?;
        let wanted = match (target.as_deref(), mode.as_deref()) {
            (Some("files" | "find" | "name" | "names"), _) => Wanted::Names,
            (None | Some("content" | "grep"), mode) => match mode {
                None | Some("content") => Wanted::Lines,
                Some("files_only" | "files" | "files_with_matches") => Wanted::Files,
                Some("count") => Wanted::Counts,
                Some(other) => {
                    return Err(BadArgument::new(format!(
                        "`output_mode` must be \"content\", \"files_only\" or \"count\", got {other:?}"
                    )));
                }
            },
            (Some(other), _) => {
                return Err(BadArgument::new(format!(
                    "`target` must be \"content\" or \"files\", got {other:?}"
                )));
            }
        };
        if wanted != Wanted::Names {
            check_expression(&pattern)?;
        }
        let context = arguments.count("context", 0)?.unwrap_or(0).min(MAX_CONTEXT);
        let path = arguments.optional_text("path")?.filter(|path| !path.trim().is_empty());
        let glob = arguments.optional_text("file_glob")?.filter(|glob| !glob.trim().is_empty());
        Ok(Self {
            pattern,
            file_glob: glob,
            context: u32::try_from(context).unwrap_or(0),
            path: path.unwrap_or_else(|| ".".to_owned()),
            limit: arguments.count("limit", 1)?.unwrap_or(LIMIT).min(MAX_LIMIT),
            offset: arguments.count("offset", 0)?.unwrap_or(0),
            wanted,
        })
    }

    /// Returns the expression lines must match.
    pub(super) fn regex(&self) -> Option<&str> {
        (self.wanted != Wanted::Names).then_some(self.pattern.as_str())
    }

    /// Returns the names files must have.
    fn glob(&self) -> Option<String> {
        if self.wanted != Wanted::Names {
            return self.file_glob.clone();
        }
        let pattern = self.pattern.trim();
        let is_glob = pattern.contains(['*', '?', '[', '{', '/']);
        Some(match pattern {
            "" | "." => "*".to_owned(),
            pattern if is_glob => pattern.to_owned(),
            // Without wildcards, any name that has it in it.
            pattern => format!("*{pattern}*"),
        })
    }

    /// Returns what the sandbox is asked: this many results after so many.
    pub(super) fn query(&self, skip: usize, limit: usize) -> SearchQuery {
        let glob = self.glob();
        // Hidden files are looked at where they are asked for by name.
        let names_hidden = |glob: &String| {
            glob.split(['/', '{', ','])
                .any(|name| name.starts_with('.') && name.len() > 1 && name != "..")
        };
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        SearchQuery {
            root: self.path.clone().into_bytes().into(),
            hidden: glob.as_ref().is_some_and(names_hidden),
            glob,
            regex: self.regex().map(str::to_owned),
            ignore_case: false,
            ignored: false,
            skip: count(skip),
            limit: count(limit),
            context: if self.wanted == Wanted::Lines { self.context } else { 0 },
        }
    }
}

/// Refuses what cannot match anything, and says why.
fn check_expression(pattern: &str) -> Result<(), BadArgument> {
    if pattern.is_empty() {
        return Err(BadArgument::new("`pattern` must not be empty"));
    }
    if pattern.contains('\n') || has_escaped_newline(pattern) {
        return Err(BadArgument::new(
            "`pattern` has a line break, and lines are matched one by one; look for one of the \
             lines and set `context` to see those around it",
        ));
    }
    Ok(())
}

/// Reports whether an expression has `\n` in it that is no escaped backslash
/// before an n.
fn has_escaped_newline(pattern: &str) -> bool {
    let mut rest = pattern.chars();
    while let Some(character) = rest.next() {
        if character == '\\' && rest.next() == Some('n') {
            return true;
        }
    }
    false
}

#[cfg(test)]
#[path = "search_files_tests.rs"]
mod tests;
