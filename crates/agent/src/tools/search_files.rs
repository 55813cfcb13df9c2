//! `search_files`: lines by what they say, files by their names.

mod results;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use vestal_model::ToolSpec;
use vestal_sandbox::files::{FileError, Files, Links};
use vestal_sandbox::{FaultCode, FileKind, SearchQuery};

use super::arguments::{BadArgument, CountArgument, Deferred, parse, tool_spec};
use super::files::{Readable, ResolvedPath, has_code, message_of, not_found, readable, resolve};
use crate::tool::{Footprint, Tool, ToolContext, ToolOutput};
use results::ResultFormat;

const DESCRIPTION: &str = "\
Finds lines by a regular expression (target `content`), or files by a glob on their names (target `files`). \
Use this rather than grep, rg, find or ls. Hidden files and files that .gitignore excludes are not searched, \
unless `path` or `file_glob` names them. Results are sorted by path and come in parts: continue with `offset` \
set to the `next_offset` of the result.";

#[derive(Debug, Deserialize, JsonSchema)]
struct SearchFilesArguments {
    /// content: a regular expression, matched line by line; (?i) at its start ignores case. files: a glob such as *.py or src/**/test_*
    pattern: String,
    #[serde(default)]
    target: SearchTarget,
    /// Where to look: a directory or a file. Default: the shell's directory.
    path: Option<String>,
    /// content: only in files with such names, for instance *.rs
    #[serde(default)]
    file_glob: Deferred<String>,
    /// How many results. Default 50.
    limit: Option<CountArgument<1>>,
    /// Results to pass over
    offset: Option<CountArgument<0>>,
    /// `content`: the lines; `files_only`: only which files have any; `count`: how many each file has
    #[serde(default)]
    #[schemars(extend("default" = "content"))]
    output_mode: Deferred<OutputMode>,
    /// Lines to show before and after each match
    #[serde(default)]
    context: Deferred<CountArgument<0>>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum SearchTarget {
    #[default]
    #[serde(alias = "grep")]
    Content,
    #[serde(alias = "find", alias = "name", alias = "names")]
    Files,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum OutputMode {
    Content,
    #[serde(alias = "files", alias = "files_with_matches")]
    FilesOnly,
    Count,
}

impl SearchFilesArguments {
    fn kind_of_content(&self) -> Result<SearchKind, BadArgument> {
        Ok(match self.output_mode.read("output_mode")? {
            None | Some(OutputMode::Content) => {
                let lines = self.context.read("context")?.map_or(0, |CountArgument(lines)| lines);
                SearchKind::Lines { context: u32::try_from(lines.min(MAX_CONTEXT)).unwrap_or(0) }
            }
            Some(OutputMode::FilesOnly) => SearchKind::Files,
            Some(OutputMode::Count) => SearchKind::Counts,
        })
    }
}

/// Searches files.
#[derive(Debug, Default)]
pub struct SearchFiles;

#[async_trait]
impl Tool for SearchFiles {
    fn spec(&self) -> ToolSpec {
        tool_spec::<SearchFilesArguments>("search_files", DESCRIPTION)
    }

    fn toolset(&self) -> &'static str {
        "file"
    }

    fn footprint(&self, _: &Value) -> Footprint {
        Footprint::Reads
    }

    async fn call(&self, context: &ToolContext, arguments: Value) -> ToolOutput {
        let request = match FileSearch::new(arguments) {
            Ok(request) => request,
            Err(bad) => return bad.into(),
        };
        let files = match context.sandbox.files(&context.events).await {
            Ok(files) => files,
            Err(error) => return ToolOutput::error(error.to_string()),
        };
        tokio::select! {
            output = search(context, &files, &request) => output.unwrap_or_else(|refusal| refusal),
            () = context.cancel.cancelled() => ToolOutput::error("interrupted"),
        }
    }
}

async fn search(
    context: &ToolContext,
    files: &Files,
    request: &FileSearch,
) -> Result<ToolOutput, ToolOutput> {
    let target = resolve(files, &request.path).await;
    let target = target.map_err(|error| ToolOutput::error(message_of(&error)))?;
    if let Readable::No(why) = readable(&target.real) {
        return Err(ToolOutput::error(format!("{} is not searched: {why}", target.shown())));
    }
    let root = match files.stat(&request.path, Links::Follow).await {
        Ok(root) => root,
        Err(error) => return Err(failed(files, &target, request, &error).await),
    };
    let format = ResultFormat {
        root: &request.path,
        is_file: root.kind == FileKind::File,
        redactor: &context.redactor,
        line_length: context.limits.line_length,
    };
    let found = match request.kind {
        SearchKind::Names => results::names(files, request, &format).await,
        SearchKind::Lines { .. } => results::lines(files, request, &format).await,
        SearchKind::Files => results::files_only(files, request, &format).await,
        SearchKind::Counts => results::counts(files, request, &format).await,
    };
    match found {
        Ok(result) => Ok(ToolOutput::json(&result)),
        Err(error) => Err(failed(files, &target, request, &error).await),
    }
}

async fn failed(
    files: &Files,
    target: &ResolvedPath,
    request: &FileSearch,
    error: &FileError,
) -> ToolOutput {
    if has_code(error, FaultCode::NotFound) {
        let content = not_found(files, target).await;
        return ToolOutput { is_error: true, ..ToolOutput::json(&content) };
    }
    let mut message = message_of(error);
    if has_code(error, FaultCode::Invalid) && request.regex().is_some() {
        message.push_str(
            ". Look-around and back-references are not supported; put a backslash before ( ) [ ] { } \
             . * + ? | to mean the character itself",
        );
    }
    ToolOutput::error(message)
}

/// Results shown when the model does not say how many.
const LIMIT: usize = 50;

/// Most results at once.
const MAX_LIMIT: usize = 1_000;

/// Most lines around a match.
const MAX_CONTEXT: usize = 50;

/// What comes out of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
enum SearchKind {
    /// Files by name.
    Names,
    /// Lines, with so many around each.
    Lines { context: u32 },
    /// Files that have such lines.
    Files,
    /// How many such lines files have.
    Counts,
}

/// A search as it is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileSearch {
    pattern: String,
    file_glob: Option<String>,
    path: String,
    limit: usize,
    offset: usize,
    kind: SearchKind,
}

impl FileSearch {
    fn new(arguments: Value) -> Result<Self, BadArgument> {
        let arguments: SearchFilesArguments = parse(arguments)?;
        let (kind, file_glob) = match arguments.target {
            SearchTarget::Files => (SearchKind::Names, None),
            SearchTarget::Content => {
                check_expression(&arguments.pattern)?;
                let glob = arguments.file_glob.read("file_glob")?;
                (arguments.kind_of_content()?, glob.filter(|glob| !glob.trim().is_empty()))
            }
        };
        let path = arguments.path.filter(|path| !path.trim().is_empty());
        Ok(Self {
            pattern: arguments.pattern,
            file_glob,
            path: path.unwrap_or_else(|| ".".to_owned()),
            limit: arguments.limit.map_or(LIMIT, |CountArgument(limit)| limit).min(MAX_LIMIT),
            offset: arguments.offset.map_or(0, |CountArgument(offset)| offset),
            kind,
        })
    }

    /// Returns the expression lines must match.
    fn regex(&self) -> Option<&str> {
        (self.kind != SearchKind::Names).then_some(self.pattern.as_str())
    }

    /// Returns the names files must have.
    fn glob(&self) -> Option<String> {
        if self.kind != SearchKind::Names {
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
    fn query(&self, skip: usize, limit: usize) -> SearchQuery {
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
            context: match self.kind {
                SearchKind::Lines { context } => context,
                _ => 0,
            },
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

/// Reports whether an expression has `\n` in it that is not an escaped backslash
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
