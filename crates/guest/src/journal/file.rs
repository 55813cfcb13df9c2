//! The journal's file.
//!
//! ```text
//! "VSTJ" | version u32 LE | records: length u32 LE | CRC-32 u32 LE | CBOR …
//! ```

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use vestal_wire::NOT_A_JOURNAL;

use super::crc::crc32;
use super::record::{Record, Replay};
use crate::failpoint::failpoint;
use crate::state_file;

const MAGIC: [u8; 4] = *b"VSTJ";
const VERSION: u32 = 1;
const HEADER: usize = 8;
const RECORD_HEADER: usize = 8;

/// Longest record; a longer one can only be damage.
const MAX_RECORD: usize = 16 << 20;

/// Size from which on the journal is rewritten when it has grown fourfold.
const COMPACT_FROM: u64 = 1 << 20;

/// A journal that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JournalError {
    #[error(
        "journal {} is of version {found}, this program knows {VERSION}: use a newer one", path.display()
    )]
    Newer { path: PathBuf, found: u32 },
    #[error("{} {NOT_A_JOURNAL}", path.display())]
    Foreign { path: PathBuf },
    #[error("journal {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// The open journal.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    len: u64,
    compacted_len: u64,
    /// A record was written in part and could not be taken back.
    torn: bool,
}

impl Journal {
    /// Reads the journal at `path`, which need not exist.
    pub(crate) fn replay(path: &Path) -> Result<Replay, JournalError> {
        let mut replay = Replay::default();
        let mut bytes = Vec::new();
        let read = state_file::open_to_read(path).and_then(|mut file| file.read_to_end(&mut bytes));
        match read {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // Whoever put something else there took the journal away.
            Err(_) if state_file::is_foreign(path) => {
                replay.damaged = true;
                return Ok(replay);
            }
            Err(source) => {
                return Err(JournalError::Io { path: path.into(), source });
            }
        }
        // A file that ends inside its header was never appended to.
        let Some((header, mut rest)) = bytes.split_at_checked(HEADER) else {
            return Ok(replay);
        };
        check_header(path, header)?;
        loop {
            match next_record(rest) {
                Next::Record(record, tail) => {
                    replay.apply(*record);
                    rest = tail;
                }
                Next::End | Next::Torn => return Ok(replay),
                Next::Damaged => {
                    replay.damaged = true;
                    return Ok(replay);
                }
            }
        }
    }

    /// Puts a journal of these records in the place of the one at `path`.
    pub(crate) fn create(path: &Path, records: &[Record]) -> Result<Self, JournalError> {
        create(path, records).map_err(|source| JournalError::Io { path: path.into(), source })
    }

    /// Appends a record: all of it or nothing.
    pub(crate) fn append(&mut self, record: &Record) -> io::Result<()> {
        if self.torn {
            self.file.set_len(self.len)?;
            self.torn = false;
        }
        let mut bytes = Vec::with_capacity(256);
        push_record(&mut bytes, record)?;
        if let Err(error) = self.file.write_all(&bytes) {
            self.torn = self.file.set_len(self.len).is_err();
            return Err(error);
        }
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// Returns whether the journal has grown enough to be worth rewriting.
    pub(crate) const fn wants_compaction(&self) -> bool {
        self.len > COMPACT_FROM && self.len / 4 > self.compacted_len
    }

    /// Rewrites the journal with these records only.
    pub(crate) fn compact(&mut self, records: &[Record]) -> Result<(), JournalError> {
        *self = Self::create(&self.path, records)?;
        Ok(())
    }
}

enum Next<'b> {
    Record(Box<Record>, &'b [u8]),
    End,
    /// The last record was not written to its end.
    Torn,
    /// A record that was complete is not what was written.
    Damaged,
}

fn next_record(bytes: &[u8]) -> Next<'_> {
    if bytes.is_empty() {
        return Next::End;
    }
    let Some((header, rest)) = bytes.split_at_checked(RECORD_HEADER) else {
        return Next::Torn;
    };
    let word = |at: usize| {
        u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    let (len, crc) = (word(0) as usize, word(4));
    if len > MAX_RECORD {
        return Next::Damaged;
    }
    let Some((payload, tail)) = rest.split_at_checked(len) else {
        return Next::Torn;
    };
    if crc32(payload) != crc {
        return Next::Damaged;
    }
    match minicbor::decode(payload) {
        Ok(record) => Next::Record(Box::new(record), tail),
        Err(_) => Next::Damaged,
    }
}

fn check_header(path: &Path, header: &[u8]) -> Result<(), JournalError> {
    let mut version = [0; 4];
    version.copy_from_slice(&header[4..8]);
    if header[..4] != MAGIC {
        return Err(JournalError::Foreign { path: path.into() });
    }
    match u32::from_le_bytes(version) {
        VERSION => Ok(()),
        found => Err(JournalError::Newer { path: path.into(), found }),
    }
}

fn push_record(bytes: &mut Vec<u8>, record: &Record) -> io::Result<()> {
    let payload = minicbor::to_vec(record).map_err(io::Error::other)?;
    let len = u32::try_from(payload.len())
        .ok()
        .filter(|len| *len as usize <= MAX_RECORD)
        .ok_or_else(|| io::Error::other("record is too long"))?;
    bytes.extend_from_slice(&len.to_le_bytes());
    bytes.extend_from_slice(&crc32(&payload).to_le_bytes());
    bytes.extend_from_slice(&payload);
    Ok(())
}

fn create(path: &Path, records: &[Record]) -> io::Result<Journal> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    for record in records {
        push_record(&mut bytes, record)?;
    }
    let fresh = path.with_extension("new");
    let mut file = state_file::make(&fresh, OpenOptions::new().append(true))?;
    file.set_len(0)?;
    file.write_all(&bytes)?;
    // A rename may reach the disk before the content it renames. A journal that
    // replaces none has nothing to lose by that.
    if path.exists() {
        file.sync_data()?;
    }
    failpoint!("guest.compact.before-rename");
    state_file::clear(path)?;
    std::fs::rename(&fresh, path)?;
    let len = bytes.len() as u64;
    Ok(Journal { path: path.into(), file, len, compacted_len: len, torn: false })
}
