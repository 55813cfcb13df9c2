//! Files of a sandbox: read, written, edited, listed, searched.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vestal_api::{DirectoryView, EntryView, FileType, FileView, FoundView, WrittenView};
use vestal_sandbox::files::{FileError, Files, Links, Parents, WriteOptions};
use vestal_sandbox::{FileEdit, FileKind, Sandbox, SearchQuery};

use super::lines::FileWindow;
use super::{Answer, SandboxTool, ToolEffect, ToolTable, counted};
use crate::call::Call;
use crate::failure::ToolFailure;
use crate::limits::{FILE_BYTES, MAX_FILE_BYTES};
use crate::resources;

/// Entries that are listed unless the call says otherwise, and at most.
const LISTED: u32 = 200;
const MAX_LISTED: u32 = 1000;

/// Matches that are returned unless the call says otherwise, and at most.
const FOUND: u32 = 50;
const MAX_FOUND: u32 = 500;

/// Lines of context at most.
const MAX_CONTEXT: u32 = 20;

/// Edits of one call at most.
const MAX_EDITS: usize = 100;

pub(super) fn add_to(table: &mut ToolTable) {
    table.add_described::<FileRead>();
    table.add_described::<FileWrite>();
    table.add_described::<FileEditing>();
    table.add_described::<FileList>();
    table.add_described::<FileSearch>();
}

async fn files(call: &Call, task: Option<&str>) -> Result<Files, ToolFailure> {
    Ok(open(call, task).await?.1)
}

async fn open(call: &Call, task: Option<&str>) -> Result<(Sandbox, Files), ToolFailure> {
    let sandbox = call.sandbox(task).await?;
    let files = sandbox.files(None).await?;
    Ok((sandbox, files))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FileRead {
    /// The file. Relative paths begin at the workspace; `~` is the sandbox's home.
    path: String,
    /// The first line to return, from 1.
    start_line: Option<u64>,
    /// At most so many lines.
    max_lines: Option<u64>,
    /// The first byte to return, in place of `start_line`.
    offset: Option<u64>,
    /// At most so many bytes: 65536 unless given, 262144 at most.
    max_bytes: Option<u64>,
    /// Another sandbox than your own.
    task: Option<String>,
}

/// A part of a file.
#[derive(Debug, Serialize, JsonSchema)]
struct FilePart {
    /// The file.
    file: FileView,
    /// Its URI as a resource.
    uri: String,
    /// The bytes as text; what is not UTF-8 is replaced.
    text: String,
    /// The exact bytes, where they are not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    /// The first line that is returned, where lines were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_line: Option<u64>,
    /// The last line that is returned, where lines were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_line: Option<u64>,
    /// The offset after the last byte, where bytes were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<u64>,
    /// Whether more of the file follows.
    more: bool,
}

impl SandboxTool for FileRead {
    const NAME: &'static str = "file_read";
    const TITLE: &'static str = "Read a file";
    const DESCRIPTION: &'static str = "\
Returns a file of the sandbox, or the lines or bytes of it that are asked for. `more` says whether something follows; go on with `start_line` or `offset`. The text is exact: no line numbers are added.";
    const EFFECT: ToolEffect = ToolEffect::Reads;
    type Output = FilePart;

    async fn call(self, call: &Call) -> Result<Answer<FilePart>, ToolFailure> {
        let files = files(call, self.task.as_deref()).await?;
        let task = call.task(self.task.as_deref())?;
        let room = self.max_bytes.unwrap_or(FILE_BYTES).clamp(1, MAX_FILE_BYTES);
        let by_line = self.start_line.is_some() || self.max_lines.is_some();
        if by_line && self.offset.is_some() {
            let problem = "give either lines (`start_line`, `max_lines`) or bytes (`offset`)";
            return Err(ToolFailure::argument("offset", problem));
        }
        let file = files.stat(&self.path, Links::Follow).await?;
        if file.kind == FileKind::Directory {
            return Err(ToolFailure::new(format!("{} is a directory", self.path))
                .advise("file_list lists directories"));
        }
        let uri = resources::file_uri(&task, &String::from_utf8_lossy(&file.path));
        let view = FileView::from(&file);
        let (bytes, part) = if by_line {
            let first = self.start_line.unwrap_or(1).max(1);
            let room = usize::try_from(room).unwrap_or(usize::MAX);
            let mut window =
                FileWindow::new(first, self.max_lines.unwrap_or(u64::MAX).max(1), room);
            let more = match files.read_to(&self.path, &mut window, 0, None).await {
                Ok(_) => false,
                // The window takes no more.
                Err(FileError::Io(_)) => true,
                Err(error) => return Err(error.into()),
            };
            let last = window.last_line();
            let more = more || window.is_cut;
            (window.bytes, (Some(first), Some(last), None, more))
        } else {
            let offset = self.offset.unwrap_or(0);
            let mut content = files.read_range(&self.path, offset, room).await?;
            if !content.eof {
                drop_half_character(&mut content.bytes);
            }
            let next = offset + content.bytes.len() as u64;
            (content.bytes, (None, None, Some(next), !content.eof))
        };
        let (first_line, last_line, next_offset, more) = part;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let base64 = std::str::from_utf8(&bytes).is_err().then(|| STANDARD.encode(&bytes));
        let mut words = if base64.is_some() {
            let shown = counted(bytes.len() as u64, "byte");
            format!("[{shown} that are not text; `base64` of the structured result has them]\n")
        } else {
            text.clone()
        };
        if more {
            let next = match (last_line, next_offset) {
                (Some(last), _) => format!("start_line {}", last + 1),
                (None, Some(next)) => format!("offset {next}"),
                (None, None) => "offset".to_owned(),
            };
            let newline = if words.ends_with('\n') || words.is_empty() { "" } else { "\n" };
            words.extend([format!(
                "{newline}[the file goes on, {} in all; {next} reads what follows]\n",
                counted(view.size, "byte")
            )]);
        }
        let part =
            FilePart { file: view, uri, text, base64, first_line, last_line, next_offset, more };
        Ok(Answer::new(part, words))
    }
}

/// Leaves a character that is cut in two for the next part.
fn drop_half_character(bytes: &mut Vec<u8>) {
    if let Err(error) = std::str::from_utf8(bytes)
        && error.error_len().is_none()
        && error.valid_up_to() > 0
    {
        bytes.truncate(error.valid_up_to());
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FileWrite {
    /// The file. Relative paths begin at the workspace; missing directories are made.
    path: String,
    /// The whole content, as text.
    text: Option<String>,
    /// The whole content, as bytes in base64, in place of `text`.
    base64: Option<String>,
    /// Permission bits in octal, such as `755`. Unless given, those of the file that is replaced.
    mode: Option<String>,
    /// Another sandbox than your own.
    task: Option<String>,
}

impl SandboxTool for FileWrite {
    const NAME: &'static str = "file_write";
    const TITLE: &'static str = "Write a file";
    const DESCRIPTION: &'static str = "\
Makes a text the whole content of a file, in one step: a reader sees the old or the new content. A file that is there is replaced. To change a part of a file, use file_edit.";
    const EFFECT: ToolEffect = ToolEffect::Replaces;
    type Output = WrittenView;

    async fn call(self, call: &Call) -> Result<Answer<WrittenView>, ToolFailure> {
        let bytes = match (self.text, self.base64) {
            (Some(text), None) => text.into_bytes(),
            (None, Some(encoded)) => {
                STANDARD.decode(encoded).map_err(|error| ToolFailure::argument("base64", error))?
            }
            _ => return Err(ToolFailure::argument("text", "give either `text` or `base64`")),
        };
        let mode = self.mode.as_deref().map(|mode| {
            u32::from_str_radix(mode, 8).ok().filter(|mode| *mode <= 0o7777).ok_or_else(|| {
                ToolFailure::argument("mode", "must be permission bits in octal, such as 755")
            })
        });
        let options = WriteOptions {
            parents: Parents::Make,
            mode: mode.transpose()?,
            ..WriteOptions::default()
        };
        let (sandbox, files) = open(call, self.task.as_deref()).await?;
        let written = WrittenView::from(&files.write(&self.path, &bytes, options).await?);
        // Where the workspace is a copy of the user's directory, the change belongs there, too.
        sandbox.bring_back().await;
        let verb = if written.created { "Created" } else { "Replaced" };
        let size = counted(written.file.size, "byte");
        let text = format!("{verb} {}, {size}.", written.file.path);
        Ok(Answer::new(written, text))
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FileEditing {
    /// The file.
    path: String,
    /// The replacements, 1 to 100. They are made one after the other, all or none.
    edits: Vec<TextEdit>,
    /// Another sandbox than your own.
    task: Option<String>,
}

/// One replacement.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TextEdit {
    /// The exact text to find, with its whitespace. It must occur once, unless `replace_all`.
    old_text: String,
    /// What to put in its place.
    new_text: String,
    /// Replace every occurrence.
    replace_all: Option<bool>,
}

/// A file that was edited.
#[derive(Debug, Serialize, JsonSchema)]
struct EditedOutput {
    /// The file now.
    file: FileView,
    /// How many replacements were made.
    replaced: u32,
}

impl SandboxTool for FileEditing {
    const NAME: &'static str = "file_edit";
    const TITLE: &'static str = "Edit a file";
    const DESCRIPTION: &'static str = "\
Replaces exact pieces of text in a file, all or none. A piece that is not found, or is found more than once without `replace_all`, is an error, and nothing is changed.";
    const EFFECT: ToolEffect = ToolEffect::Destroys;
    type Output = EditedOutput;

    async fn call(self, call: &Call) -> Result<Answer<EditedOutput>, ToolFailure> {
        if self.edits.is_empty() || self.edits.len() > MAX_EDITS {
            return Err(ToolFailure::argument("edits", format!("must be 1 to {MAX_EDITS} edits")));
        }
        if self.edits.iter().any(|edit| edit.old_text.is_empty()) {
            let problem = "an `old_text` is empty; file_write writes whole files";
            return Err(ToolFailure::argument("edits", problem));
        }
        let edits = self.edits.into_iter().map(|edit| FileEdit {
            old: edit.old_text.into_bytes().into(),
            new: edit.new_text.into_bytes().into(),
            all: edit.replace_all.unwrap_or(false),
        });
        let (sandbox, files) = open(call, self.task.as_deref()).await?;
        let written = files.patch(&self.path, edits.collect(), None).await?;
        sandbox.bring_back().await;
        let file = FileView::from(&written.metadata);
        let made = counted(written.replaced.into(), "replacement");
        let text = format!("Made {made} in {}.", file.path);
        Ok(Answer::new(EditedOutput { file, replaced: written.replaced }, text))
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FileList {
    /// The directory; the workspace unless given.
    path: Option<String>,
    /// Entries to pass over.
    skip: Option<u32>,
    /// At most so many entries: 200 unless given, 1000 at most.
    limit: Option<u32>,
    /// Another sandbox than your own.
    task: Option<String>,
}

impl SandboxTool for FileList {
    const NAME: &'static str = "file_list";
    const TITLE: &'static str = "List a directory";
    const DESCRIPTION: &'static str =
        "Lists a directory of the sandbox in the order of names, hidden files too.";
    const EFFECT: ToolEffect = ToolEffect::Reads;
    type Output = DirectoryView;

    async fn call(self, call: &Call) -> Result<Answer<DirectoryView>, ToolFailure> {
        let files = files(call, self.task.as_deref()).await?;
        let path = self.path.as_deref().filter(|path| !path.is_empty()).unwrap_or(".");
        let (skip, limit) = (self.skip.unwrap_or(0), self.limit.unwrap_or(LISTED));
        let page = files.list_page(path, skip, limit.clamp(1, MAX_LISTED)).await?;
        let entries: Vec<EntryView> = page.entries.iter().map(EntryView::from).collect();
        let mut text = entries.iter().map(entry_in_words).collect::<Vec<_>>().join("\n");
        if entries.is_empty() {
            text.push_str("[nothing]");
        }
        if page.more {
            let next = u64::from(skip) + entries.len() as u64;
            text.extend([format!("\n[there are more; skip {next} lists them]")]);
        }
        Ok(Answer::new(DirectoryView { entries, more: page.more }, text))
    }
}

fn entry_in_words(entry: &EntryView) -> String {
    match entry.kind {
        FileType::Directory => format!("{}/", entry.name),
        FileType::Symlink => format!("{}@", entry.name),
        FileType::File => format!("{}  {}", entry.name, counted(entry.size, "byte")),
        FileType::Other => format!("{}  (special)", entry.name),
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FileSearch {
    /// A regular expression to find in lines. Without it, files are found by `glob` alone.
    regex: Option<String>,
    /// A glob for names such as `*.rs`, or for paths below `path` such as `src/**/*.rs`.
    glob: Option<String>,
    /// The directory or file to search; the workspace unless given.
    path: Option<String>,
    /// Ignore case.
    ignore_case: Option<bool>,
    /// Search hidden files, too.
    hidden: Option<bool>,
    /// Search files that `.gitignore` names, too.
    ignored: Option<bool>,
    /// Lines to return around each match, 20 at most.
    context: Option<u32>,
    /// Matches to pass over.
    skip: Option<u32>,
    /// At most so many matches: 50 unless given, 500 at most.
    limit: Option<u32>,
    /// Another sandbox than your own.
    task: Option<String>,
}

impl SandboxTool for FileSearch {
    const NAME: &'static str = "file_search";
    const TITLE: &'static str = "Search files";
    const DESCRIPTION: &'static str = "\
Finds lines by a regular expression, or files by name. Hidden files, and those that `.gitignore` names, are left out unless asked for. Fast: it runs inside the sandbox.";
    const EFFECT: ToolEffect = ToolEffect::Reads;
    type Output = FoundView;

    async fn call(self, call: &Call) -> Result<Answer<FoundView>, ToolFailure> {
        if self.regex.is_none() && self.glob.is_none() {
            return Err(ToolFailure::argument("regex", "give `regex`, `glob`, or both"));
        }
        let skip = self.skip.unwrap_or(0);
        let root = self.path.filter(|path| !path.is_empty()).unwrap_or_else(|| ".".to_owned());
        let query = SearchQuery {
            root: root.into_bytes().into(),
            glob: self.glob,
            regex: self.regex,
            ignore_case: self.ignore_case.unwrap_or(false),
            hidden: self.hidden.unwrap_or(false),
            ignored: self.ignored.unwrap_or(false),
            skip,
            limit: self.limit.unwrap_or(FOUND).clamp(1, MAX_FOUND),
            context: self.context.unwrap_or(0).min(MAX_CONTEXT),
        };
        let files = files(call, self.task.as_deref()).await?;
        let found = FoundView::from(&files.search(query).await?);
        let text = found_in_words(&found, skip);
        Ok(Answer::new(found, text))
    }
}

fn found_in_words(found: &FoundView, skip: u32) -> String {
    let lines = found.matches.iter().map(|hit| match (hit.line, &hit.text) {
        (Some(line), Some(text)) => {
            format!("{}{}{line}: {text}", hit.path, if hit.context { "-" } else { ":" })
        }
        _ => hit.path.clone(),
    });
    let mut text = lines.collect::<Vec<_>>().join("\n");
    let searched = counted(found.files, "file");
    if found.matches.is_empty() {
        text.extend([format!("[nothing found in {searched}]")]);
    }
    if found.more {
        let hits = found.matches.iter().filter(|hit| !hit.context).count() as u64;
        text.extend([format!("\n[there are more; skip {} finds them]", u64::from(skip) + hits)]);
    }
    if found.unreadable > 0 {
        text.extend([format!("\n[{} could not be read]", counted(found.unreadable, "entry"))]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_that_is_cut_in_two_is_left_for_the_next_part() {
        let mut cut = "aä".as_bytes()[..2].to_vec();
        drop_half_character(&mut cut);
        assert_eq!(cut, b"a");
        let mut binary = vec![0xff, b'a'];
        drop_half_character(&mut binary);
        assert_eq!(binary, [0xff, b'a']);
    }
}
