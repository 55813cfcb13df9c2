//! What is read of a sandbox's files: contents and directories.

use std::path::Path;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use minicbor::bytes::ByteVec;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use vestal_wire::{CallReply, DirectoryEntry, FileOp, FileReply, Metadata, Stream};

use super::{FileError, Files, check_metadata, check_page, path_bytes};
use crate::client::{Channel, ChannelMessage, Violation};

/// Bytes of a file, and the file they are of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileContent {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// What the guest says of the file.
    pub metadata: Metadata,
    /// Whether the bytes reach to the end of the file.
    pub eof: bool,
}

/// What was read and passed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadSummary {
    /// Bytes passed on.
    pub bytes: u64,
    /// What the guest says of the file.
    pub metadata: Metadata,
    /// Whether they reach to the end of the file.
    pub eof: bool,
}

/// A read under way.
struct FileReading {
    channel: Channel,
    limit: Option<u64>,
    received: u64,
}

/// The next step of a read.
enum ReadStep {
    Bytes(Bytes),
    Done(ReadSummary),
}

impl Files {
    /// Returns the content of a file of at most `max` bytes; a larger one is
    /// [`FileError::TooLarge`].
    pub async fn read(&self, path: impl AsRef<Path>, max: u64) -> Result<Vec<u8>, FileError> {
        let content = self.read_range(path, 0, max).await?;
        if content.eof { Ok(content.bytes) } else { Err(FileError::TooLarge { max }) }
    }

    /// Returns at most `limit` bytes of a file from `offset` on.
    pub async fn read_range(
        &self,
        path: impl AsRef<Path>,
        offset: u64,
        limit: u64,
    ) -> Result<FileContent, FileError> {
        let mut reading = self.begin_read(path.as_ref(), offset, Some(limit)).await?;
        let mut bytes = Vec::new();
        loop {
            match reading.next().await? {
                ReadStep::Bytes(more) => bytes.extend_from_slice(&more),
                ReadStep::Done(ReadSummary { metadata, eof, .. }) => {
                    return Ok(FileContent { bytes, metadata, eof });
                }
            }
        }
    }

    /// Passes a file's bytes from `offset` on to `writer`, at most `limit` if
    /// there is one. The guest reads as fast as the writer takes.
    pub async fn read_to(
        &self,
        path: impl AsRef<Path>,
        writer: &mut (dyn AsyncWrite + Send + Unpin),
        offset: u64,
        limit: Option<u64>,
    ) -> Result<ReadSummary, FileError> {
        let mut reading = self.begin_read(path.as_ref(), offset, limit).await?;
        loop {
            match reading.next().await? {
                ReadStep::Bytes(bytes) => writer.write_all(&bytes).await.map_err(FileError::Io)?,
                ReadStep::Done(summary) => {
                    writer.flush().await.map_err(FileError::Io)?;
                    return Ok(summary);
                }
            }
        }
    }

    async fn begin_read(
        &self,
        path: &Path,
        offset: u64,
        limit: Option<u64>,
    ) -> Result<FileReading, FileError> {
        let op = FileOp::Read { path: path_bytes(path)?, offset, limit };
        let channel = self.connection.channel(self.request(op)?).await?;
        Ok(FileReading { channel, limit, received: 0 })
    }
}

impl FileReading {
    async fn next(&mut self) -> Result<ReadStep, FileError> {
        loop {
            match self.channel.recv().await? {
                Some(ChannelMessage::Data(Stream::Content, bytes)) => {
                    self.received += bytes.len() as u64;
                    if self.limit.is_some_and(|limit| self.received > limit) {
                        return Err(self.refuse("more bytes than were asked for"));
                    }
                    return Ok(ReadStep::Bytes(bytes));
                }
                Some(ChannelMessage::End(_)) => {}
                Some(ChannelMessage::Reply(CallReply::File(FileReply::Read {
                    metadata,
                    sent,
                    eof,
                }))) => {
                    return self.done(metadata, sent, eof);
                }
                Some(_) | None => return Err(self.refuse("an answer to another question")),
            }
        }
    }

    fn done(&self, metadata: Metadata, sent: u64, eof: bool) -> Result<ReadStep, FileError> {
        if sent != self.received {
            return Err(self.refuse("more or fewer bytes sent than claimed"));
        }
        if let Err(violation) = check_metadata(&metadata) {
            return Err(self.channel.violate(violation).into());
        }
        Ok(ReadStep::Done(ReadSummary { bytes: self.received, metadata, eof }))
    }

    fn refuse(&self, claim: &'static str) -> FileError {
        self.channel.violate(Violation::Claim(claim)).into()
    }
}

/// Entries asked for at once; with the longest names they fit into a message.
const PAGE: u32 = 1_000;

/// A part of a directory, in the order of names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The entries.
    pub entries: Vec<DirectoryEntry>,
    /// Whether more follow.
    pub more: bool,
}

/// The entries of a directory one by one, fetched by the page.
#[derive(Debug)]
pub struct DirectoryListing {
    files: Files,
    path: ByteVec,
    skip: u32,
    page: std::vec::IntoIter<DirectoryEntry>,
    more: bool,
}

impl Files {
    /// Returns the entries of a directory one by one.
    pub fn listing(&self, path: impl AsRef<Path>) -> Result<DirectoryListing, FileError> {
        Ok(DirectoryListing {
            files: self.clone(),
            path: path_bytes(path.as_ref())?,
            skip: 0,
            page: Vec::new().into_iter(),
            more: true,
        })
    }

    /// Returns the first entries of a directory, at most `max`.
    pub async fn list(&self, path: impl AsRef<Path>, max: u32) -> Result<Page, FileError> {
        let path = path_bytes(path.as_ref())?;
        let mut page = Page { entries: Vec::new(), more: true };
        while page.more {
            // Never more than `max` entries are asked for or accepted.
            let have = u32::try_from(page.entries.len()).unwrap_or(u32::MAX);
            let limit = max.saturating_sub(have).min(PAGE);
            if limit == 0 {
                break;
            }
            let next = self.page_of(path.clone(), have, limit).await?;
            page.entries.extend(next.entries);
            page.more = next.more;
        }
        Ok(page)
    }

    /// Returns one page of a directory: at most `limit` entries after the first
    /// `skip`.
    pub async fn list_page(
        &self,
        path: impl AsRef<Path>,
        skip: u32,
        limit: u32,
    ) -> Result<Page, FileError> {
        self.page_of(path_bytes(path.as_ref())?, skip, limit).await
    }

    async fn page_of(&self, path: ByteVec, skip: u32, limit: u32) -> Result<Page, FileError> {
        match self.call(FileOp::List { path, skip, limit }).await? {
            FileReply::List { entries, more } => {
                // A page of no entries says nothing about whether there are more.
                let checked = check_page(&entries, more && limit > 0, limit);
                self.checked(checked, Page { entries, more })
            }
            _ => Err(self.connection.wrong_reply().into()),
        }
    }
}

impl DirectoryListing {
    /// Returns the next entry; `None` after the last.
    #[boxed]
    pub async fn next(&mut self) -> Result<Option<DirectoryEntry>, FileError> {
        loop {
            if let Some(entry) = self.page.next() {
                return Ok(Some(entry));
            }
            if !self.more {
                return Ok(None);
            }
            let page = self.files.page_of(self.path.clone(), self.skip, PAGE).await?;
            let count = u32::try_from(page.entries.len()).unwrap_or(u32::MAX);
            let Some(skip) = self.skip.checked_add(count) else {
                let endless = Violation::Claim("a directory without an end");
                return Err(self.files.connection.violate(endless).into());
            };
            self.skip = skip;
            self.more = page.more;
            self.page = page.entries.into_iter();
        }
    }
}
