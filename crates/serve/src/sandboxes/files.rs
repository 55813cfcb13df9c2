//! Files of a sandbox.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vestal_api::{DirectoryView, EntryView, FileView, FoundView, WrittenView};
use vestal_sandbox::files::{Depth, Files, Links, Overwrite, Parents, WriteOptions};
use vestal_sandbox::{CreateMode, FileEdit, SearchQuery};

use super::connection::SandboxCall;
use super::events::as_text;
use super::failure::SandboxFailure;
use super::limits::{FILE, LISTED, MAX_CONTEXT, MAX_EDITS, MAX_FILE, MAX_LISTED};
use super::methods::{Acknowledged, given, sent_bytes, task_of};

/// Returns the files of a sandbox; relative paths begin at the directory of a session, if one is named,
/// else at the workspace.
async fn files(
    call: &SandboxCall,
    task: &str,
    session: Option<&str>,
) -> Result<Files, SandboxFailure> {
    let sandbox = call.server.sandbox(&task_of(task)?).await?;
    Ok(sandbox.files(session.filter(|name| !name.is_empty())).await?)
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadParams {
    /// The task of the sandbox.
    task: String,
    /// The file; `~` is the sandbox's home.
    path: String,
    /// The session whose directory relative paths begin at; the workspace unless given.
    session: Option<String>,
    /// The first byte to return.
    #[serde(default)]
    offset: u64,
    /// At most so many bytes: 1048576 unless given, 4194304 at most.
    limit: Option<u64>,
}

/// Bytes of a file.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ReadResult {
    /// The file.
    file: FileView,
    /// The bytes, where they are UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// The bytes in base64, where they are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    /// The offset after the last of them.
    next: u64,
    /// Whether more of the file follows.
    more: bool,
}

pub(super) async fn read(
    call: SandboxCall,
    params: ReadParams,
) -> Result<ReadResult, SandboxFailure> {
    let files = files(&call, &params.task, params.session.as_deref()).await?;
    let limit = params.limit.unwrap_or(FILE).clamp(1, MAX_FILE);
    let content = files.read_range(&params.path, params.offset, limit).await?;
    let (text, base64) = as_text(&content.bytes);
    let next = params.offset.saturating_add(content.bytes.len() as u64);
    let file = FileView::from(&content.metadata);
    Ok(ReadResult { file, text, base64, next, more: !content.eof })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FileWriteParams {
    /// The task of the sandbox.
    task: String,
    /// The file.
    path: String,
    /// The session whose directory relative paths begin at; the workspace unless given.
    session: Option<String>,
    /// The content, as text.
    text: Option<String>,
    /// The content in base64, in place of `text`.
    base64: Option<String>,
    /// Permission bits; those of the file that is replaced unless given.
    mode: Option<u32>,
    /// Fail if there is a file already.
    #[serde(default)]
    new: bool,
}

fn checked_mode(mode: Option<u32>) -> Result<Option<u32>, SandboxFailure> {
    match mode {
        Some(mode) if mode > 0o7777 => {
            Err(SandboxFailure::param("mode", "must be 0 to 4095 (0o7777)"))
        }
        mode => Ok(mode),
    }
}

pub(super) async fn write(
    call: SandboxCall,
    params: FileWriteParams,
) -> Result<WrittenView, SandboxFailure> {
    let bytes = sent_bytes(params.text, params.base64.as_deref())?
        .ok_or_else(|| SandboxFailure::param("text", "give it or `base64`"))?;
    let options = WriteOptions {
        create: if params.new { CreateMode::New } else { CreateMode::Any },
        parents: Parents::Make,
        mode: checked_mode(params.mode)?,
        ..WriteOptions::default()
    };
    let files = files(&call, &params.task, params.session.as_deref()).await?;
    Ok(WrittenView::from(&files.write(&params.path, &bytes, options).await?))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PatchParams {
    /// The task of the sandbox.
    task: String,
    /// The file.
    path: String,
    /// The session whose directory relative paths begin at; the workspace unless given.
    session: Option<String>,
    /// The replacements, 1 to 1000, made one after the other.
    edits: Vec<TextEdit>,
}

/// One replacement.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TextEdit {
    /// The exact text to find. It must occur once, unless `all`.
    old: String,
    /// What to put in its place.
    new: String,
    /// Replace every occurrence.
    #[serde(default)]
    all: bool,
}

/// A file that was patched.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct PatchResult {
    /// The file now.
    file: FileView,
    /// How many replacements were made.
    replaced: u32,
}

pub(super) async fn patch(
    call: SandboxCall,
    params: PatchParams,
) -> Result<PatchResult, SandboxFailure> {
    if params.edits.is_empty() || params.edits.len() > MAX_EDITS {
        return Err(SandboxFailure::param("edits", format!("must be 1 to {MAX_EDITS} edits")));
    }
    if params.edits.iter().any(|edit| edit.old.is_empty()) {
        return Err(SandboxFailure::param("edits", "an `old` is empty"));
    }
    let edits = params.edits.into_iter().map(|edit| FileEdit {
        old: edit.old.into_bytes().into(),
        new: edit.new.into_bytes().into(),
        all: edit.all,
    });
    let files = files(&call, &params.task, params.session.as_deref()).await?;
    let written = files.patch(&params.path, edits.collect(), None).await?;
    Ok(PatchResult { file: FileView::from(&written.metadata), replaced: written.replaced })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FileListParams {
    /// The task of the sandbox.
    task: String,
    /// The directory; the one that relative paths begin at unless given.
    path: Option<String>,
    /// The session whose directory relative paths begin at; the workspace unless given.
    session: Option<String>,
    /// Entries to pass over.
    #[serde(default)]
    skip: u32,
    /// At most so many: 200 unless given, 1000 at most.
    limit: Option<u32>,
}

pub(super) async fn list(
    call: SandboxCall,
    params: FileListParams,
) -> Result<DirectoryView, SandboxFailure> {
    let files = files(&call, &params.task, params.session.as_deref()).await?;
    let path = given(params.path).unwrap_or_else(|| ".".to_owned());
    let limit = params.limit.unwrap_or(LISTED).clamp(1, MAX_LISTED);
    let page = files.list_page(path, params.skip, limit).await?;
    let entries = page.entries.iter().map(EntryView::from).collect();
    Ok(DirectoryView { entries, more: page.more })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchParams {
    /// The task of the sandbox.
    task: String,
    /// A regular expression to find in lines. Without it, files are found by `glob`.
    regex: Option<String>,
    /// A glob for names, or for paths below `path`.
    glob: Option<String>,
    /// The directory or file to search; the one that relative paths begin at unless given.
    path: Option<String>,
    /// The session whose directory relative paths begin at; the workspace unless given.
    session: Option<String>,
    /// Ignore case.
    #[serde(default)]
    ignore_case: bool,
    /// Search hidden files, too.
    #[serde(default)]
    hidden: bool,
    /// Search files that `.gitignore` names, too.
    #[serde(default)]
    ignored: bool,
    /// Lines to return around each match, 20 at most.
    #[serde(default)]
    context: u32,
    /// Matches to pass over.
    #[serde(default)]
    skip: u32,
    /// At most so many: 200 unless given, 1000 at most.
    limit: Option<u32>,
}

pub(super) async fn search(
    call: SandboxCall,
    params: SearchParams,
) -> Result<FoundView, SandboxFailure> {
    let (regex, glob) = (given(params.regex), given(params.glob));
    if regex.is_none() && glob.is_none() {
        return Err(SandboxFailure::param("regex", "give it, `glob`, or both"));
    }
    let root = given(params.path).unwrap_or_else(|| ".".to_owned());
    let query = SearchQuery {
        root: root.into_bytes().into(),
        glob,
        regex,
        ignore_case: params.ignore_case,
        hidden: params.hidden,
        ignored: params.ignored,
        skip: params.skip,
        limit: params.limit.unwrap_or(LISTED).clamp(1, MAX_LISTED),
        context: params.context.min(MAX_CONTEXT),
    };
    let files = files(&call, &params.task, params.session.as_deref()).await?;
    Ok(FoundView::from(&files.search(query).await?))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StatParams {
    /// The task of the sandbox.
    task: String,
    /// The file.
    path: String,
    /// The session whose directory relative paths begin at; the workspace unless given.
    session: Option<String>,
    /// Describe a symbolic link itself, not what it points at.
    #[serde(default)]
    link: bool,
}

pub(super) async fn stat(
    call: SandboxCall,
    params: StatParams,
) -> Result<FileView, SandboxFailure> {
    let files = files(&call, &params.task, params.session.as_deref()).await?;
    let links = if params.link { Links::Keep } else { Links::Follow };
    Ok(FileView::from(&files.stat(&params.path, links).await?))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MkdirParams {
    /// The task of the sandbox.
    task: String,
    /// The directory.
    path: String,
    /// The session whose directory relative paths begin at; the workspace unless given.
    session: Option<String>,
    /// Permission bits.
    mode: Option<u32>,
}

pub(super) async fn mkdir(
    call: SandboxCall,
    params: MkdirParams,
) -> Result<Acknowledged, SandboxFailure> {
    let mode = checked_mode(params.mode)?;
    let files = files(&call, &params.task, params.session.as_deref()).await?;
    files.mkdir(&params.path, Parents::Make, mode).await?;
    Ok(Acknowledged {})
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MoveParams {
    /// The task of the sandbox.
    task: String,
    /// What to rename.
    from: String,
    /// Its new path.
    to: String,
    /// The session whose directory relative paths begin at; the workspace unless given.
    session: Option<String>,
    /// Replace what is there.
    #[serde(default)]
    overwrite: bool,
}

pub(super) async fn rename(
    call: SandboxCall,
    params: MoveParams,
) -> Result<Acknowledged, SandboxFailure> {
    let files = files(&call, &params.task, params.session.as_deref()).await?;
    let overwrite = if params.overwrite { Overwrite::Replace } else { Overwrite::Never };
    files.rename(&params.from, &params.to, overwrite).await?;
    Ok(Acknowledged {})
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FileDeleteParams {
    /// The task of the sandbox.
    task: String,
    /// What to delete.
    path: String,
    /// The session whose directory relative paths begin at; the workspace unless given.
    session: Option<String>,
    /// Delete a directory with everything in it.
    #[serde(default)]
    recursive: bool,
}

pub(super) async fn delete(
    call: SandboxCall,
    params: FileDeleteParams,
) -> Result<Acknowledged, SandboxFailure> {
    let files = files(&call, &params.task, params.session.as_deref()).await?;
    let depth = if params.recursive { Depth::Recursive } else { Depth::One };
    files.delete(&params.path, depth).await?;
    Ok(Acknowledged {})
}
