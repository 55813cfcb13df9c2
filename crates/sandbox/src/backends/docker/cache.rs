//! What was found out about engines and images and does not change.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::key::hex;
use crate::store::{make_private_dir, read_versioned, write_versioned};

const VERSION: u64 = 1;

/// A directory of small files, each about one thing. It is only a cache: what
/// cannot be read is found out again, what cannot be written too.
#[derive(Debug, Clone)]
pub(super) struct Cache {
    dir: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Entry<T> {
    version: u64,
    about: Vec<String>,
    known: T,
}

impl Cache {
    pub(super) fn new(run_dir: &Path) -> Self {
        Self { dir: run_dir.join("docker") }
    }

    /// Returns what is known about a thing.
    pub(super) fn get<T: for<'de> Deserialize<'de>>(&self, about: &[&str]) -> Option<T> {
        let entry: Entry<T> = read_versioned(&self.path(about), VERSION).ok()??;
        (entry.about == about).then_some(entry.known)
    }

    /// Remembers what is known about a thing.
    pub(super) fn put<T: Serialize>(&self, about: &[&str], known: &T) {
        let entry = Entry {
            version: VERSION,
            about: about.iter().map(|part| (*part).to_owned()).collect(),
            known,
        };
        let written =
            make_private_dir(&self.dir).and_then(|()| write_versioned(&self.path(about), &entry));
        if let Err(error) = written {
            tracing::debug!(%error, "not remembered");
        }
    }

    fn path(&self, about: &[&str]) -> PathBuf {
        let mut hasher = Sha256::new();
        for part in about {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        self.dir.join(format!("{}.json", hex(&hasher.finalize()[..12])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_there_and_damage_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(dir.path());
        assert_eq!(cache.get::<bool>(&["a", "b"]), None);
        cache.put(&["a", "b"], &true);
        assert_eq!(cache.get::<bool>(&["a", "b"]), Some(true));
        assert_eq!(cache.get::<bool>(&["ab", ""]), None);
        let file = std::fs::read_dir(dir.path().join("docker")).unwrap().next().unwrap().unwrap();
        std::fs::write(file.path(), "{").unwrap();
        assert_eq!(cache.get::<bool>(&["a", "b"]), None);
    }
}
