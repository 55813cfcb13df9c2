//! The directory of a sandbox and what is in it.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, flock};

use super::intent::{self, Intent, IntentFile};
use super::record::{self, SandboxRecord};
use super::{StoreError, read_versioned, remove_tree, write_versioned};
use crate::key::random_hex;

/// Directories being deleted carry this prefix, which no sandbox's can.
const TRASH: &str = ".trash-";

/// Directories in which a process tries whether sandboxes can be made. It locks
/// its own as long as it lives.
pub(crate) const TRIAL: &str = ".trial-";

/// The age from which a directory of a trial that nobody has locked was left by
/// one that died: it is made and locked in two steps.
const LOCKED_WITHIN: Duration = Duration::from_mins(1);

/// The directory of one sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SandboxDir {
    path: PathBuf,
}

impl SandboxDir {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn exists(&self) -> bool {
        self.path.is_dir()
    }

    pub(crate) fn lock_file(&self) -> PathBuf {
        self.path.join("lock")
    }

    /// Returns the directory of the sandbox's own work.
    pub(crate) fn workspace(&self) -> PathBuf {
        self.path.join("workspace")
    }

    /// Makes the directory, private to the user.
    pub(crate) fn make(&self) -> Result<(), StoreError> {
        make_private_dir(&self.path)
    }

    pub(crate) fn read_record(&self) -> Result<Option<SandboxRecord>, StoreError> {
        read_versioned(&self.record_file(), record::VERSION)
    }

    pub(crate) fn write_record(&self, record: &SandboxRecord) -> Result<(), StoreError> {
        write_versioned(&self.record_file(), record)
    }

    pub(crate) fn read_intent(&self) -> Result<Option<Intent>, StoreError> {
        let file = read_versioned::<IntentFile>(&self.intent_file(), intent::VERSION)?;
        Ok(file.map(|file| file.intent))
    }

    /// Returns whether somebody is changing the sandbox, or died over it.
    pub(crate) fn has_intent(&self) -> bool {
        self.intent_file().exists()
    }

    pub(crate) fn write_intent(&self, intent: Intent) -> Result<(), StoreError> {
        let version = intent.version();
        write_versioned(&self.intent_file(), &IntentFile { version, intent })
    }

    /// Notes an intent that makes room, or lets room be made. On a full disk there
    /// is none: a process that dies over it then leaves the sandbox between two
    /// steps, and the same call finishes it.
    pub(crate) fn write_intent_if_room(&self, intent: Intent) -> Result<(), StoreError> {
        match self.write_intent(intent) {
            Err(error) if error.is_full() => {
                tracing::warn!(%error, "going on without a note of it");
                Ok(())
            }
            other => other,
        }
    }

    pub(crate) fn clear_intent(&self) -> Result<(), StoreError> {
        remove_file_if_there(&self.intent_file())
    }

    /// Returns the directory of an instance's own files on the host.
    pub(crate) fn instance_dir(&self, instance: &str) -> PathBuf {
        self.path.join("instances").join(instance)
    }

    /// Returns the ids of all instances that have a directory, recorded or not.
    pub(crate) fn instance_ids(&self) -> Result<Vec<String>, StoreError> {
        let path = self.path.join("instances");
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(StoreError::io("list", path, error)),
        };
        let mut ids: Vec<String> =
            entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        ids.sort();
        Ok(ids)
    }

    /// Removes the whole directory. It is moved aside first, so that a crash
    /// leaves either the sandbox or rubbish, never half a sandbox.
    pub(crate) fn remove(&self) -> Result<(), StoreError> {
        match self.move_aside()? {
            Some(aside) => remove_tree(&aside),
            None => Ok(()),
        }
    }

    /// Moves the whole directory to where only rubbish is, and returns where
    /// that is.
    pub(crate) fn move_aside(&self) -> Result<Option<PathBuf>, StoreError> {
        let io = |error| StoreError::io("remove", &self.path, error);
        let parent = self.path.parent().unwrap_or(Path::new("/"));
        let aside = parent.join(format!("{TRASH}{}", random_hex::<6>().map_err(io)?));
        match fs::rename(&self.path, &aside) {
            Ok(()) => Ok(Some(aside)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io(error)),
        }
    }

    /// Moves this directory to where only rubbish is, beside a sandbox.
    pub(crate) fn discard_beside(&self, sandbox: &Self) -> Result<(), StoreError> {
        let io = |error| StoreError::io("remove", &self.path, error);
        let parent = sandbox.path.parent().unwrap_or(Path::new("/"));
        let aside = parent.join(format!("{TRASH}{}", random_hex::<6>().map_err(io)?));
        match fs::rename(&self.path, aside) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(io(error)),
            _ => Ok(()),
        }
    }

    /// Returns whether a crash between write and rename has left a file.
    pub(crate) fn has_temporaries(&self) -> bool {
        fs::read_dir(&self.path).into_iter().flatten().flatten().any(|entry| is_temporary(&entry))
    }

    /// Deletes temporary files that a crash between write and rename left.
    /// Only for the holder of the lock: nobody else writes here.
    pub(crate) fn sweep_temporaries(&self) {
        let Ok(entries) = fs::read_dir(&self.path) else {
            return;
        };
        for entry in entries.flatten() {
            if is_temporary(&entry) {
                // Rubbish that cannot be deleted now is met again next time.
                fs::remove_file(entry.path()).ok();
            }
        }
    }

    fn record_file(&self) -> PathBuf {
        self.path.join("sandbox.json")
    }

    fn intent_file(&self) -> PathBuf {
        self.path.join("intent.json")
    }
}

fn is_temporary(entry: &fs::DirEntry) -> bool {
    Path::new(&entry.file_name()).extension().is_some_and(|ext| ext == "tmp")
        && entry.file_type().is_ok_and(|kind| kind.is_file())
}

/// Returns the directories of all sandboxes below `root`, in the order of their
/// names, and deletes what interrupted removals left.
pub(crate) fn list_dirs(root: &Path) -> Result<Vec<SandboxDir>, StoreError> {
    let entries = match fs::read_dir(root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(StoreError::io("list", root, error)),
    };
    let mut dirs = Vec::new();
    for entry in entries.flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(TRASH) {
            remove_tree(&entry.path()).ok();
        } else if !name.starts_with('.') {
            dirs.push(SandboxDir::new(entry.path()));
        }
    }
    dirs.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(dirs)
}

/// Returns what processes that died have left beside the sandboxes: half-removed
/// ones, and places where it was tried whether there can be any.
pub(crate) fn list_rubbish(root: &Path) -> Vec<PathBuf> {
    let is_rubbish = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.starts_with(TRASH) || (name.starts_with(TRIAL) && is_abandoned(&entry.path()))
    };
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.filter(is_rubbish).map(|entry| entry.path()).collect();
    found.sort();
    found
}

fn is_abandoned(trial: &Path) -> bool {
    let Ok(dir) = fs::File::open(trial) else { return false };
    let made = dir.metadata().and_then(|metadata| metadata.modified());
    let age = made.ok().and_then(|made| SystemTime::now().duration_since(made).ok());
    age.is_some_and(|age| age > LOCKED_WITHIN)
        && flock(&dir, FlockOperation::NonBlockingLockExclusive).is_ok()
}

/// Makes a directory and its parents with mode 0700.
pub(crate) fn make_private_dir(path: &Path) -> Result<(), StoreError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| StoreError::io("make the directory", path, error))
}

/// Removes a file; absent is fine.
pub(super) fn remove_file_if_there(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(StoreError::io("remove", path, error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_uses_any_more_is_rubbish() {
        let root = tempfile::tempdir().unwrap();
        let then = SystemTime::now() - LOCKED_WITHIN * 2;
        let make = |name: &str| {
            let path = root.path().join(name);
            fs::create_dir(&path).unwrap();
            let dir = fs::File::open(&path).unwrap();
            dir.set_modified(then).unwrap();
            dir
        };
        let (_left, used, new) = (make(".trial-left"), make(".trial-used"), make(".trial-new"));
        make(".trash-1");
        make("default");
        flock(&used, FlockOperation::NonBlockingLockExclusive).unwrap();
        new.set_modified(SystemTime::now()).unwrap();
        let names = [".trash-1", ".trial-left"].map(|name| root.path().join(name));
        assert_eq!(list_rubbish(root.path()), names);
    }
}
