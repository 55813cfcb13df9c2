//! The directory of a sandbox and what is in it.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::intent::{self, Intent, IntentFile};
use super::record::{self, Record};
use super::{StoreError, read_versioned, write_versioned};
use crate::key::random_hex;

/// Directories being deleted carry this prefix, which no sandbox's can.
const TRASH: &str = ".trash-";

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

    /// Makes the directory, private to the user.
    pub(crate) fn make(&self) -> Result<(), StoreError> {
        make_private_dir(&self.path)
    }

    pub(crate) fn read_record(&self) -> Result<Option<Record>, StoreError> {
        read_versioned(&self.record_file(), record::VERSION)
    }

    pub(crate) fn write_record(&self, record: &Record) -> Result<(), StoreError> {
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

    /// Deletes temporary files that a crash between write and rename left.
    /// Only for the holder of the lock: nobody else writes here.
    pub(crate) fn sweep_temporaries(&self) {
        let Ok(entries) = fs::read_dir(&self.path) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let leftover = Path::new(&name).extension().is_some_and(|ext| ext == "tmp");
            if leftover && entry.file_type().is_ok_and(|kind| kind.is_file()) {
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

/// Makes a directory and its parents with mode 0700.
pub(crate) fn make_private_dir(path: &Path) -> Result<(), StoreError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| StoreError::io("make the directory", path, error))
}

/// Removes a tree without following symbolic links; absent is fine.
pub(crate) fn remove_tree(path: &Path) -> Result<(), StoreError> {
    match fs::remove_dir_all(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        // Somebody else's empty directory can go without being looked into.
        Err(_) if fs::remove_dir(path).is_ok() => Ok(()),
        Err(error) => Err(StoreError::io("remove", path, error)),
    }
}

/// Removes a file; absent is fine.
pub(super) fn remove_file_if_there(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(StoreError::io("remove", path, error)),
    }
}
