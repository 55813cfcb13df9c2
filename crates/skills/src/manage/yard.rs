//! The folder of skills, in the hands of one process at a time.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::error::SkillError;

/// What is on its way in or out begins like this. Names of skills do not, and
/// nobody looks at what is hidden.
const TEMPORARY: [&str; 3] = [".new-", ".old-", ".file-"];

/// The folder of skills, locked.
#[derive(Debug)]
pub(crate) struct Yard {
    root: PathBuf,
    /// Held until this is dropped; the kernel lets go of it when the process dies.
    _lock: File,
}

impl Yard {
    /// Makes the folder if need be, waits until nobody else changes it, and
    /// removes what a process left that died over it.
    pub(crate) fn enter(root: &Path) -> Result<Self, SkillError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(root);
        made.map_err(SkillError::io("make", root))?;
        let path = root.join(".lock");
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .and_then(|file| file.lock().map(|()| file))
            .map_err(SkillError::io("lock", &path))?;
        let yard = Self { root: root.to_owned(), _lock: lock };
        yard.sweep();
        Ok(yard)
    }

    fn sweep(&self) {
        for entry in fs::read_dir(&self.root).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let is_rubbish =
                name.to_str().is_some_and(|name| TEMPORARY.iter().any(|own| name.starts_with(own)));
            if is_rubbish {
                let path = entry.path();
                // What cannot be removed now is met again next time.
                if fs::remove_dir_all(&path).is_err() {
                    fs::remove_file(&path).ok();
                }
            }
        }
    }

    /// Returns a path that nobody else uses.
    pub(crate) fn temporary(&self, what: &str) -> Result<PathBuf, SkillError> {
        let random = getrandom::u64().map_err(|error| {
            SkillError::io("name something in", &self.root)(io::Error::other(error.to_string()))
        })?;
        Ok(self.root.join(format!(".{what}-{random:016x}")))
    }

    /// Puts a new folder in its place, where nothing may be.
    pub(crate) fn place(&self, new: &Path, dir: &Path, name: &str) -> Result<(), SkillError> {
        debug_assert!(new.starts_with(&self.root));
        let moved = match renameat_with(CWD, new, CWD, dir, RenameFlags::NOREPLACE) {
            // Not every filesystem can promise that; the lock keeps our own away.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                match dir.symlink_metadata() {
                    Ok(_) => Err(ErrorKind::AlreadyExists.into()),
                    Err(_) => fs::rename(new, dir),
                }
            }
            moved => moved.map_err(io::Error::from),
        };
        moved.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => {
                SkillError::Exists { name: name.to_owned(), path: dir.to_owned() }
            }
            _ => SkillError::io("put a skill into", dir)(error),
        })
    }

    /// Puts a new folder in the place of another. A crash in between leaves the
    /// new one or none, never half of one.
    pub(crate) fn replace(&self, new: &Path, dir: &Path) -> Result<(), SkillError> {
        let failed = || SkillError::io("replace", dir);
        match renameat_with(CWD, new, CWD, dir, RenameFlags::EXCHANGE) {
            Ok(()) => {
                // What is left of the old one is swept next time.
                fs::remove_dir_all(new).ok();
                return Ok(());
            }
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {}
            Err(error) => return Err(failed()(error.into())),
        }
        let old = self.temporary("old")?;
        fs::rename(dir, &old).map_err(failed())?;
        if let Err(error) = fs::rename(new, dir) {
            fs::rename(&old, dir).ok();
            return Err(failed()(error));
        }
        fs::remove_dir_all(&old).ok();
        Ok(())
    }

    /// Removes a folder, in one step for everybody who looks.
    pub(crate) fn discard(&self, dir: &Path) -> Result<(), SkillError> {
        let failed = || SkillError::io("remove", dir);
        if dir.is_symlink() {
            return fs::remove_file(dir).map_err(failed());
        }
        let old = self.temporary("old")?;
        fs::rename(dir, &old).map_err(failed())?;
        fs::remove_dir_all(&old).map_err(failed())?;
        // A category without skills is none.
        if let Some(parent) = dir.parent().filter(|parent| *parent != self.root) {
            fs::remove_dir(parent).ok();
        }
        Ok(())
    }

    /// Replaces a file in one step. It keeps its permissions; a new one that
    /// begins as scripts do is a program.
    pub(crate) fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), SkillError> {
        let mode = match fs::symlink_metadata(path) {
            Ok(found) if found.is_file() => found.permissions().mode() & 0o777,
            _ if bytes.starts_with(b"#!") => 0o755,
            _ => 0o644,
        };
        let new = self.temporary("file")?;
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&new)
            .and_then(|mut file| {
                file.write_all(bytes)?;
                // After a power cut the name must not point at an empty file.
                file.sync_data()
            })
            .and_then(|()| fs::rename(&new, path));
        if written.is_err() {
            fs::remove_file(&new).ok();
        }
        written.map_err(SkillError::io("write", path))
    }
}
