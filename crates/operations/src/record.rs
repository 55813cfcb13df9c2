//! Records of actions: `run/operations/<id>.json` of a profile's home, one writer each.

use std::fmt;
use std::fs;
use std::fs::OpenOptions;
use std::io;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vestal_config::Home;
use vestal_process::ProcessId;
use vestal_sandbox::Progress;

use crate::action::{Action, Verb, bytes_in_words};

/// The version of the file.
const VERSION: u64 = 1;

/// Largest record that is read; beyond it something is wrong.
const MAX_FILE: u64 = 256 << 10;

/// Records of ended actions that are kept, and for how long.
const MAX_ENDED: usize = 100;
const KEPT_FOR: Duration = Duration::from_hours(7 * 24);

/// Digits of an id.
const ID_LENGTH: usize = 20;

/// The id of an action: `o-` and hexadecimal digits; ids sort by the time they were made.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OperationId(String);

/// A text that is no id of an action.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no id of an operation: they are `o-` and {ID_LENGTH} hexadecimal digits")]
pub struct InvalidOperationId(String);

impl OperationId {
    fn new() -> io::Result<Self> {
        let mut random = [0; 4];
        getrandom::fill(&mut random)?;
        let millis = u64::try_from(Timestamp::now().as_millisecond()).unwrap_or_default();
        let random = u32::from_ne_bytes(random);
        Ok(Self(format!("o-{:012x}{random:08x}", millis & 0xffff_ffff_ffff)))
    }

    /// Returns it as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for OperationId {
    type Err = InvalidOperationId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        let digits = text.strip_prefix("o-").filter(|digits| digits.len() == ID_LENGTH);
        match digits {
            Some(digits) if digits.chars().all(is_digit) => Ok(Self(text.to_owned())),
            _ => Err(InvalidOperationId(text.chars().take(64).collect())),
        }
    }
}

impl TryFrom<String> for OperationId {
    type Error = InvalidOperationId;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<OperationId> for String {
    fn from(id: OperationId) -> Self {
        id.0
    }
}

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How far an action is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// What is being done, for people.
    pub words: String,
    /// How much of it is done, in bytes, where that is counted.
    #[serde(default)]
    pub done: Option<u64>,
    /// How much there is to do, once that is known.
    #[serde(default)]
    pub total: Option<u64>,
}

impl From<&Progress> for Step {
    fn from(progress: &Progress) -> Self {
        match progress {
            Progress::Pulling { image, layers_done, layers, bytes, total } => Self {
                words: format!("pulling image {image}: {layers_done} of {layers} layers"),
                done: Some(*bytes),
                total: Some(*total).filter(|total| *total > 0),
            },
            Progress::Pulled { image } => Self::named(format!("pulled image {image}")),
            Progress::Copying { what, files, bytes, total } => Self {
                words: format!("copying {what}: {files} files, {}", bytes_in_words(*bytes)),
                done: Some(*bytes),
                total: *total,
            },
            Progress::EndingProcesses { processes, .. } => {
                let word = if *processes == 1 { "process" } else { "processes" };
                Self::named(format!("ending {processes} {word} that commands left behind"))
            }
            Progress::Starting { what } => Self::named(what.clone()),
        }
    }
}

impl Step {
    pub(crate) fn named(words: String) -> Self {
        Self { words, done: None, total: None }
    }
}

/// What became of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It is done.
    Done,
    /// It failed, and nothing was changed that is not said.
    Failed,
    /// It failed because jobs run; it may be tried again with them ended.
    Busy,
    /// It was given up in order, because its process ended; what it had begun is undone.
    GivenUp,
}

/// The end of an action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationEnd {
    /// When.
    pub at: Timestamp,
    /// What became of it.
    pub outcome: Outcome,
    /// The same in a sentence.
    pub words: String,
    /// What else is to be known, a sentence each.
    #[serde(default)]
    pub remarks: Vec<String>,
}

/// An action on record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    version: u64,
    /// Its id.
    pub id: OperationId,
    /// The task of the sandbox.
    pub task: String,
    /// What is done.
    pub verb: Verb,
    /// The same in words.
    pub what: String,
    /// The program that does it, such as `dashboard`.
    pub by: String,
    /// The process that does it.
    process: ProcessId,
    /// When it began.
    pub started_at: Timestamp,
    step: Step,
    /// How it ended, once it has.
    pub end: Option<OperationEnd>,
}

/// Where an action is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationState {
    /// Its process is at it.
    Running,
    /// It has ended, and this became of it.
    Ended(Outcome),
    /// Its process died over it. The next use of the sandbox finishes or undoes it.
    Interrupted,
}

impl Operation {
    pub(crate) fn begun(task: String, action: &Action, by: &str) -> io::Result<Self> {
        Ok(Self {
            version: VERSION,
            id: OperationId::new()?,
            task,
            verb: action.verb(),
            what: action.to_string(),
            by: by.to_owned(),
            process: ProcessId::current()?,
            started_at: Timestamp::now(),
            step: Step::named("waiting for the sandbox".to_owned()),
            end: None,
        })
    }

    /// Returns where it is in its life.
    pub fn state(&self) -> OperationState {
        match &self.end {
            Some(end) => OperationState::Ended(end.outcome),
            None if self.process.is_alive() => OperationState::Running,
            None => OperationState::Interrupted,
        }
    }

    /// Returns how far it is, or was.
    pub fn progress(&self) -> &Step {
        &self.step
    }

    /// Returns what is being done, for people.
    pub fn step(&self) -> &str {
        &self.step.words
    }

    pub(crate) fn set_step(&mut self, step: Step) {
        self.step = step;
    }
}

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

/// How safe a write has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
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
        let mut found = Vec::new();
        for id in self.ids()? {
            match self.find(&id) {
                Ok(operation) => found.push(operation),
                // Forgotten meanwhile.
                Err(OperationError::NotFound { .. }) => {}
                Err(error) => tracing::warn!(%error, "an operation cannot be listed"),
            }
        }
        Ok(found)
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

    /// Writes a record, and forgets old ones with the first.
    pub(crate) fn write(
        &self,
        operation: &Operation,
        durability: Durability,
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
            if durability == Durability::Synced {
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
        store.write(&operation, Durability::Synced).unwrap();
        let found = store.find(&operation.id).unwrap();
        assert_eq!(found, operation);
        assert_eq!(found.state(), OperationState::Running, "this process is at it");
        let done = ended(found, Timestamp::now());
        store.write(&done, Durability::Passing).unwrap();
        assert_eq!(store.list().unwrap(), [done]);
    }

    #[test]
    fn a_record_whose_process_died_says_so() {
        let (_dir, store) = store();
        let mut operation = Operation::begun("web".to_owned(), &Action::Stop, "test").unwrap();
        // The same number, of a process that started at another time.
        operation.process.start += 1;
        store.write(&operation, Durability::Passing).unwrap();
        assert_eq!(store.find(&operation.id).unwrap().state(), OperationState::Interrupted);
    }

    #[test]
    fn a_record_of_a_newer_program_and_a_damaged_one_are_left_alone() {
        let (_dir, store) = store();
        let operation = Operation::begun("web".to_owned(), &Action::Stop, "test").unwrap();
        store.write(&operation, Durability::Passing).unwrap();
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
        store.write(&running, Durability::Passing).unwrap();
        store.write(&ended(begun(), old), Durability::Passing).unwrap();
        for _ in 0..=MAX_ENDED {
            store.write(&ended(begun(), now), Durability::Passing).unwrap();
        }
        store.forget_old(now);
        let left = store.list().unwrap();
        assert_eq!(left.len(), MAX_ENDED + 1);
        assert!(left.contains(&running));
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
}
