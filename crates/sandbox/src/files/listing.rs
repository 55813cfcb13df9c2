//! Directories, page by page.

use std::path::Path;

use minicbor::bytes::ByteVec;
use vestal_wire::{Entry, FileOp, FileReply};

use super::{FileError, Files, check, path_bytes};
use crate::client::Violation;

/// Entries asked for at once; with the longest names they fit into a message.
const PAGE: u32 = 1_000;

/// A part of a directory, in the order of names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The entries.
    pub entries: Vec<Entry>,
    /// Whether more follow.
    pub more: bool,
}

/// The entries of a directory one by one, fetched by the page.
#[derive(Debug)]
pub struct Listing {
    files: Files,
    path: ByteVec,
    skip: u32,
    page: std::vec::IntoIter<Entry>,
    more: bool,
}

impl Files {
    /// Returns the entries of a directory one by one.
    pub fn listing(&self, path: impl AsRef<Path>) -> Result<Listing, FileError> {
        Ok(Listing {
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
                let checked = check::page(&entries, more && limit > 0, limit);
                self.checked(checked, Page { entries, more })
            }
            _ => Err(self.connection.wrong_reply().into()),
        }
    }
}

impl Listing {
    /// Returns the next entry; `None` after the last.
    pub async fn next(&mut self) -> Result<Option<Entry>, FileError> {
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
