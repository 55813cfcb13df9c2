//! Files of a sandbox, byte-exact, in one round trip each.
//!
//! Paths are the sandbox's: `~` is its home, and relative ones start at the
//! session's directory. No path, size or name a guest returns is ever used on
//! this side; they are checked so that callers may show and compare them.

mod read;

#[cfg(test)]
#[path = "files_hostile_tests.rs"]
mod hostile_tests;
#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use async_recursion::async_recursion as boxed;
use minicbor::bytes::ByteVec;
use tokio::io::AsyncRead;
use vestal_wire::limits::MAX_SESSION_NAME;
use vestal_wire::{
    CallReply, CallRequest, CreateMode, DirectoryEntry, FileCall, FileEdit, FileOp, FileReply,
    FileVersion, FoundMatches, Match, Metadata, SearchQuery,
};

use crate::client::{CallError, Connection, FeedError, InputSource, Violation, feed_for_reply};

pub use read::{DirectoryListing, FileContent, Page, ReadSummary};

/// An operation on files that did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The call failed; the guest's reason is [`CallError::Fault`].
    #[error(transparent)]
    Call(#[from] CallError),
    /// The file is larger than the caller allows.
    #[error("the file is larger than {max} bytes")]
    TooLarge {
        /// What the caller allows.
        max: u64,
    },
    /// The source or target on this side failed.
    #[error(transparent)]
    Io(io::Error),
    /// The path is empty or contains a NUL byte, or the session's name is none.
    #[error("{0}")]
    Invalid(&'static str),
}

impl From<FeedError> for FileError {
    fn from(error: FeedError) -> Self {
        match error {
            FeedError::Call(error) => Self::Call(error),
            FeedError::Source(error) => Self::Io(error),
        }
    }
}

/// The files of the sandbox at the other end of a connection.
#[derive(Debug, Clone)]
pub struct Files {
    connection: Connection,
    session: Option<String>,
    start_dir: Option<ByteVec>,
}

/// How to write a file.
#[derive(Debug, Clone, Copy)]
pub struct WriteOptions {
    /// What may be there before.
    pub create: CreateMode,
    /// Whether missing parent directories are made.
    pub parents: Parents,
    /// Permission bits; `None`: those of the file replaced, else the default.
    pub mode: Option<u32>,
    /// The version that must still be there.
    pub expect: Option<FileVersion>,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self { create: CreateMode::Any, parents: Parents::MustExist, mode: None, expect: None }
    }
}

/// What to do about missing parent directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parents {
    /// It is an error.
    MustExist,
    /// They are made.
    Make,
}

/// What to do about symbolic links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// Describe what they point at.
    Follow,
    /// Describe themselves.
    Keep,
}

/// What to do about a file that is in the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overwrite {
    /// It is an error.
    Never,
    /// It is replaced.
    Replace,
}

/// What a deletion takes along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// A file or an empty directory.
    One,
    /// A directory with all in it.
    Recursive,
}

/// Result of a write or a patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The file now.
    pub metadata: Metadata,
    /// Whether it was made.
    pub created: bool,
    /// Whether it had to be written in place, so that readers may have seen a
    /// part of it.
    pub in_place: bool,
    /// Replacements made, for a patch.
    pub replaced: u32,
}

impl Files {
    /// Returns the files behind a connection. Relative paths start at the
    /// guest's start directory.
    pub fn new(connection: Connection) -> Self {
        Self { connection, session: None, start_dir: None }
    }

    /// Lets relative paths start at this session's directory.
    #[must_use]
    pub fn session(mut self, name: impl Into<String>) -> Self {
        self.session = Some(name.into());
        self
    }

    /// Lets relative paths start here where there is no such session.
    #[must_use]
    pub fn start_dir(mut self, dir: impl AsRef<Path>) -> Self {
        self.start_dir = Some(dir.as_ref().as_os_str().as_bytes().to_vec().into());
        self
    }

    /// Makes `bytes` the content of a file.
    pub async fn write(
        &self,
        path: impl AsRef<Path>,
        bytes: &[u8],
        options: WriteOptions,
    ) -> Result<Written, FileError> {
        self.write_source(path.as_ref(), InputSource::Bytes(bytes), options).await
    }

    /// Makes all that `reader` gives the content of a file. If the reader
    /// fails, the file stays as it was.
    pub async fn write_from(
        &self,
        path: impl AsRef<Path>,
        reader: &mut (dyn AsyncRead + Send + Unpin),
        options: WriteOptions,
    ) -> Result<Written, FileError> {
        self.write_source(path.as_ref(), InputSource::Reader(reader), options).await
    }

    async fn write_source(
        &self,
        path: &Path,
        source: InputSource<'_>,
        options: WriteOptions,
    ) -> Result<Written, FileError> {
        let op = FileOp::Write {
            path: path_bytes(path)?,
            create: options.create,
            parents: options.parents == Parents::Make,
            mode: options.mode,
            expect: options.expect,
        };
        let mut channel = self.connection.channel(self.request(op)?).await?;
        let reply = feed_for_reply(&mut channel, source).await?;
        self.written(reply)
    }

    /// Replaces pieces of a file, all or none.
    pub async fn patch(
        &self,
        path: impl AsRef<Path>,
        edits: Vec<FileEdit>,
        expect: Option<FileVersion>,
    ) -> Result<Written, FileError> {
        let op = FileOp::Patch { path: path_bytes(path.as_ref())?, edits, expect };
        let reply = self.call(op).await?;
        self.written(CallReply::File(reply))
    }

    /// Describes a file.
    pub async fn stat(&self, path: impl AsRef<Path>, links: Links) -> Result<Metadata, FileError> {
        let op = FileOp::Stat { path: path_bytes(path.as_ref())?, follow: links == Links::Follow };
        match self.call(op).await? {
            FileReply::Stat(metadata) => self.checked(check_metadata(&metadata), metadata),
            _ => Err(self.connection.wrong_reply().into()),
        }
    }

    /// Finds files by name and lines by content.
    #[boxed]
    pub async fn search(&self, query: SearchQuery) -> Result<FoundMatches, FileError> {
        if query.root.is_empty() || query.root.contains(&0) {
            return Err(FileError::Invalid(BAD_PATH));
        }
        match self.call(FileOp::Search(query.clone())).await? {
            FileReply::Found(found) => self.checked(check_found(&found, &query), found),
            _ => Err(self.connection.wrong_reply().into()),
        }
    }

    /// Makes a directory. With [`Parents::Make`] it is content when it exists.
    pub async fn mkdir(
        &self,
        path: impl AsRef<Path>,
        parents: Parents,
        mode: Option<u32>,
    ) -> Result<(), FileError> {
        let path = path_bytes(path.as_ref())?;
        self.done(FileOp::Mkdir { path, parents: parents == Parents::Make, mode }).await
    }

    /// Renames, across filesystems too.
    pub async fn rename(
        &self,
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
        overwrite: Overwrite,
    ) -> Result<(), FileError> {
        let (from, to) = (path_bytes(from.as_ref())?, path_bytes(to.as_ref())?);
        self.done(FileOp::Move { from, to, overwrite: overwrite == Overwrite::Replace }).await
    }

    /// Deletes; of a symbolic link the link, never what it points at.
    pub async fn delete(&self, path: impl AsRef<Path>, depth: Depth) -> Result<(), FileError> {
        let path = path_bytes(path.as_ref())?;
        self.done(FileOp::Delete { path, recursive: depth == Depth::Recursive }).await
    }

    async fn done(&self, op: FileOp) -> Result<(), FileError> {
        self.call(op).await.map(drop)
    }

    /// Sends an operation without streams and returns the guest's answer.
    async fn call(&self, op: FileOp) -> Result<FileReply, FileError> {
        match self.connection.call(self.request(op)?).await? {
            CallReply::File(reply) => Ok(reply),
            _ => Err(self.connection.wrong_reply().into()),
        }
    }

    fn request(&self, op: FileOp) -> Result<CallRequest, FileError> {
        if let Some(name) = &self.session
            && (name.is_empty() || name.len() > MAX_SESSION_NAME || name.contains('\0'))
        {
            return Err(FileError::Invalid("the session's name is empty, too long or has a NUL"));
        }
        let session = self.session.clone();
        Ok(CallRequest::File(FileCall { session, start_dir: self.start_dir.clone(), op }))
    }

    fn written(&self, reply: CallReply) -> Result<Written, FileError> {
        match reply {
            CallReply::File(FileReply::Written { metadata, created, in_place, replaced }) => {
                let checked = check_metadata(&metadata);
                self.checked(checked, Written { metadata, created, in_place, replaced })
            }
            _ => Err(self.connection.wrong_reply().into()),
        }
    }

    /// Returns the value, or cuts the guest off if it did not stand the check.
    fn checked<T>(&self, check: Result<(), Violation>, value: T) -> Result<T, FileError> {
        match check {
            Ok(()) => Ok(value),
            Err(violation) => Err(self.connection.violate(violation).into()),
        }
    }
}

const BAD_PATH: &str = "a path is not empty and contains no NUL byte";

fn path_bytes(path: &Path) -> Result<ByteVec, FileError> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.is_empty() || bytes.contains(&0) {
        return Err(FileError::Invalid(BAD_PATH));
    }
    Ok(bytes.to_vec().into())
}

/// Longest name of a file on Linux.
const NAME_MAX: usize = 255;

/// Longest line of a search result, in bytes.
const MAX_LINE: usize = 2_000;

/// Checks one page of a directory.
fn check_page(entries: &[DirectoryEntry], more: bool, limit: u32) -> Result<(), Violation> {
    if entries.len() > limit as usize {
        return Err(Violation::Claim("more entries than were asked for"));
    }
    if more && entries.is_empty() {
        return Err(Violation::Claim("more entries to come, but none on the page"));
    }
    if !entries.iter().all(|entry| is_name(&entry.name)) {
        return Err(Violation::Claim("an entry whose name cannot be one"));
    }
    Ok(())
}

/// Checks the description of a file.
fn check_metadata(metadata: &Metadata) -> Result<(), Violation> {
    if metadata.path.first() != Some(&b'/') || metadata.path.contains(&0) {
        return Err(Violation::Claim("a file whose path is not absolute"));
    }
    if metadata.target.as_ref().is_some_and(|target| target.contains(&0)) {
        return Err(Violation::Claim("a link whose target cannot be one"));
    }
    Ok(())
}

/// Checks the result of a search.
fn check_found(found: &FoundMatches, query: &SearchQuery) -> Result<(), Violation> {
    let hits = found.matches.iter().filter(|hit| !hit.context).count() as u64;
    let around = found.matches.len() as u64 - hits;
    let limit = u64::from(query.limit);
    if hits > limit || around > limit.saturating_mul(2).saturating_mul(u64::from(query.context)) {
        return Err(Violation::Claim("more results than were asked for"));
    }
    if !found.matches.iter().all(is_possible) {
        return Err(Violation::Claim("a result that cannot be one"));
    }
    Ok(())
}

pub(crate) fn is_name(name: &[u8]) -> bool {
    (1..=NAME_MAX).contains(&name.len())
        && name != b"."
        && name != b".."
        && !name.iter().any(|byte| matches!(byte, b'/' | 0))
}

/// Below the root means below it; the root itself, if it is a file, has the
/// empty path.
fn is_possible(hit: &Match) -> bool {
    let below = hit.path.is_empty() || hit.path.split(|byte| *byte == b'/').all(is_name);
    below && hit.text.len() <= MAX_LINE
}
