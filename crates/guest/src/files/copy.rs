//! Copies a tree to another filesystem, with all that belongs to its files.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::Write;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid, chownat, fchmod, fstat,
    futimens, mkdirat, mknodat, openat, readlinkat, statat, symlinkat, utimensat,
};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use vestal_wire::Fault;

use super::attributes::{Original, copy_xattrs, own};
use super::fault::{OrFault, Stop, check, failed};
use super::metadata::permissions;
use super::path::component;
use super::read::{READING, read_at};
use super::tree::{Cursor, each_entry};

/// Copies what is at `from` to the name `to`, which must be free. What is there
/// of the copy after a fault is the caller's to delete.
pub(super) fn copy_tree(
    (from_dir, from_name, from_path): (BorrowedFd<'_>, &CStr, &Path),
    (to_dir, to_name): (BorrowedFd<'_>, &CStr),
    cancelled: &AtomicBool,
) -> Result<(), Fault> {
    let start = |dir| fcntl_dupfd_cloexec(dir, 0).and_then(Cursor::new).or_fault("copy", from_path);
    let mut copying = Copying {
        from: start(from_dir)?,
        to: start(to_dir)?,
        path: from_path.parent().unwrap_or(from_path).to_path_buf(),
        cancelled,
    };
    copying.run(from_name, to_name)
}

struct Copying<'a> {
    from: Cursor,
    to: Cursor,
    path: PathBuf,
    cancelled: &'a AtomicBool,
}

/// A directory whose entries are being copied.
struct Frame {
    found: Stat,
    left: Vec<CString>,
}

impl Copying<'_> {
    fn run(&mut self, from: &CStr, to: &CStr) -> Result<(), Fault> {
        let mut frames = Vec::from_iter(self.copy(from, to)?);
        while let Some(frame) = frames.last_mut() {
            if let Some(name) = frame.left.pop() {
                frames.extend(self.copy(&name, &name)?);
                continue;
            }
            let Some(frame) = frames.pop() else {
                break;
            };
            self.close(&frame.found).or_fault("copy", &self.path)?;
            self.path.pop();
        }
        Ok(())
    }

    /// Copies one entry. A directory is made and entered; its entries are left.
    fn copy(&mut self, from: &CStr, to: &CStr) -> Result<Option<Frame>, Fault> {
        check(self.cancelled)?;
        self.path.push(component(from));
        let copied =
            self.copy_entry(from, to).map_err(|stop| stop.into_fault("copy", &self.path))?;
        if copied.is_none() {
            self.path.pop();
        }
        Ok(copied)
    }

    fn copy_entry(&mut self, from: &CStr, to: &CStr) -> Result<Option<Frame>, Stop> {
        let found = statat(self.from.here(), from, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => return self.open(from, to, found).map(Some),
            FileType::RegularFile => self.copy_file(from, to)?,
            FileType::Symlink => {
                let target = readlinkat(self.from.here(), from, Vec::new())?;
                symlinkat(&target, self.to.here(), to)?;
                self.dress_name(to, &found)?;
            }
            special => {
                let mode = Mode::from_raw_mode(permissions(&found));
                mknodat(self.to.here(), to, special, mode, found.st_rdev)?;
                self.dress_name(to, &found)?;
            }
        }
        Ok(None)
    }

    fn open(&mut self, from: &CStr, to: &CStr, found: Stat) -> Result<Frame, Stop> {
        mkdirat(self.to.here(), to, Mode::from_raw_mode(0o700))?;
        self.from.enter(from)?;
        self.to.enter(to)?;
        let mut left = Vec::new();
        each_entry(self.from.here(), |name, _| {
            check(self.cancelled)?;
            left.push(name.to_owned());
            Ok::<(), Stop>(())
        })?;
        Ok(Frame { found, left })
    }

    /// Leaves a directory that is copied. Its mode and times come last: filling
    /// it would change the times, and the mode may forbid to leave it.
    fn close(&mut self, found: &Stat) -> Result<(), Errno> {
        let original = File::from(self.from.leave()?);
        let made = File::from(self.to.leave()?);
        dress(&original, &made, found)
    }

    fn copy_file(&self, from: &CStr, to: &CStr) -> Result<(), Stop> {
        let flags = READING | OFlags::NOFOLLOW;
        let original = File::from(openat(self.from.here(), from, flags, Mode::empty())?);
        let found = fstat(&original)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(Errno::STALE.into());
        }
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut made = File::from(openat(self.to.here(), to, flags, Mode::from_raw_mode(0o600))?);
        let mut piece = vec![0; 256 << 10];
        let mut done = 0;
        loop {
            check(self.cancelled)?;
            let got = read_at(&original, &mut piece, done)?;
            if got == 0 {
                break;
            }
            made.write_all(&piece[..got])
                .map_err(|error| Stop::Fault(failed("copy", &self.path, error)))?;
            done += got as u64;
        }
        dress(&original, &made, &found)?;
        Ok(())
    }

    /// Gives an entry that cannot be opened owner and times, where that is
    /// permitted.
    fn dress_name(&self, to: &CStr, found: &Stat) -> Result<(), Errno> {
        let (owner, group) = (Uid::from_raw(found.st_uid), Gid::from_raw(found.st_gid));
        kept_where_permitted(chownat(
            self.to.here(),
            to,
            Some(owner),
            Some(group),
            AtFlags::SYMLINK_NOFOLLOW,
        ))?;
        utimensat(self.to.here(), to, &times(found), AtFlags::SYMLINK_NOFOLLOW)
    }
}

/// Gives a copy what its original has besides content. Owners are kept where
/// that is permitted, as any move across filesystems does.
fn dress(original: &File, made: &File, found: &Stat) -> Result<(), Errno> {
    let mut mode = permissions(found);
    if !kept_where_permitted(own(made, found))? {
        // A program that runs as its owner must not run as another one.
        mode &= !0o6000;
    }
    match copy_xattrs(Original::File(original), made) {
        Ok(()) | Err(Errno::PERM | Errno::OPNOTSUPP) => {}
        Err(errno) => return Err(errno),
    }
    fchmod(made, Mode::from_raw_mode(mode))?;
    futimens(made, &times(found))
}

/// Tells whether an owner could be kept; being forbidden to is no failure.
fn kept_where_permitted(done: Result<(), Errno>) -> Result<bool, Errno> {
    match done {
        Ok(()) => Ok(true),
        Err(Errno::PERM | Errno::INVAL) => Ok(false),
        Err(errno) => Err(errno),
    }
}

fn times(found: &Stat) -> Timestamps {
    let time = |seconds, nanoseconds: u64| Timespec {
        tv_sec: seconds,
        tv_nsec: i64::try_from(nanoseconds).unwrap_or(0),
    };
    Timestamps {
        last_access: time(found.st_atime, found.st_atime_nsec),
        last_modification: time(found.st_mtime, found.st_mtime_nsec),
    }
}
