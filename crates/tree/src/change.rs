//! Changes of a tree, each whole or not at all, and none of what the other side has
//! not seen.

use std::fs::File;
use std::io::{Read, Write as _};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{
    AtFlags, FileType, Mode, Stat, Timespec, Timestamps, UTIME_OMIT, fchmod, fdatasync, fstat,
    fsync, futimens, mkdirat, symlinkat, syncfs, unlinkat,
};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use vestal_wire::tree::{RecordReader, Stamp, TreeChange, TreeOutcome, is_temporary};

use crate::read::finished;
use crate::root::{OpenTree, TreeError, is_name, split, stamp, stat_of};
use crate::target::{ChangeTarget, UnnamedFile, fresh_name, rename_free};

/// Files that are written to the disk one by one. After so many, the whole
/// filesystem is, once.
const ONE_BY_ONE: usize = 32;

/// Makes sure that what was written is on the disk before the other side counts on it:
/// a file that a power cut takes back would look like a newer version of it.
#[derive(Debug, Default)]
pub(crate) struct WriteDurability {
    files: usize,
}

/// Why a change was not made.
pub(crate) enum Undone {
    Overtaken,
    Failed(String),
    /// Nothing more can be changed.
    Fatal(TreeError),
}

impl From<TreeError> for Undone {
    fn from(error: TreeError) -> Self {
        match error {
            TreeError::Io { .. } => Self::Failed(error.to_string()),
            other => Self::Fatal(other),
        }
    }
}

impl OpenTree {
    /// Makes one change. The content of a file is read in any case.
    pub(crate) fn change<R: Read>(
        &self,
        change: &TreeChange,
        input: &mut RecordReader<R>,
        durability: &mut WriteDurability,
        cancelled: &AtomicBool,
    ) -> Result<TreeOutcome, TreeError> {
        if cancelled.load(Ordering::Relaxed) {
            return Err(TreeError::Cancelled);
        }
        let made = if let TreeChange::File { .. } = change {
            let mut content = Content { input, ended: false };
            let made = self.put(change, &mut content, durability, cancelled);
            if !matches!(made, Err(Undone::Fatal(_))) {
                content.pass_over()?;
            }
            made
        } else {
            self.change_entry(change)
        };
        match made {
            Ok(()) => Ok(TreeOutcome::Made),
            Err(Undone::Overtaken) => Ok(TreeOutcome::Overtaken),
            Err(Undone::Failed(mut reason)) => {
                reason.truncate(reason.floor_char_boundary(4096));
                Ok(TreeOutcome::Failed { reason })
            }
            Err(Undone::Fatal(error)) => Err(error),
        }
    }

    fn change_entry(&self, change: &TreeChange) -> Result<(), Undone> {
        match change {
            TreeChange::Directory { path, mode } => self.make_directory(path, *mode),
            TreeChange::Link { path, target, replaces } => {
                let place = self.place(path, "make", *replaces)?;
                let temporary = fresh_name().map_err(|errno| place.failed("make", errno))?;
                symlinkat(target.as_slice(), &place.dir, &temporary)
                    .map_err(|errno| place.failed("make", errno))?;
                let mut waiting = UnnamedFile { dir: &place.dir, name: temporary, keep: false };
                place.publish(&mut waiting, *replaces)
            }
            TreeChange::Delete { path, stamp } => {
                let place = self.place(path, "delete", Some(*stamp))?;
                place.delete(*stamp)
            }
            TreeChange::RemoveDirectory { path } => {
                let (directory, name) = split(path)?;
                let removed = self
                    .directory(directory)
                    .and_then(|dir| unlinkat(dir, name, AtFlags::REMOVEDIR));
                match removed {
                    Ok(()) | Err(Errno::NOENT) => Ok(()),
                    Err(errno) => Err(self.failed("remove", path, errno).into()),
                }
            }
            TreeChange::Rename { path, name: new } => {
                let (directory, name) = split(path)?;
                if !is_name(new) {
                    return Err(TreeError::Path.into());
                }
                let renamed =
                    self.directory(directory).and_then(|dir| rename_free(&dir, name, new));
                match renamed {
                    Ok(()) => Ok(()),
                    Err(Errno::EXIST | Errno::NOENT) => Err(Undone::Overtaken),
                    Err(errno) => Err(self.failed("rename", path, errno).into()),
                }
            }
            TreeChange::Executable { path, executable, stamp } => {
                let (file, now) = self.file(path)?;
                if now != *stamp {
                    return Err(Undone::Overtaken);
                }
                let changed = fstat(&file).and_then(|found| {
                    fchmod(&file, with_execution(found.st_mode & 0o7777, *executable))
                });
                changed.map_err(|errno| self.failed("set the mode of", path, errno).into())
            }
            TreeChange::Discard { path } => {
                let (directory, name) = split(path)?;
                if !is_temporary(name) {
                    return Err(TreeError::Path.into());
                }
                let removed =
                    self.directory(directory).and_then(|dir| unlinkat(dir, name, AtFlags::empty()));
                match removed {
                    Ok(()) | Err(Errno::NOENT) => Ok(()),
                    Err(errno) => Err(self.failed("remove", path, errno).into()),
                }
            }
            TreeChange::File { .. } => Ok(()),
        }
    }

    fn make_directory(&self, path: &[u8], mode: Option<u32>) -> Result<(), Undone> {
        let failed = |errno: Errno| Undone::from(self.failed("make", path, errno));
        let (directory, name) = split(path)?;
        let dir = self.directory(directory).map_err(failed)?;
        let first = if mode.is_some() { 0o700 } else { 0o777 };
        match mkdirat(&dir, name, Mode::from_raw_mode(first)) {
            Ok(()) => {}
            Err(Errno::EXIST) => {
                let found = stat_of(&dir, name).map_err(failed)?;
                let is_directory = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
                return if is_directory { Ok(()) } else { Err(Undone::Overtaken) };
            }
            Err(errno) => return Err(failed(errno)),
        }
        if let Some(mode) = mode {
            let made = self.directory(path).map_err(failed)?;
            fchmod(made, Mode::from_raw_mode(mode & 0o777 | 0o700)).map_err(failed)?;
        }
        Ok(())
    }

    fn put<R: Read>(
        &self,
        change: &TreeChange,
        content: &mut Content<'_, R>,
        durability: &mut WriteDurability,
        cancelled: &AtomicBool,
    ) -> Result<(), Undone> {
        let TreeChange::File {
            path,
            hash,
            mode,
            executable,
            mtime_ns,
            replaces,
            offset,
            resumable,
        } = change
        else {
            return Ok(());
        };
        let place = self.place(path, "write", *replaces)?;
        let failed = |errno: Errno| place.failed("write", errno);
        // Nobody may read it on its way who may not read it when it has its name.
        let private = mode.is_some() || place.bits.is_some();
        let (mut file, mut waiting) =
            if *resumable { place.partial(hash, private)? } else { place.fresh(private)? };
        let mut hasher = Sha256::new();
        place.go_on(&mut file, *offset, &mut hasher, cancelled)?;
        while let Some(piece) = content.piece()? {
            if cancelled.load(Ordering::Relaxed) {
                return Err(Undone::Fatal(TreeError::Cancelled));
            }
            hasher.update(&piece);
            if let Err(error) = file.write_all(&piece) {
                // What there is of it would only keep others from the rest of the disk.
                waiting.keep &= !is_full(&error);
                return Err(place.failed("write", error));
            }
        }
        // All of it has come: nothing of it is of use any more if it is not what it should be.
        waiting.keep = false;
        if finished(hasher) != *hash {
            return Err(Undone::Overtaken);
        }
        let bits = match (mode, place.bits) {
            (Some(mode), _) => Mode::from_raw_mode(mode & 0o777),
            (None, Some(bits)) => with_execution(bits, *executable),
            (None, None) => {
                let found = fstat(&file).map_err(failed)?;
                with_execution(found.st_mode & 0o777, *executable)
            }
        };
        fchmod(&file, bits).map_err(failed)?;
        futimens(&file, &modified_at(*mtime_ns)).map_err(failed)?;
        durability.count(&file).map_err(failed)?;
        place.publish(&mut waiting, *replaces)?;
        durability.count_name(&place.dir).map_err(failed)
    }

    /// Returns the place of a change, if what is there is what the host saw.
    fn place<'p>(
        &'p self,
        path: &'p [u8],
        doing: &'static str,
        seen: Option<Stamp>,
    ) -> Result<ChangeTarget<'p>, Undone> {
        let (directory, name) = split(path)?;
        let dir = match self.directory(directory) {
            Ok(dir) => dir,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Err(Undone::Overtaken),
            Err(errno) => return Err(self.failed(doing, path, errno).into()),
        };
        let found = match stat_of(&dir, name) {
            Ok(found) => Some(found),
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(self.failed(doing, path, errno).into()),
        };
        let same = match (&seen, &found) {
            (None, None) => true,
            (Some(seen), Some(found)) => *seen == stamp(found),
            _ => false,
        };
        // The bits of a link are all set, and mean nothing.
        let is_file =
            |found: &Stat| FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
        let bits = found.filter(is_file).map(|found| found.st_mode & 0o777);
        if same {
            Ok(ChangeTarget { root: self, path, dir, name, bits })
        } else {
            Err(Undone::Overtaken)
        }
    }
}

/// The content of a file on its way.
struct Content<'i, R> {
    input: &'i mut RecordReader<R>,
    ended: bool,
}

impl<R: Read> Content<'_, R> {
    fn piece(&mut self) -> Result<Option<Vec<u8>>, Undone> {
        if self.ended {
            return Ok(None);
        }
        let piece = self.input.piece().map_err(|error| Undone::Fatal(TreeError::Stream(error)))?;
        self.ended = piece.is_none();
        Ok(piece)
    }

    fn pass_over(&mut self) -> Result<(), TreeError> {
        while !self.ended {
            self.ended = self.input.piece().map_err(TreeError::Stream)?.is_none();
        }
        Ok(())
    }
}

impl WriteDurability {
    fn count(&mut self, file: &File) -> Result<(), Errno> {
        self.files += 1;
        if self.files <= ONE_BY_ONE { fdatasync(file) } else { Ok(()) }
    }

    fn count_name(&self, dir: impl AsFd) -> Result<(), Errno> {
        if self.files > ONE_BY_ONE {
            return Ok(());
        }
        match fsync(dir) {
            // Directories of some filesystems cannot be.
            Err(Errno::INVAL | Errno::ROFS) => Ok(()),
            other => other,
        }
    }

    pub(crate) fn settle(&self, root: &OpenTree) -> Result<(), TreeError> {
        if self.files > ONE_BY_ONE {
            syncfs(root)
                .map_err(|errno| root.failed("write to the disk what is in", b"", errno))?;
        }
        Ok(())
    }
}

/// Users that may read an executable file may execute it.
/// Returns whether there is no room for more.
fn is_full(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

fn with_execution(bits: u32, executable: bool) -> Mode {
    let bits = if executable { bits | (bits & 0o444) >> 2 } else { bits & !0o111 };
    Mode::from_raw_mode(bits)
}

fn modified_at(nanoseconds: i64) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec {
            tv_sec: nanoseconds.div_euclid(1_000_000_000),
            tv_nsec: nanoseconds.rem_euclid(1_000_000_000),
        },
    }
}

#[cfg(test)]
#[path = "change_tests.rs"]
mod tests;
