//! Copies a tree to another filesystem, with all that belongs to its files.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, SeekFrom, Stat, Timespec, Timestamps, Uid, chownat,
    fchmod, fstat, ftruncate, futimens, mkdirat, mknodat, openat, readlinkat, seek, statat,
    symlinkat, utimensat,
};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use vestal_wire::Fault;

use super::attributes::{Original, copy_xattrs, own};
use super::fault::{OrFault, Stop, check, failed};
use super::metadata::{Identity, permissions, size};
use super::path::component;
use super::read::{READING, read_at};
use super::tree::{Cursor, each_entry, open_unmounted};
use crate::diagnostics::note;

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
        bounds: None,
    };
    let frames = Vec::from_iter(copying.copy(from_name, to_name)?);
    copying.run(frames)
}

/// Copies what is in the directory `from`, which is at `path`, into the empty
/// directory `to`, and makes that one like `from`. Of what is found only files,
/// directories and links are copied, none from other mounts, and none that this
/// process may not read.
pub(super) fn copy_home(from: OwnedFd, to: OwnedFd, path: &Path) -> Result<(), Fault> {
    let start = |dir| Cursor::new(dir).or_fault("copy", path);
    let (from, to) = (start(from)?, start(to)?);
    let bounds = Bounds { entries: MAX_ENTRIES, target: to.identity() };
    let cancelled = AtomicBool::new(false);
    let path_buf = path.to_path_buf();
    let mut copying =
        Copying { from, to, path: path_buf, cancelled: &cancelled, bounds: Some(bounds) };
    let found = fstat(copying.from.here()).or_fault("copy", path)?;
    let frame = copying.list(found).map_err(|stop| stop.into_fault("copy", path))?;
    copying.run(vec![frame])
}

/// Most entries of a home that are copied.
const MAX_ENTRIES: u32 = 1_000_000;

/// Deepest directory of a home that is copied.
const MAX_DEPTH: usize = 200;

struct Copying<'a> {
    from: Cursor,
    to: Cursor,
    path: PathBuf,
    cancelled: &'a AtomicBool,
    /// Bounds of a copy from a tree that nobody vouches for.
    bounds: Option<Bounds>,
}

/// What a copy from a tree that nobody vouches for keeps to.
struct Bounds {
    /// Entries that may still be copied.
    entries: u32,
    /// Where it is copied to, which may be inside of it.
    target: Identity,
}

/// A directory whose entries are being copied.
struct Frame {
    found: Stat,
    left: Vec<CString>,
}

impl Copying<'_> {
    fn run(&mut self, mut frames: Vec<Frame>) -> Result<(), Fault> {
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
        if let Some(bounds) = &mut self.bounds {
            bounds.entries = bounds.entries.checked_sub(1).ok_or(Errno::FBIG)?;
            if Identity::of(&found) == bounds.target {
                return Ok(None);
            }
        }
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => return self.open(from, to, found),
            FileType::RegularFile => self.copy_file(from, to)?,
            FileType::Symlink => {
                let target = readlinkat(self.from.here(), from, Vec::new())?;
                symlinkat(&target, self.to.here(), to)?;
                self.dress_name(to, &found)?;
            }
            _ if self.bounds.is_some() => {}
            special => {
                let mode = Mode::from_raw_mode(permissions(&found));
                mknodat(self.to.here(), to, special, mode, found.st_rdev)?;
                self.dress_name(to, &found)?;
            }
        }
        Ok(None)
    }

    fn open(&mut self, from: &CStr, to: &CStr, found: Stat) -> Result<Option<Frame>, Stop> {
        if self.bounds.is_some() {
            if self.from.depth() >= MAX_DEPTH {
                return Err(Errno::NAMETOOLONG.into());
            }
            if unless_passed_over(self.from.enter_unmounted(from), &self.path)?.is_none() {
                return Ok(None);
            }
        } else {
            self.from.enter(from)?;
        }
        mkdirat(self.to.here(), to, Mode::from_raw_mode(0o700))?;
        self.to.enter(to)?;
        self.list(found).map(Some)
    }

    fn list(&mut self, found: Stat) -> Result<Frame, Stop> {
        let mut left = Vec::new();
        each_entry(self.from.here(), |name, _| {
            check(self.cancelled)?;
            if self.bounds.as_ref().is_some_and(|bounds| left.len() >= bounds.entries as usize) {
                return Err(Errno::FBIG.into());
            }
            left.push(name.to_owned());
            Ok::<(), Stop>(())
        })?;
        Ok(Frame { found, left })
    }

    /// Leaves a directory that is copied. Its mode and times come last: filling
    /// it would change the times, and the mode may forbid to leave it.
    fn close(&mut self, found: &Stat) -> Result<(), Errno> {
        if self.from.depth() == 0 {
            // Both are where they started, which is not theirs to leave.
            let of = |cursor: &Cursor| fcntl_dupfd_cloexec(cursor.here(), 0).map(File::from);
            return match dress(&of(&self.from)?, &of(&self.to)?, found) {
                // It is another user's, as the host's root is where users are
                // mapped. It could be written to, so it serves as it is.
                Err(Errno::PERM) => Ok(()),
                done => done,
            };
        }
        let original = File::from(self.from.leave()?);
        let made = File::from(self.to.leave()?);
        dress(&original, &made, found)
    }

    fn copy_file(&self, from: &CStr, to: &CStr) -> Result<(), Stop> {
        let flags = READING | OFlags::NOFOLLOW;
        let original = if self.bounds.is_some() {
            let opened = open_unmounted(self.from.here(), from, flags);
            let Some(original) = unless_passed_over(opened, &self.path)? else {
                return Ok(());
            };
            File::from(original)
        } else {
            File::from(openat(self.from.here(), from, flags, Mode::empty())?)
        };
        let found = fstat(&original)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(Errno::STALE.into());
        }
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = File::from(openat(self.to.here(), to, flags, Mode::from_raw_mode(0o600))?);
        let mut piece = vec![0; 256 << 10];
        let mut done = 0;
        loop {
            check(self.cancelled)?;
            // A hole stays one: it may be larger than any disk.
            match seek(&original, SeekFrom::Data(done)) {
                Ok(data) => done = data,
                Err(Errno::NXIO) => break,
                Err(_) => {}
            }
            let got = read_at(&original, &mut piece, done)?;
            if got == 0 {
                break;
            }
            made.write_all_at(&piece[..got], done)
                .map_err(|error| Stop::Fault(failed("copy", &self.path, error)))?;
            done += got as u64;
        }
        ftruncate(&made, done.max(size(&fstat(&original)?)))?;
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

/// Returns what was opened, unless it is something that a copy of a home does
/// without.
fn unless_passed_over<T>(opened: Result<T, Errno>, path: &Path) -> Result<Option<T>, Errno> {
    match opened {
        Err(errno @ (Errno::ACCESS | Errno::XDEV)) => {
            note(&failed("copy", path, errno).message);
            Ok(None)
        }
        opened => opened.map(Some),
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
