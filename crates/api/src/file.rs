//! Files of a sandbox: what the API shows of them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vestal_sandbox::files::Written;
use vestal_sandbox::job::{JobOutput, OutputWindow, StreamPart};
use vestal_sandbox::{DirectoryEntry, FileKind, FoundMatches, Metadata};

use crate::JobView;

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileType {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A device, a pipe, a socket.
    Other,
}

impl From<FileKind> for FileType {
    fn from(kind: FileKind) -> Self {
        match kind {
            FileKind::File => Self::File,
            FileKind::Directory => Self::Directory,
            FileKind::Symlink => Self::Symlink,
            FileKind::Other => Self::Other,
        }
    }
}

/// A file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileView {
    /// The absolute path in the sandbox, as text.
    pub path: String,
    /// What it is.
    pub kind: FileType,
    /// Its size in bytes.
    pub size: u64,
    /// Its permission bits.
    pub mode: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// When its content last changed.
    pub modified_at: Option<String>,
    /// What a symbolic link points at.
    pub target: Option<String>,
}

impl From<&Metadata> for FileView {
    fn from(metadata: &Metadata) -> Self {
        Self {
            path: text(&metadata.path),
            kind: metadata.kind.into(),
            size: metadata.version.size,
            mode: metadata.mode,
            uid: metadata.uid,
            gid: metadata.gid,
            modified_at: nanoseconds(metadata.version.mtime_ns),
            target: metadata.target.as_ref().map(|target| text(target)),
        }
    }
}

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WrittenView {
    /// The file now.
    #[serde(flatten)]
    pub file: FileView,
    /// Whether it was made.
    pub created: bool,
    /// Whether it had to be written in place, so that readers may have seen a part of it.
    pub in_place: bool,
}

impl From<&Written> for WrittenView {
    fn from(written: &Written) -> Self {
        Self {
            file: (&written.metadata).into(),
            created: written.created,
            in_place: written.in_place,
        }
    }
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EntryView {
    /// Its name, as text.
    pub name: String,
    /// What it is; symbolic links are not followed.
    pub kind: FileType,
    /// Its size in bytes.
    pub size: u64,
    /// Its permission bits.
    pub mode: u32,
    /// When its content last changed.
    pub modified_at: Option<String>,
}

impl From<&DirectoryEntry> for EntryView {
    fn from(entry: &DirectoryEntry) -> Self {
        Self {
            name: text(&entry.name),
            kind: entry.kind.into(),
            size: entry.size,
            mode: entry.mode,
            modified_at: nanoseconds(entry.mtime_ns),
        }
    }
}

/// A part of a directory, in the order of names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DirectoryView {
    /// The entries.
    pub entries: Vec<EntryView>,
    /// Whether more follow.
    pub more: bool,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FoundView {
    /// The matches, in the order of paths and lines.
    pub matches: Vec<MatchView>,
    /// Whether there are more.
    pub more: bool,
    /// How many files were searched.
    pub files: u64,
    /// How many files and directories could not be read.
    pub unreadable: u64,
    /// How many binary files were skipped.
    pub binary: u64,
}

/// One match.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MatchView {
    /// The file, relative to the root of the search.
    pub path: String,
    /// The line, from 1; null where names were searched.
    pub line: Option<u64>,
    /// The words of the line, at most 2,000 bytes.
    pub text: Option<String>,
    /// Whether it is a line near a match.
    pub context: bool,
}

impl From<&FoundMatches> for FoundView {
    fn from(found: &FoundMatches) -> Self {
        let matches = found.matches.iter().map(|found| MatchView {
            path: text(&found.path),
            line: (found.line > 0).then_some(found.line),
            text: (found.line > 0).then(|| text(&found.text)),
            context: found.context,
        });
        Self {
            matches: matches.collect(),
            more: found.more,
            files: found.files,
            unreadable: found.unreadable,
            binary: found.binary,
        }
    }
}

/// A piece of the output of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutputView {
    /// The offset of the first byte in what the job wrote.
    pub from: u64,
    /// The offset after the last byte: where to go on reading.
    pub next: u64,
    /// The bytes as text.
    pub text: String,
    /// The exact bytes, where they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// How many bytes between `from` and `next` are not kept.
    pub omitted: u64,
}

impl OutputView {
    /// Returns the view of bytes of which the first has the offset `from`; `omitted` of those that
    /// were written are not among them.
    pub fn new(from: u64, bytes: &[u8], omitted: u64) -> Self {
        let is_text = std::str::from_utf8(bytes).is_ok();
        Self {
            from,
            next: from.saturating_add(bytes.len() as u64).saturating_add(omitted),
            text: text(bytes),
            base64: (!is_text).then(|| STANDARD.encode(bytes)),
            omitted,
        }
    }
}

/// What a job wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogsView {
    /// The job.
    pub job: JobView,
    /// Of standard output.
    pub stdout: OutputView,
    /// Of standard error.
    pub stderr: OutputView,
}

impl LogsView {
    /// Returns the view of what was read of a job of a task's sandbox.
    pub fn new(task: &str, window: OutputWindow, output: &JobOutput) -> Self {
        let view = |from, part: &StreamPart| OutputView::new(from, &part.bytes, part.omitted);
        Self {
            job: JobView::new(task, &output.info),
            stdout: view(window.stdout_from, &output.stdout),
            stderr: view(window.stderr_from, &output.stderr),
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn nanoseconds(time: i64) -> Option<String> {
    Timestamp::from_nanosecond(time.into()).ok().map(|time| time.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_goes_on_where_the_last_piece_ended() {
        let piece = OutputView::new(10, b"abc", 0);
        assert_eq!((piece.next, piece.text.as_str(), piece.base64), (13, "abc", None));
        let binary = OutputView::new(0, &[0xff], 5);
        assert_eq!((binary.next, binary.base64.as_deref()), (6, Some("/w==")));
    }
}
