//! The durable record of started jobs.
//!
//! A job's id is in the journal before its command runs. Whatever happens to the
//! guest, a caller can then learn whether the command ran. A record is one `write`
//! to a file opened for appending: it survives the death of the guest. A crash of
//! the machine is recognized by the boot id.
//!
//! ```text
//! "VSTJ" | version u32 LE | records: length u32 LE | CRC-32 u32 LE | CBOR …
//! ```

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use vestal_wire::{JobId, JobInfo, NOT_A_JOURNAL};

use crate::failpoint::failpoint;
use crate::state_file;

const MAGIC: [u8; 4] = *b"VSTJ";
const VERSION: u32 = 1;
const HEADER: usize = 8;
const RECORD_HEADER: usize = 8;

/// Maximum length of a record; a longer one is damage.
const MAX_RECORD: usize = 16 << 20;

/// From this size on, the journal is rewritten when it has grown fourfold.
const COMPACT_FROM: u64 = 1 << 20;

/// Number of guest starts that are kept.
const MAX_OPENED: usize = 256;

/// Ids in one generation of an id set.
const GENERATION: usize = 128 << 10;

const TABLE: [u32; 256] = table();

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
    /// Whether an incomplete record is at the end.
    torn: bool,
}

impl Journal {
    /// Reads the journal at `path`, which may not exist.
    pub(crate) fn replay(path: &Path) -> Result<JournalReplay, JournalError> {
        let mut replay = JournalReplay::default();
        let mut bytes = Vec::new();
        let read = state_file::open_to_read(path).and_then(|mut file| file.read_to_end(&mut bytes));
        match read {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // Something else replaced the journal.
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
                NextRecord::JournalRecord(record, tail) => {
                    replay.apply(*record);
                    rest = tail;
                }
                NextRecord::End | NextRecord::Torn => return Ok(replay),
                NextRecord::Damaged => {
                    replay.damaged = true;
                    return Ok(replay);
                }
            }
        }
    }

    /// Replaces the journal at `path` by one with these records.
    pub(crate) fn create(path: &Path, records: &[JournalRecord]) -> Result<Self, JournalError> {
        create(path, records).map_err(|source| JournalError::Io { path: path.into(), source })
    }

    /// Appends a record completely or not at all.
    pub(crate) fn append(&mut self, record: &JournalRecord) -> io::Result<()> {
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

    /// Returns whether the journal has grown enough to be rewritten.
    pub(crate) const fn wants_compaction(&self) -> bool {
        self.len > COMPACT_FROM && self.len / 4 > self.compacted_len
    }

    /// Rewrites the journal with these records only.
    pub(crate) fn compact(&mut self, records: &[JournalRecord]) -> Result<(), JournalError> {
        *self = Self::create(&self.path, records)?;
        Ok(())
    }
}

enum NextRecord<'b> {
    JournalRecord(Box<JournalRecord>, &'b [u8]),
    End,
    /// The last record is incomplete.
    Torn,
    /// A record does not match its checksum or cannot be decoded.
    Damaged,
}

fn next_record(bytes: &[u8]) -> NextRecord<'_> {
    if bytes.is_empty() {
        return NextRecord::End;
    }
    let Some((header, rest)) = bytes.split_at_checked(RECORD_HEADER) else {
        return NextRecord::Torn;
    };
    let word = |at: usize| {
        u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    let (len, crc) = (word(0) as usize, word(4));
    if len > MAX_RECORD {
        return NextRecord::Damaged;
    }
    let Some((payload, tail)) = rest.split_at_checked(len) else {
        return NextRecord::Torn;
    };
    if crc32(payload) != crc {
        return NextRecord::Damaged;
    }
    match minicbor::decode(payload) {
        Ok(record) => NextRecord::JournalRecord(Box::new(record), tail),
        Err(_) => NextRecord::Damaged,
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

fn push_record(bytes: &mut Vec<u8>, record: &JournalRecord) -> io::Result<()> {
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

fn create(path: &Path, records: &[JournalRecord]) -> io::Result<Journal> {
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
    // A rename may reach the disk before the content. That does no harm if there
    // was not a journal before.
    if path.exists() {
        file.sync_data()?;
    }
    failpoint!("guest.compact.before-rename");
    state_file::clear(path)?;
    std::fs::rename(&fresh, path)?;
    let len = bytes.len() as u64;
    Ok(Journal { path: path.into(), file, len, compacted_len: len, torn: false })
}

/// A start of a guest with this journal.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct GuestStart {
    #[n(0)]
    pub(crate) incarnation: String,
    #[n(1)]
    pub(crate) boot: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) enum JournalRecord {
    /// A guest started.
    #[n(0)]
    GuestStart(#[n(0)] GuestStart),
    /// A job is about to be started.
    #[n(1)]
    Start(#[n(0)] Box<JobInfo>),
    /// The state of a job that ended; a later record replaces it.
    #[n(2)]
    End(#[n(0)] Box<JobInfo>),
    /// A caller learned that this id never ran. It must not run later.
    #[n(3)]
    Refused(#[n(0)] JobId),
    /// A job was forgotten, but its id was used.
    #[n(4)]
    Forgotten(#[n(0)] JobId),
    /// Hashes of the ids of forgotten and refused jobs.
    #[n(5)]
    Ids {
        #[n(0)]
        used: ByteVec,
        #[n(1)]
        refused: ByteVec,
        /// Whether used ids were dropped.
        #[n(2)]
        overflowed: bool,
    },
}

/// The state after all records of a journal.
#[derive(Debug, Default)]
pub(crate) struct JournalReplay {
    /// Jobs in the order of their starts.
    pub(crate) jobs: Vec<JobInfo>,
    /// Ids of forgotten jobs.
    pub(crate) used: IdSet,
    /// Ids that must not be run.
    pub(crate) refused: IdSet,
    /// Starts of guests, the latest last.
    pub(crate) starts: Vec<GuestStart>,
    /// Whether complete records were lost.
    pub(crate) damaged: bool,
    index: HashMap<JobId, usize>,
}

impl JournalReplay {
    pub(super) fn apply(&mut self, record: JournalRecord) {
        match record {
            JournalRecord::GuestStart(starts) => {
                if self.starts.len() >= MAX_OPENED {
                    self.starts.remove(0);
                }
                self.starts.push(starts);
            }
            JournalRecord::Start(info) | JournalRecord::End(info) => {
                if let Some(at) = self.index.get(&info.id) {
                    self.jobs[*at] = *info;
                } else {
                    self.index.insert(info.id.clone(), self.jobs.len());
                    self.jobs.push(*info);
                }
            }
            JournalRecord::Refused(id) => self.refused.add(&id),
            JournalRecord::Forgotten(id) => {
                self.used.add(&id);
                if let Some(at) = self.index.remove(&id) {
                    self.jobs.remove(at);
                    self.index.values_mut().filter(|i| **i > at).for_each(|i| *i -= 1);
                }
            }
            JournalRecord::Ids { used, refused, overflowed } => {
                self.used.add_bytes(&used, overflowed);
                self.refused.add_bytes(&refused, false);
            }
        }
    }
}

/// Hashes of ids in two generations. When the newer one is full, the older one is
/// dropped. So the set holds at least the last [`GENERATION`] ids.
#[derive(Debug, Default)]
pub(crate) struct IdSet {
    recent: HashSet<u64>,
    older: HashSet<u64>,
    overflowed: bool,
}

impl IdSet {
    /// Returns whether the id was added.
    pub(crate) fn contains(&self, id: &JobId) -> bool {
        let hash = hash(id);
        self.recent.contains(&hash) || self.older.contains(&hash)
    }

    /// Returns whether ids were dropped, so that absence proves nothing.
    pub(crate) const fn overflowed(&self) -> bool {
        self.overflowed
    }

    /// Adds an id.
    pub(crate) fn add(&mut self, id: &JobId) {
        self.add_hash(hash(id));
    }

    /// Adds the result of [`Self::to_bytes`].
    fn add_bytes(&mut self, bytes: &[u8], overflowed: bool) {
        self.overflowed |= overflowed;
        let (hashes, _) = bytes.as_chunks::<8>();
        for hash in hashes {
            self.add_hash(u64::from_le_bytes(*hash));
        }
    }

    /// Returns the hashes, oldest first.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.older.iter().chain(&self.recent).flat_map(|hash| hash.to_le_bytes()).collect()
    }

    fn add_hash(&mut self, hash: u64) {
        if self.recent.len() >= GENERATION {
            self.overflowed |= !self.older.is_empty();
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(hash);
    }
}

/// FNV-1a with a final mix. The standard library's hasher may change between
/// releases, and these hashes are stored.
fn hash(id: &JobId) -> u64 {
    let mut hash = id.as_str().bytes().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    });
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    hash ^ (hash >> 33)
}

#[expect(clippy::cast_possible_truncation, reason = "the index is below 256")]
const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
}

/// Returns the checksum of `bytes`.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes
        .iter()
        .fold(!0, |crc: u32, byte| (crc >> 8) ^ TABLE[((crc ^ u32::from(*byte)) & 0xFF) as usize])
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
