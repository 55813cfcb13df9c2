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

/// A skill that stepped aside for another begins like this, with its own name
/// behind it.
const KEPT: &str = ".kept.";

/// The folder of skills, locked.
#[derive(Debug)]
pub(crate) struct Staging {
    root: PathBuf,
    /// Held until this is dropped; the kernel lets go of it when the process dies.
    _lock: File,
}

impl Staging {
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
        let staging = Self { root: root.to_owned(), _lock: lock };
        staging.sweep();
        Ok(staging)
    }

    fn sweep(&self) {
        for entry in fs::read_dir(&self.root).into_iter().flatten().flatten() {
            let (name, path) = (entry.file_name(), entry.path());
            let Some(name) = name.to_str() else { continue };
            if TEMPORARY.iter().any(|own| name.starts_with(own)) {
                remove(&path);
            } else if name.starts_with(KEPT) {
                give_back(&path);
            } else if !name.starts_with('.') && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                // It may be a category.
                for below in fs::read_dir(&path).into_iter().flatten().flatten() {
                    if below.file_name().to_str().is_some_and(|name| name.starts_with(KEPT)) {
                        give_back(&below.path());
                    }
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
    pub(crate) fn place(&self, new: &Path, dir: &Path) -> Result<(), SkillError> {
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
            // Had it been a skill, the lock would have kept it from coming in between.
            ErrorKind::AlreadyExists => SkillError::Occupied { path: dir.to_owned() },
            _ => SkillError::io("put a skill into", dir)(error),
        })
    }

    /// Puts a new folder in the place of another. A crash in between leaves one
    /// of them, never half of one.
    pub(crate) fn replace(&self, new: &Path, dir: &Path) -> Result<(), SkillError> {
        debug_assert!(new.starts_with(&self.root));
        let replaced = match renameat_with(CWD, new, CWD, dir, RenameFlags::EXCHANGE) {
            Ok(()) => {
                // What is left of the old one is swept next time.
                fs::remove_dir_all(new).ok();
                Ok(())
            }
            // Not every filesystem can do that.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => one_by_one(new, dir),
            Err(error) => Err(error.into()),
        };
        replaced.map_err(SkillError::io("replace", dir))
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

/// Puts a new folder in the place of another where the two cannot change places
/// at once: the old one steps aside, under a name by which a sweep knows where
/// it belongs.
fn one_by_one(new: &Path, dir: &Path) -> io::Result<()> {
    let kept = kept(dir);
    fs::rename(dir, &kept)?;
    if let Err(error) = fs::rename(new, dir) {
        fs::rename(&kept, dir).ok();
        return Err(error);
    }
    fs::remove_dir_all(&kept).ok();
    Ok(())
}

/// Returns where a folder steps aside to.
fn kept(dir: &Path) -> PathBuf {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    dir.with_file_name(format!("{KEPT}{name}"))
}

/// Puts a folder back that stepped aside for one that did not come.
fn give_back(kept: &Path) {
    let name = kept.file_name().unwrap_or_default().to_string_lossy();
    let dir = kept.with_file_name(name.strip_prefix(KEPT).unwrap_or(&name));
    match dir.symlink_metadata() {
        Ok(_) => remove(kept),
        Err(_) => drop(fs::rename(kept, &dir)),
    }
}

/// Removes a file or a folder. What cannot be removed now is met again next time.
fn remove(path: &Path) {
    if fs::remove_dir_all(path).is_err() {
        fs::remove_file(path).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::put;

    #[test]
    fn what_cannot_be_exchanged_is_replaced_one_by_one_or_stays() {
        let home = tempfile::tempdir().unwrap();
        let (new, dir) = (home.path().join(".new-1"), home.path().join("one"));
        put(&dir, "SKILL.md", "old");
        assert!(one_by_one(&new, &dir).is_err(), "there is none yet");
        assert_eq!(fs::read(dir.join("SKILL.md")).unwrap(), b"old");
        put(&new, "SKILL.md", "new");
        one_by_one(&new, &dir).unwrap();
        assert_eq!(fs::read(dir.join("SKILL.md")).unwrap(), b"new");
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1, "nothing else is left");
    }
}
