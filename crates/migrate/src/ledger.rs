//! The record of what was taken over, so that it is known again: what was changed here since is not
//! overwritten, and what was removed here does not come back.
//!
//! A line of JSON is appended before each step and after it. The last line of each kind about a thing counts;
//! one that a crash cut off is passed over.

use std::collections::HashMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::error::MigrateError;
use crate::plan::Action;

/// The file in the root of all profiles.
const FILE: &str = "migrated.jsonl";
const VERSION: u32 = 1;

/// Whether a step was carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Progress {
    Begun,
    Done,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct LedgerLine {
    v: u32,
    item: String,
    state: Progress,
    /// The fingerprint of what was written here; none for secrets and for what is known by its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wrote: Option<String>,
}

/// What the record says of a thing.
#[derive(Debug, Clone, Default)]
struct LedgerEntry {
    /// Whether it was taken over.
    is_done: bool,
    /// The fingerprint of what was written last.
    wrote: Option<String>,
    /// The fingerprint of what was about to be written last: a crash may have come before or after.
    begun: Option<String>,
}

impl LedgerEntry {
    fn add(&mut self, line: LedgerLine) {
        match line.state {
            Progress::Begun => self.begun = line.wrote,
            Progress::Done => {
                self.is_done = true;
                self.wrote = line.wrote;
            }
        }
    }

    /// Reports whether something here is what was written, and no person has changed it.
    fn wrote(&self, here: &str) -> bool {
        [&self.wrote, &self.begun].into_iter().flatten().any(|own| own == here)
    }

    fn has_written(&self) -> bool {
        self.begun.is_some() || self.wrote.is_some()
    }
}

/// The record, as it was when it was opened.
#[derive(Debug)]
pub(crate) struct Ledger {
    entries: HashMap<String, LedgerEntry>,
    file: Option<(PathBuf, File)>,
}

impl Ledger {
    /// Reads the record of a root without changing anything.
    pub(crate) fn read(root: &Path) -> Result<Self, MigrateError> {
        let path = root.join(FILE);
        match File::open(&path) {
            Ok(mut file) => Ok(Self { entries: parse(&mut file, &path)?.0, file: None }),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Ok(Self { entries: HashMap::new(), file: None })
            }
            Err(source) => Err(MigrateError::Record { path, source }),
        }
    }

    /// Opens the record to write to it; nobody else does meanwhile.
    pub(crate) fn open(root: &Path) -> Result<Self, MigrateError> {
        let path = root.join(FILE);
        let failed = |source| MigrateError::Record { path: path.clone(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(root).map_err(failed)?;
        let mut options = OpenOptions::new();
        let options = options.read(true).append(true).create(true).mode(0o600);
        let mut file = options.open(&path).map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(MigrateError::Busy),
            Err(error) => return Err(failed(error.into())),
        }
        let (entries, whole) = parse(&mut file, &path)?;
        if !whole {
            file.write_all(b"\n").map_err(failed)?;
        }
        Ok(Self { entries, file: Some((path, file)) })
    }

    /// Records that something is about to be written.
    pub(crate) fn begin(&mut self, item: &str, wrote: Option<&str>) -> Result<(), MigrateError> {
        self.append(item, Progress::Begun, wrote)
    }

    /// Records that it was written.
    pub(crate) fn done(&mut self, item: &str, wrote: Option<&str>) -> Result<(), MigrateError> {
        self.append(item, Progress::Done, wrote)
    }

    fn append(
        &mut self,
        item: &str,
        state: Progress,
        wrote: Option<&str>,
    ) -> Result<(), MigrateError> {
        let wrote = wrote.map(str::to_owned);
        let line = LedgerLine { v: VERSION, item: item.to_owned(), state, wrote };
        if let Some((path, file)) = &mut self.file {
            let text = serde_json::to_string(&line).map_err(io::Error::from);
            let written = text.and_then(|text| file.write_all((text + "\n").as_bytes()));
            written.map_err(|source| MigrateError::Record { path: path.clone(), source })?;
        }
        self.entries.entry(item.to_owned()).or_default().add(line);
        Ok(())
    }

    /// Makes the record last through a loss of power.
    pub(crate) fn sync(&self) -> Result<(), MigrateError> {
        let Some((path, file)) = &self.file else { return Ok(()) };
        file.sync_data().map_err(|source| MigrateError::Record { path: path.clone(), source })
    }

    /// Reports whether something was taken over before.
    pub(crate) fn has(&self, item: &str) -> bool {
        self.entries.get(item).is_some_and(|entry| entry.is_done)
    }

    /// Says what is to be done about something whose content here and there is known by its fingerprint;
    /// `here` is none where there is nothing.
    pub(crate) fn decide(
        &self,
        item: &str,
        here: Option<&str>,
        there: &str,
    ) -> (Action, &'static str) {
        let entry = self.entries.get(item);
        match here {
            None if self.has(item) => (Action::Leave, REMOVED),
            None => (Action::Take, ""),
            Some(here) if here == there => (Action::Present, ""),
            Some(here) if entry.is_some_and(|entry| entry.wrote(here)) => {
                (Action::Update, "changed there since")
            }
            Some(_) if entry.is_some_and(LedgerEntry::has_written) => {
                (Action::Keep, "changed here since")
            }
            Some(_) => (Action::Keep, "something else is here"),
        }
    }
}

/// Why something that was taken over before does not come again.
pub(crate) const REMOVED: &str = "was taken over before, and removed here since";

/// Returns the lines, and whether the last one is whole.
fn parse(
    file: &mut File,
    path: &Path,
) -> Result<(HashMap<String, LedgerEntry>, bool), MigrateError> {
    let failed = |source| MigrateError::Record { path: path.to_owned(), source };
    file.seek(SeekFrom::Start(0)).map_err(failed)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(failed)?;
    let mut entries: HashMap<String, LedgerEntry> = HashMap::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        let Ok(line) = serde_json::from_slice::<LedgerLine>(line) else { continue };
        if line.v > VERSION {
            return Err(MigrateError::Newer { path: path.to_owned() });
        }
        entries.entry(line.item.clone()).or_default().add(line);
    }
    Ok((entries, bytes.last().is_none_or(|last| *last == b'\n')))
}

/// Returns the fingerprint of something.
pub(crate) fn fingerprint(bytes: impl AsRef<[u8]>) -> String {
    let digest = Sha256::digest(bytes.as_ref());
    digest.iter().fold(String::with_capacity(64), |mut text, byte| {
        use std::fmt::Write as _;
        // Writing to a text never fails.
        write!(text, "{byte:02x}").ok();
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_a_crash_cut_off_harms_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::open(dir.path()).unwrap();
        ledger.begin("a", Some("1")).unwrap();
        ledger.done("a", Some("1")).unwrap();
        drop(ledger);
        let path = dir.path().join(FILE);
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"v\":1,\"it").unwrap();
        let mut ledger = Ledger::open(dir.path()).unwrap();
        assert!(ledger.has("a"));
        ledger.done("b", None).unwrap();
        drop(ledger);
        let ledger = Ledger::read(dir.path()).unwrap();
        assert!(ledger.has("a") && ledger.has("b"));
    }

    #[test]
    fn what_a_person_changed_or_removed_here_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::open(dir.path()).unwrap();
        ledger.done("soul", Some("one")).unwrap();
        assert_eq!(ledger.decide("soul", Some("one"), "two").0, Action::Update);
        assert_eq!(ledger.decide("soul", Some("own"), "two").0, Action::Keep);
        assert_eq!(ledger.decide("soul", None, "two"), (Action::Leave, REMOVED));
        assert_eq!(ledger.decide("soul", Some("two"), "two").0, Action::Present);
        assert_eq!(ledger.decide("new", None, "two").0, Action::Take);
        assert_eq!(ledger.decide("new", Some("own"), "two").0, Action::Keep);
    }

    #[test]
    fn an_update_that_a_crash_prevented_is_made_the_next_time() {
        let dir = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::open(dir.path()).unwrap();
        ledger.done("soul", Some("one")).unwrap();
        ledger.begin("soul", Some("two")).unwrap();
        drop(ledger);
        let ledger = Ledger::read(dir.path()).unwrap();
        assert_eq!(ledger.decide("soul", Some("one"), "two").0, Action::Update);
        assert_eq!(ledger.decide("soul", Some("two"), "two").0, Action::Present);
        assert_eq!(ledger.decide("soul", Some("own"), "two").0, Action::Keep);
    }

    #[test]
    fn two_processes_never_migrate_into_one_home_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let _held = Ledger::open(dir.path()).unwrap();
        assert!(matches!(Ledger::open(dir.path()), Err(MigrateError::Busy)));
    }
}
