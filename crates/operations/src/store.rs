//! The records of a profile: `run/operations/<id>.json` of its home, one writer each.

use std::collections::HashMap;
use std::fs;
use std::fs::OpenOptions;
use std::io;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use vestal_config::Home;

use crate::record::{Operation, OperationId, OperationState, VERSION};

/// Largest record that is read; beyond it something is wrong.
const MAX_FILE: u64 = 256 << 10;

/// Records of ended actions that are kept, and for how long.
const MAX_ENDED: usize = 100;
const KEPT_FOR: Duration = Duration::from_hours(7 * 24);

/// The fewest characters of an id that are taken for it.
const MIN_PART: usize = 4;

/// Why a record cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum OperationError {
    /// There is none of this id, or not any more.
    #[error("there is no operation {id}; those that ended are forgotten after a week")]
    NotFound {
        /// The id.
        id: OperationId,
    },
    /// A newer program has written it.
    #[error(
        "{} has version {found}, and this program knows {VERSION}; use the newer program",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u64,
    },
    /// Several have ids like this.
    #[error("{part:?} is part of the ids of {count} operations; give more of it")]
    Ambiguous {
        /// What was given.
        part: String,
        /// How many.
        count: usize,
    },
    /// None has an id like this.
    #[error("no operation has an id that begins or ends with {part:?}")]
    NoMatch {
        /// What was given.
        part: String,
    },
    /// It is no record.
    #[error("{} is damaged: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The system refused.
    #[error("cannot use {}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The records of a profile.
#[derive(Debug, Clone)]
pub struct OperationStore {
    dir: PathBuf,
}

/// The records of a profile for a process that looks again and again: one that has ended does not
/// change any more, and is read once.
#[derive(Debug)]
pub struct WatchedOperations {
    store: OperationStore,
    ended: Mutex<HashMap<OperationId, Operation>>,
}

impl WatchedOperations {
    /// Returns the records of a profile's home.
    pub fn of(home: &Home) -> Self {
        Self { store: OperationStore::of(home), ended: Mutex::default() }
    }

    /// Returns all records that can be read, the newest first.
    pub fn list(&self) -> Result<Vec<Operation>, OperationError> {
        let ids = self.store.ids()?;
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.retain(|id, _| ids.contains(id));
        let mut found = Vec::with_capacity(ids.len());
        for id in ids {
            if let Some(known) = ended.get(&id) {
                found.push(known.clone());
                continue;
            }
            let Some(operation) = self.store.listed(&id) else { continue };
            if operation.end.is_some() {
                ended.insert(id, operation.clone());
            }
            found.push(operation);
        }
        Ok(found)
    }
}

/// How safe a write has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordDurability {
    /// It survives a power cut.
    Synced,
    /// A later one follows soon.
    Passing,
}

impl OperationStore {
    /// Returns the records of a profile's home.
    pub fn of(home: &Home) -> Self {
        Self { dir: home.run_dir().join("operations") }
    }

    /// Returns the directory of the records.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns all records that can be read, the newest first.
    pub fn list(&self) -> Result<Vec<Operation>, OperationError> {
        Ok(self.ids()?.iter().filter_map(|id| self.listed(id)).collect())
    }

    /// Returns a record for a list, in which one that cannot be read is left out.
    fn listed(&self, id: &OperationId) -> Option<Operation> {
        match self.find(id) {
            Ok(operation) => Some(operation),
            // Forgotten meanwhile.
            Err(OperationError::NotFound { .. }) => None,
            Err(error) => {
                tracing::warn!(%error, "an operation cannot be listed");
                None
            }
        }
    }

    /// Returns the record of an id.
    pub fn find(&self, id: &OperationId) -> Result<Operation, OperationError> {
        #[derive(Deserialize)]
        struct Envelope {
            version: u64,
        }
        let path = self.path(id);
        let mut bytes = Vec::new();
        let read =
            fs::File::open(&path).and_then(|file| file.take(MAX_FILE).read_to_end(&mut bytes));
        match read {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(OperationError::NotFound { id: id.clone() });
            }
            Err(source) => return Err(OperationError::Io { path, source }),
        }
        let damaged = |error: serde_json::Error| OperationError::Damaged {
            path: path.clone(),
            reason: error.to_string(),
        };
        let Envelope { version } = serde_json::from_slice(&bytes).map_err(damaged)?;
        if version > VERSION {
            return Err(OperationError::Newer { path, found: version });
        }
        serde_json::from_slice(&bytes).map_err(damaged)
    }

    /// Returns the record whose id is, begins with or ends with a text. Ids that were made one after
    /// the other begin alike, so people copy the end.
    pub fn find_part(&self, part: &str) -> Result<Operation, OperationError> {
        if let Ok(id) = part.parse() {
            return self.find(&id);
        }
        let is_meant = |id: &&OperationId| {
            let id = id.as_str();
            id.starts_with(part) || id["o-".len()..].starts_with(part) || id.ends_with(part)
        };
        let ids = self.ids()?;
        let found: Vec<&OperationId> = ids.iter().filter(is_meant).collect();
        match found.as_slice() {
            [id] if part.len() >= MIN_PART => self.find(id),
            [] => Err(OperationError::NoMatch { part: part.to_owned() }),
            _ => Err(OperationError::Ambiguous { part: part.to_owned(), count: found.len() }),
        }
    }

    /// Returns the records of actions that a process is at, the newest first.
    pub fn running(&self) -> Result<Vec<Operation>, OperationError> {
        let mut all = self.list()?;
        all.retain(|operation| operation.state() == OperationState::Running);
        Ok(all)
    }

    /// Writes a record.
    pub(crate) fn write(
        &self,
        operation: &Operation,
        durability: RecordDurability,
    ) -> Result<(), OperationError> {
        let path = self.path(&operation.id);
        let write = || -> io::Result<()> {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
            let next = path.with_extension("tmp");
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&next)?;
            file.write_all(&serde_json::to_vec(operation)?)?;
            if durability == RecordDurability::Synced {
                file.sync_data()?;
            }
            fs::rename(&next, &path)
        };
        write().map_err(|source| OperationError::Io { path: path.clone(), source })
    }

    /// Removes records of actions that ended long ago, and of more than are kept.
    pub(crate) fn forget_old(&self, now: Timestamp) {
        let Ok(all) = self.list() else { return };
        let is_over = |operation: &&Operation| operation.state() != OperationState::Running;
        let is_old = |operation: &Operation| {
            let age = Duration::try_from(now.duration_since(operation.started_at));
            age.is_ok_and(|age| age > KEPT_FOR)
        };
        let mut kept = 0;
        for operation in all.iter().filter(is_over) {
            if is_old(operation) || kept == MAX_ENDED {
                self.remove(&operation.id);
            } else {
                kept += 1;
            }
        }
    }

    /// Forgets an action that has ended.
    pub fn forget(&self, id: &OperationId) -> Result<(), OperationError> {
        if self.find(id)?.state() != OperationState::Running {
            self.remove(id);
        }
        Ok(())
    }

    fn remove(&self, id: &OperationId) {
        if let Err(error) = fs::remove_file(self.path(id))
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, %id, "an old operation was not forgotten");
        }
    }

    fn ids(&self) -> Result<Vec<OperationId>, OperationError> {
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(OperationError::Io { path: self.dir.clone(), source }),
        };
        let id = |entry: fs::DirEntry| {
            entry.file_name().to_str()?.strip_suffix(".json")?.parse::<OperationId>().ok()
        };
        let mut ids: Vec<OperationId> = entries.filter_map(Result::ok).filter_map(id).collect();
        ids.sort_by(|a, b| b.cmp(a));
        Ok(ids)
    }

    fn path(&self, id: &OperationId) -> PathBuf {
        self.dir.join(format!("{id}.json"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::Action;
    use crate::record::{OperationEnd, Outcome};

    fn store() -> (tempfile::TempDir, OperationStore) {
        let dir = tempfile::tempdir().unwrap();
        let store = OperationStore::of(&Home::at(dir.path()));
        (dir, store)
    }

    fn ended(mut operation: Operation, at: Timestamp) -> Operation {
        let words = "done".to_owned();
        operation.started_at = at;
        operation.end = Some(OperationEnd { at, outcome: Outcome::Done, words, remarks: vec![] });
        operation
    }

    #[test]
    fn a_record_is_read_as_it_was_written_and_says_what_runs() {
        let (_dir, store) = store();
        assert_eq!(store.list().unwrap(), []);
        let operation = Operation::begun("web".to_owned(), &Action::Stop, "test").unwrap();
        store.write(&operation, RecordDurability::Synced).unwrap();
        let found = store.find(&operation.id).unwrap();
        assert_eq!(found, operation);
        assert_eq!(found.state(), OperationState::Running, "this process is at it");
        let done = ended(found, Timestamp::now());
        store.write(&done, RecordDurability::Passing).unwrap();
        assert_eq!(store.list().unwrap(), [done]);
    }

    #[test]
    fn a_record_whose_process_died_says_so() {
        let (_dir, store) = store();
        let mut operation = Operation::begun("web".to_owned(), &Action::Stop, "test").unwrap();
        // The same number, of a process that started at another time.
        operation.process.start += 1;
        store.write(&operation, RecordDurability::Passing).unwrap();
        assert_eq!(store.find(&operation.id).unwrap().state(), OperationState::Interrupted);
    }

    #[test]
    fn a_record_of_a_newer_program_and_a_damaged_one_are_left_alone() {
        let (_dir, store) = store();
        let operation = Operation::begun("web".to_owned(), &Action::Stop, "test").unwrap();
        store.write(&operation, RecordDurability::Passing).unwrap();
        let path = store.path(&operation.id);
        fs::write(&path, r#"{"version":9}"#).unwrap();
        let newer = store.find(&operation.id).unwrap_err();
        assert!(matches!(newer, OperationError::Newer { found: 9, .. }), "{newer}");
        fs::write(&path, "{").unwrap();
        let damaged = store.find(&operation.id).unwrap_err();
        assert!(matches!(damaged, OperationError::Damaged { .. }), "{damaged}");
        assert_eq!(store.list().unwrap(), []);
        store.forget_old(Timestamp::now());
        assert!(path.exists());
    }

    #[test]
    fn what_ended_is_forgotten_in_time_and_what_runs_is_not() {
        let (_dir, store) = store();
        let now = Timestamp::now();
        let old = now - KEPT_FOR - Duration::from_secs(1);
        let begun = || Operation::begun("web".to_owned(), &Action::Stop, "test").unwrap();
        let mut running = begun();
        running.started_at = old;
        store.write(&running, RecordDurability::Passing).unwrap();
        store.write(&ended(begun(), old), RecordDurability::Passing).unwrap();
        for _ in 0..=MAX_ENDED {
            store.write(&ended(begun(), now), RecordDurability::Passing).unwrap();
        }
        store.forget_old(now);
        let left = store.list().unwrap();
        assert_eq!(left.len(), MAX_ENDED + 1);
        assert!(left.contains(&running));
    }

    #[test]
    fn what_has_ended_is_read_once_and_what_runs_each_time() {
        let (dir, store) = store();
        let watched = WatchedOperations::of(&Home::at(dir.path()));
        assert_eq!(watched.list().unwrap(), []);
        let mut running = Operation::begun("web".to_owned(), &Action::Stop, "test").unwrap();
        let begun = Operation::begun("web".to_owned(), &Action::Start, "test").unwrap();
        let over = ended(begun, Timestamp::now());
        for operation in [&running, &over] {
            store.write(operation, RecordDurability::Passing).unwrap();
        }
        assert_eq!(watched.list().unwrap(), store.list().unwrap());
        running.set_step(crate::record::Step::named("copying".to_owned()));
        store.write(&running, RecordDurability::Passing).unwrap();
        // Nobody writes a record that has ended. It shows that it is not read.
        fs::write(store.path(&over.id), "damaged").unwrap();
        let mut listed = watched.list().unwrap();
        let mut expected = vec![running, over.clone()];
        for all in [&mut listed, &mut expected] {
            all.sort_by(|a, b| a.id.cmp(&b.id));
        }
        assert_eq!(listed, expected);
        fs::remove_file(store.path(&over.id)).unwrap();
        assert!(!watched.list().unwrap().contains(&over), "it was forgotten");
    }

    #[test]
    fn an_id_is_a_name_of_a_file_and_nothing_else() {
        let id = OperationId::new().unwrap();
        assert_eq!(id.as_str().parse(), Ok(id.clone()));
        for bad in
            ["", "o-", "../../etc/passwd", "o-0123456789abcdef012G", "o-0123456789ABCDEF0123"]
        {
            assert!(bad.parse::<OperationId>().is_err(), "{bad}");
        }
    }
    #[test]
    fn a_part_of_an_id_is_enough_where_it_is_of_one_alone() {
        let (_dir, store) = store();
        let begun = || Operation::begun("web".to_owned(), &Action::Stop, "test").unwrap();
        let (one, other) = (begun(), begun());
        store.write(&one, RecordDurability::Passing).unwrap();
        store.write(&other, RecordDurability::Passing).unwrap();
        let id = one.id.as_str();
        assert_eq!(store.find_part(id).unwrap(), one);
        assert_eq!(store.find_part(&id[id.len() - 8..]).unwrap(), one);
        // They were made at the same time.
        let both = store.find_part(&id[..6]).unwrap_err();
        assert!(matches!(both, OperationError::Ambiguous { count: 2, .. }), "{both}");
        let none = store.find_part("../../../etc/passwd").unwrap_err();
        assert!(matches!(none, OperationError::NoMatch { .. }), "{none}");
        assert_eq!(store.running().unwrap().len(), 2);
    }
}
