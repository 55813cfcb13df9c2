//! Instances that were forgotten because their machine is gone: should it come back, none of
//! them is a sandbox of anybody any more.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{StoreError, make_private_dir, write_versioned};

const VERSION: u64 = 1;

/// What is kept of an instance that was forgotten.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ForgottenInstance {
    version: u64,
    /// The sandbox's task.
    pub(crate) task: String,
    /// Hash of its key.
    pub(crate) key: String,
    /// The backend of the instance.
    pub(crate) backend: String,
    /// Where it was.
    pub(crate) locator: serde_json::Value,
    /// When it was forgotten.
    pub(crate) at: Timestamp,
}

impl ForgottenInstance {
    pub(crate) fn new(
        task: &str,
        key: &str,
        backend: &str,
        locator: serde_json::Value,
        at: Timestamp,
    ) -> Self {
        Self {
            version: VERSION,
            task: task.to_owned(),
            key: key.to_owned(),
            backend: backend.to_owned(),
            locator,
            at,
        }
    }
}

/// The directory with one file for each of them.
#[derive(Debug, Clone)]
pub(crate) struct ForgottenInstances {
    dir: PathBuf,
}

impl ForgottenInstances {
    /// Returns those of a profile home.
    pub(crate) fn of_home(home: &Path) -> Self {
        Self { dir: home.join("forgotten") }
    }

    fn path(&self, id: &str) -> PathBuf {
        self.dir.join(format!("{id}.json"))
    }

    /// Adds one.
    pub(crate) fn add(&self, id: &str, forgotten: &ForgottenInstance) -> Result<(), StoreError> {
        make_private_dir(&self.dir)?;
        write_versioned(&self.path(id), forgotten)
    }

    /// Returns the ids of all.
    pub(crate) fn ids(&self) -> Result<BTreeSet<String>, StoreError> {
        let entries = match std::fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(BTreeSet::new());
            }
            Err(error) => return Err(StoreError::io("read", &self.dir, error)),
        };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        // What cannot be read is forgotten all the same: its name says which one it is.
        Ok(names.filter_map(|name| Some(name.strip_suffix(".json")?.to_owned())).collect())
    }

    /// Ends this for one that was removed where it is.
    pub(crate) fn remove(&self, id: &str) -> Result<(), StoreError> {
        let path = self.path(id);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(StoreError::io("remove", &path, error))
            }
            _ => Ok(()),
        }
    }
}
