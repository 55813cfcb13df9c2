//! A name in an open directory: files are written beside it, and given the name only if what is
//! there is what the other side saw.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;

use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags, flock, fstat, linkat, openat,
    renameat, renameat_with, unlinkat,
};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use sha2::{Digest as _, Sha256};
use vestal_wire::tree::{ContentHash, Stamp, TEMPORARY, TreePath, partial_name};

use crate::change::Undone;
use crate::read::each_piece;
use crate::root::{OpenTree, TreeError, stamp, stat_of};

/// Gives a file or directory another name, which must be free.
pub(crate) fn rename_free(dir: &OwnedFd, name: &[u8], free: &[u8]) -> Result<(), Errno> {
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
pub(crate) struct ChangeTarget<'p> {
    pub(crate) root: &'p OpenTree,
    pub(crate) path: &'p [u8],
    pub(crate) dir: OwnedFd,
    pub(crate) name: &'p [u8],
    /// Permission bits of the file that is there.
    pub(crate) bits: Option<u32>,
}

impl ChangeTarget<'_> {
    pub(crate) fn failed(&self, doing: &'static str, error: impl Into<io::Error>) -> Undone {
        self.root.failed(doing, self.path, error).into()
    }

    /// Opens a file with a name of its own, which nobody else may read if its bits say so
    /// later.
    pub(crate) fn fresh(&self, private: bool) -> Result<(File, UnnamedFile<'_>), Undone> {
        let failed = |errno: Errno| self.failed("write", errno);
        let name = fresh_name().map_err(failed)?;
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.dir, &name, flags, first_mode(private)).map_err(failed)?;
        Ok((file.into(), UnnamedFile { dir: &self.dir, name, keep: false }))
    }

    /// Opens the file in which the beginning of a content is kept, unless another change
    /// is writing it: then this one begins anew.
    pub(crate) fn partial(
        &self,
        hash: &ContentHash,
        private: bool,
    ) -> Result<(File, UnnamedFile<'_>), Undone> {
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
        // Its writer may just have given it its final name.
        let opened = fstat(&file).map_err(failed)?;
        match stat_of(&self.dir, name.as_bytes()) {
            Ok(named) if (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino) => {
                Ok((file.into(), UnnamedFile { dir: &self.dir, name, keep: true }))
            }
            Ok(_) | Err(Errno::NOENT) => self.fresh(private),
            Err(errno) => Err(failed(errno)),
        }
    }

    /// Takes the first bytes of a file as they are, and cuts off the rest.
    pub(crate) fn go_on(
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
    pub(crate) fn publish(
        &self,
        waiting: &mut UnnamedFile<'_>,
        replaces: Option<Stamp>,
    ) -> Result<(), Undone> {
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

    /// Exchanges what took the name of a file with the file again. What replaces the name at this
    /// moment, too, wins.
    pub(crate) fn put_back(&self, old: &CStr, ours: u64) -> Result<(), Undone> {
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
    pub(crate) fn delete(&self, seen: Stamp) -> Result<(), Undone> {
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
pub(crate) struct UnnamedFile<'d> {
    pub(crate) dir: &'d OwnedFd,
    pub(crate) name: CString,
    pub(crate) keep: bool,
}

impl Drop for UnnamedFile<'_> {
    fn drop(&mut self) {
        if !self.keep {
            // What is left is in no listing, and is removed by a later change.
            unlinkat(self.dir, &self.name, AtFlags::empty()).ok();
        }
    }
}

/// Returns whether a file that was renamed is what it was: that alone changes the time
/// of the last change of its inode.
pub(crate) fn is_still(seen: &Stamp, now: &Stamp) -> bool {
    (seen.inode, seen.size, seen.mtime_ns) == (now.inode, now.size, now.mtime_ns)
}

pub(crate) fn first_mode(private: bool) -> Mode {
    Mode::from_raw_mode(if private { 0o600 } else { 0o666 })
}

pub(crate) fn fresh_name() -> Result<CString, Errno> {
    let mut random = [0_u8; 8];
    getrandom(&mut random, GetRandomFlags::empty())?;
    let mut name = TEMPORARY.to_vec();
    for byte in random {
        name.extend(format!("{byte:02x}").bytes());
    }
    CString::new(name).map_err(|_| Errno::INVAL)
}
