//! Changes of a tree, each whole or not at all, and none of what the other side has
//! not seen.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::os::fd::{AsFd, OwnedFd};

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags, Stat, Timespec, Timestamps,
    UTIME_OMIT, fchmod, fdatasync, flock, fstat, fsync, futimens, linkat, mkdirat, openat,
    renameat, renameat_with, symlinkat, syncfs, unlinkat,
};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use sha2::{Digest as _, Sha256};
use vestal_wire::tree::{
    ContentHash, RecordReader, Stamp, TEMPORARY, TreeChange, TreeOutcome, TreePath, is_temporary,
    partial_name,
};

use crate::read::{each_piece, finished};
use crate::root::{OpenTree, TreeError, is_name, split, stamp, stat_of};

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
enum Undone {
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
                let mut waiting = Waiting { dir: &place.dir, name: temporary, keep: false };
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
            file.write_all(&piece).map_err(|error| place.failed("write", error))?;
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
    ) -> Result<Place<'p>, Undone> {
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
        if same { Ok(Place { root: self, path, dir, name, bits }) } else { Err(Undone::Overtaken) }
    }
}

/// Gives a file or directory another name, which must be free.
fn rename_free(dir: &OwnedFd, name: &[u8], free: &[u8]) -> Result<(), Errno> {
    match renameat_with(dir, name, dir, free, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
        other => return other,
    }
    // Not on every filesystem, such as NFS. A link replaces nothing either, and a directory
    // replaces none in which something is.
    let found = stat_of(dir, name)?;
    if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
        match stat_of(dir, free) {
            Ok(_) => return Err(Errno::EXIST),
            Err(Errno::NOENT) => return renameat(dir, name, dir, free),
            Err(errno) => return Err(errno),
        }
    }
    linkat(dir, name, dir, free, AtFlags::empty())?;
    unlinkat(dir, name, AtFlags::empty())
}

/// A name in an open directory.
struct Place<'p> {
    root: &'p OpenTree,
    path: &'p [u8],
    dir: OwnedFd,
    name: &'p [u8],
    /// Permission bits of the file that is there.
    bits: Option<u32>,
}

impl Place<'_> {
    fn failed(&self, doing: &'static str, error: impl Into<io::Error>) -> Undone {
        self.root.failed(doing, self.path, error).into()
    }

    /// Opens a file with a name of its own, which nobody else may read if its bits say so
    /// later.
    fn fresh(&self, private: bool) -> Result<(File, Waiting<'_>), Undone> {
        let failed = |errno: Errno| self.failed("write", errno);
        let name = fresh_name().map_err(failed)?;
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.dir, &name, flags, first_mode(private)).map_err(failed)?;
        Ok((file.into(), Waiting { dir: &self.dir, name, keep: false }))
    }

    /// Opens the file in which the beginning of a content is kept, unless another change
    /// is writing it: then this one begins anew.
    fn partial(&self, hash: &ContentHash, private: bool) -> Result<(File, Waiting<'_>), Undone> {
        let failed = |errno: Errno| self.failed("write", errno);
        let name = CString::new(partial_name(hash)).map_err(|_| TreeError::Path)?;
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mut open = openat(&self.dir, &name, flags, first_mode(private));
        let is_ours = |file: &OwnedFd| {
            fstat(file).is_ok_and(|found| {
                FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
                    && found.st_nlink == 1
            })
        };
        if !open.as_ref().is_ok_and(is_ours) {
            unlinkat(&self.dir, &name, AtFlags::empty()).map_err(failed)?;
            open = openat(&self.dir, &name, flags | OFlags::EXCL, first_mode(private));
        }
        let file = open.map_err(failed)?;
        // Not every filesystem has locks.
        if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            return self.fresh(private);
        }
        // Who had it may just have given it its final name.
        let opened = fstat(&file).map_err(failed)?;
        match stat_of(&self.dir, name.as_bytes()) {
            Ok(named) if (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino) => {
                Ok((file.into(), Waiting { dir: &self.dir, name, keep: true }))
            }
            Ok(_) | Err(Errno::NOENT) => self.fresh(private),
            Err(errno) => Err(failed(errno)),
        }
    }

    /// Takes the first bytes of a file as they are, and cuts off the rest.
    fn go_on(
        &self,
        file: &mut File,
        offset: u64,
        hasher: &mut Sha256,
        cancelled: &AtomicBool,
    ) -> Result<(), Undone> {
        let failed = |error: io::Error| self.failed("write", error);
        if offset > 0 {
            let kept = TreePath { path: Vec::new().into(), offset: 0, end: Some(offset) };
            let mut there = 0;
            each_piece(file, &kept, cancelled, &mut |piece| {
                there += piece.len() as u64;
                hasher.update(piece);
                Ok(())
            })
            .map_err(|error| Undone::from(self.root.read_error(self.path, error)))?;
            if there < offset {
                return Err(Undone::Overtaken);
            }
        }
        file.set_len(offset).map_err(failed)
    }

    /// Gives what waits its final name.
    fn publish(&self, waiting: &mut Waiting<'_>, replaces: Option<Stamp>) -> Result<(), Undone> {
        let failed = |errno: Errno| self.failed("write", errno);
        let (dir, name) = (&self.dir, self.name);
        let Some(seen) = replaces else {
            return match renameat_with(dir, &waiting.name, dir, name, RenameFlags::NOREPLACE) {
                Ok(()) => {
                    waiting.keep = true;
                    Ok(())
                }
                Err(Errno::EXIST) => Err(Undone::Overtaken),
                // Not on every filesystem. A link replaces nothing either.
                Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                    match linkat(dir, &waiting.name, dir, name, AtFlags::empty()) {
                        Ok(()) => Ok(()),
                        Err(Errno::EXIST) => Err(Undone::Overtaken),
                        Err(errno) => Err(failed(errno)),
                    }
                }
                Err(errno) => Err(failed(errno)),
            };
        };
        let ours = stat_of(dir, waiting.name.as_bytes()).map_err(failed)?.st_ino;
        match renameat_with(dir, &waiting.name, dir, name, RenameFlags::EXCHANGE) {
            Ok(()) => {
                // Until it is known that it is the version compared, it does not go.
                waiting.keep = true;
                let old = stat_of(dir, waiting.name.as_bytes()).map_err(failed)?;
                if is_still(&seen, &stamp(&old)) {
                    // It goes with the name that waited.
                    waiting.keep = false;
                    return Ok(());
                }
                // Written to at this moment: it stays.
                self.put_back(&waiting.name, ours)?;
                waiting.keep = false;
                Err(Undone::Overtaken)
            }
            Err(Errno::NOENT) => Err(Undone::Overtaken),
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                let old = stat_of(dir, name).map_err(failed)?;
                if stamp(&old) != seen {
                    return Err(Undone::Overtaken);
                }
                renameat(dir, &waiting.name, dir, name).map_err(failed)?;
                waiting.keep = true;
                Ok(())
            }
            Err(errno) => Err(failed(errno)),
        }
    }

    /// Exchanges what took the name of a file with the file again. Who replaces the name at this
    /// moment, too, wins.
    fn put_back(&self, old: &CStr, ours: u64) -> Result<(), Undone> {
        let (dir, name) = (&self.dir, self.name);
        let exchange = || renameat_with(dir, old, dir, name, RenameFlags::EXCHANGE);
        let is_ours = || stat_of(dir, old.to_bytes()).is_ok_and(|found| found.st_ino == ours);
        let put_back = match exchange() {
            Err(Errno::NOENT) => rename_free(dir, old.to_bytes(), name),
            Ok(()) if !is_ours() => exchange(),
            other => other,
        };
        let Err(errno) = put_back else { return Ok(()) };
        // It must not be taken for something that is only on its way.
        let mut kept = name[..name.len().min(200)].to_vec();
        kept.extend_from_slice(b".kept-");
        kept.extend_from_slice(&old.to_bytes()[TEMPORARY.len()..]);
        match rename_free(dir, old.to_bytes(), &kept) {
            Ok(()) => Err(Undone::Failed(format!(
                "cannot put back {}, which was changed at this moment and is kept as {}: {errno}",
                self.root.shown(self.path).display(),
                String::from_utf8_lossy(&kept)
            ))),
            Err(_) => Err(self.failed("put back", errno)),
        }
    }

    /// Deletes a file unless somebody writes to it at this moment.
    fn delete(&self, seen: Stamp) -> Result<(), Undone> {
        let failed = |errno: Errno| self.failed("delete", errno);
        let (dir, name) = (&self.dir, self.name);
        let aside = fresh_name().map_err(failed)?;
        match renameat_with(dir, name, dir, &aside, RenameFlags::NOREPLACE) {
            Ok(()) => {}
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                return unlinkat(dir, name, AtFlags::empty()).map_err(failed);
            }
            Err(Errno::NOENT) => return Err(Undone::Overtaken),
            Err(errno) => return Err(failed(errno)),
        }
        let found = stat_of(dir, aside.as_bytes()).map_err(failed)?;
        if is_still(&seen, &stamp(&found)) {
            return unlinkat(dir, &aside, AtFlags::empty()).map_err(failed);
        }
        match rename_free(dir, aside.as_bytes(), name) {
            Ok(()) => Err(Undone::Overtaken),
            // Its name was taken meanwhile by a newer one.
            Err(Errno::EXIST) => {
                unlinkat(dir, &aside, AtFlags::empty()).map_err(failed)?;
                Err(Undone::Overtaken)
            }
            Err(errno) => Err(failed(errno)),
        }
    }
}

/// A file that has no final name yet. It goes when it is dropped, unless it is kept.
struct Waiting<'d> {
    dir: &'d OwnedFd,
    name: CString,
    keep: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.keep {
            // What is left is in no listing, and is removed by a later change.
            unlinkat(self.dir, &self.name, AtFlags::empty()).ok();
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

/// Returns whether a file that was renamed is what it was: that alone changes the time
/// of the last change of its inode.
fn is_still(seen: &Stamp, now: &Stamp) -> bool {
    (seen.inode, seen.size, seen.mtime_ns) == (now.inode, now.size, now.mtime_ns)
}

/// Whoever may read a file may execute one that can be executed.
fn with_execution(bits: u32, executable: bool) -> Mode {
    let bits = if executable { bits | (bits & 0o444) >> 2 } else { bits & !0o111 };
    Mode::from_raw_mode(bits)
}

fn first_mode(private: bool) -> Mode {
    Mode::from_raw_mode(if private { 0o600 } else { 0o666 })
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

fn fresh_name() -> Result<CString, Errno> {
    let mut random = [0_u8; 8];
    getrandom(&mut random, GetRandomFlags::empty())?;
    let mut name = TEMPORARY.to_vec();
    for byte in random {
        name.extend(format!("{byte:02x}").bytes());
    }
    CString::new(name).map_err(|_| Errno::INVAL)
}

#[cfg(test)]
#[path = "change_tests.rs"]
mod tests;
