//! Copies a tree with all its attributes: to another filesystem, or as the first
//! content of a home.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, SeekFrom, Stat, Timespec, Timestamps, Uid, chownat,
    fchmod, fstat, ftruncate, futimens, mkdirat, mknodat, open, openat, readlinkat, seek, stat,
    statat, symlinkat, utimensat,
};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use vestal_wire::Fault;

use super::delete::erase;
use super::metadata::{FileId, Original, copy_xattrs, own, permissions, size};
use super::paths::component;
use super::perform::{OpError, OrFault, check, failed};
use super::read::{READING, read_at};
use super::tree::{DIRECTORY, TreeCursor, each_entry, open_unmounted};
use super::walk::is_pseudo_filesystem;
use crate::diagnostics::note;

/// Copies the entry at `from` to the name `to`, which must be free. After a fault
/// the caller deletes the incomplete copy.
pub(super) fn copy_tree(
    (from_dir, from_name, from_path): (BorrowedFd<'_>, &CStr, &Path),
    (to_dir, to_name): (BorrowedFd<'_>, &CStr),
    cancelled: &AtomicBool,
) -> Result<(), Fault> {
    let start =
        |dir| fcntl_dupfd_cloexec(dir, 0).and_then(TreeCursor::new).or_fault("copy", from_path);
    let mut copying = CopyRun {
        from: start(from_dir)?,
        to: start(to_dir)?,
        path: from_path.parent().unwrap_or(from_path).to_path_buf(),
        cancelled,
        bounds: None,
    };
    let frames = Vec::from_iter(copying.copy(from_name, to_name)?);
    copying.run(frames)
}

/// Copies the content and the attributes of the directory `from`, which is at
/// `path`, to the empty directory `to`. Copies only files, directories and links,
/// and skips other mounts and whatever this process may not read.
fn copy_home(from: OwnedFd, to: OwnedFd, path: &Path) -> Result<(), Fault> {
    let start = |dir| TreeCursor::new(dir).or_fault("copy", path);
    let (from, to) = (start(from)?, start(to)?);
    let bounds = Bounds { entries: MAX_ENTRIES, target: to.identity() };
    let cancelled = AtomicBool::new(false);
    let path_buf = path.to_path_buf();
    let mut copying =
        CopyRun { from, to, path: path_buf, cancelled: &cancelled, bounds: Some(bounds) };
    let found = fstat(copying.from.here()).or_fault("copy", path)?;
    let frame = copying.list(found).map_err(|error| error.into_fault("copy", path))?;
    copying.run(vec![frame])
}

/// Maximum number of entries copied from a home.
const MAX_ENTRIES: u32 = 1_000_000;

/// Maximum depth of directories copied from a home.
const MAX_DEPTH: usize = 200;

struct CopyRun<'a> {
    from: TreeCursor,
    to: TreeCursor,
    path: PathBuf,
    cancelled: &'a AtomicBool,
    /// Limits of a copy from an untrusted tree.
    bounds: Option<Bounds>,
}

/// Limits of a copy from an untrusted tree.
struct Bounds {
    /// Entries that may still be copied.
    entries: u32,
    /// The target of the copy, which may be inside the source.
    target: FileId,
}

/// A directory whose entries are being copied.
struct CopyFrame {
    found: Stat,
    left: Vec<CString>,
}

impl CopyRun<'_> {
    fn run(&mut self, mut frames: Vec<CopyFrame>) -> Result<(), Fault> {
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

    /// Copies one entry. Creates and enters a directory; its entries are copied
    /// later.
    fn copy(&mut self, from: &CStr, to: &CStr) -> Result<Option<CopyFrame>, Fault> {
        check(self.cancelled)?;
        self.path.push(component(from));
        let copied =
            self.copy_entry(from, to).map_err(|error| error.into_fault("copy", &self.path))?;
        if copied.is_none() {
            self.path.pop();
        }
        Ok(copied)
    }

    fn copy_entry(&mut self, from: &CStr, to: &CStr) -> Result<Option<CopyFrame>, OpError> {
        let found = statat(self.from.here(), from, AtFlags::SYMLINK_NOFOLLOW)?;
        if let Some(bounds) = &mut self.bounds {
            bounds.entries = bounds.entries.checked_sub(1).ok_or(Errno::FBIG)?;
            if FileId::of(&found) == bounds.target {
                return Ok(None);
            }
        }
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => return self.open(from, to, found),
            FileType::RegularFile => self.copy_file(from, to)?,
            FileType::Symlink => {
                let target = readlinkat(self.from.here(), from, Vec::new())?;
                symlinkat(&target, self.to.here(), to)?;
                self.copy_attributes_by_name(to, &found)?;
            }
            _ if self.bounds.is_some() => {}
            special => {
                let mode = Mode::from_raw_mode(permissions(&found));
                mknodat(self.to.here(), to, special, mode, found.st_rdev)?;
                self.copy_attributes_by_name(to, &found)?;
            }
        }
        Ok(None)
    }

    fn open(&mut self, from: &CStr, to: &CStr, found: Stat) -> Result<Option<CopyFrame>, OpError> {
        if self.bounds.is_some() {
            if self.from.depth() >= MAX_DEPTH {
                return Err(Errno::NAMETOOLONG.into());
            }
            if unless_skipped(self.from.enter_unmounted(from), &self.path)?.is_none() {
                return Ok(None);
            }
        } else {
            self.from.enter(from)?;
        }
        mkdirat(self.to.here(), to, Mode::from_raw_mode(0o700))?;
        self.to.enter(to)?;
        self.list(found).map(Some)
    }

    fn list(&mut self, found: Stat) -> Result<CopyFrame, OpError> {
        let mut left = Vec::new();
        each_entry(self.from.here(), |name, _| {
            check(self.cancelled)?;
            if self.bounds.as_ref().is_some_and(|bounds| left.len() >= bounds.entries as usize) {
                return Err(Errno::FBIG.into());
            }
            left.push(name.to_owned());
            Ok::<(), OpError>(())
        })?;
        Ok(CopyFrame { found, left })
    }

    /// Finishes a directory. Mode and times are set last: filling the directory
    /// would change the times, and the mode may forbid leaving it.
    fn close(&mut self, found: &Stat) -> Result<(), Errno> {
        if self.from.depth() == 0 {
            // Both cursors are at their start, which they do not leave.
            let of = |cursor: &TreeCursor| fcntl_dupfd_cloexec(cursor.here(), 0).map(File::from);
            return match copy_attributes(&of(&self.from)?, &of(&self.to)?, found) {
                // The directory belongs to another user, such as the host's root
                // where users are mapped. It was writable, so it is kept as it
                // is.
                Err(Errno::PERM) => Ok(()),
                done => done,
            };
        }
        let original = File::from(self.from.leave()?);
        let made = File::from(self.to.leave()?);
        copy_attributes(&original, &made, found)
    }

    fn copy_file(&self, from: &CStr, to: &CStr) -> Result<(), OpError> {
        let flags = READING | OFlags::NOFOLLOW;
        let original = if self.bounds.is_some() {
            let opened = open_unmounted(self.from.here(), from, flags);
            let Some(original) = unless_skipped(opened, &self.path)? else {
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
            // Holes are kept: one may be larger than any disk.
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
                .map_err(|error| OpError::Fault(failed("copy", &self.path, error)))?;
            done += got as u64;
        }
        ftruncate(&made, done.max(size(&fstat(&original)?)))?;
        copy_attributes(&original, &made, &found)?;
        Ok(())
    }

    /// Copies owner and times of an entry that cannot be opened, where that is
    /// permitted.
    fn copy_attributes_by_name(&self, to: &CStr, found: &Stat) -> Result<(), Errno> {
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

/// Returns what was opened, or nothing for entries that a copy of a home skips.
fn unless_skipped<T>(opened: Result<T, Errno>, path: &Path) -> Result<Option<T>, Errno> {
    match opened {
        Err(errno @ (Errno::ACCESS | Errno::XDEV)) => {
            note(&failed("copy", path, errno).message);
            Ok(None)
        }
        opened => opened.map(Some),
    }
}

/// Copies what a file has besides its content. Owners are kept where that is
/// permitted, as in any move across filesystems.
fn copy_attributes(original: &File, made: &File, found: &Stat) -> Result<(), Errno> {
    let mut mode = permissions(found);
    if !kept_where_permitted(own(made, found))? {
        // A set-user-ID program must not run as a different owner.
        mode &= !0o6000;
    }
    match copy_xattrs(Original::File(original), made) {
        Ok(()) | Err(Errno::PERM | Errno::OPNOTSUPP) => {}
        Err(errno) => return Err(errno),
    }
    fchmod(made, Mode::from_raw_mode(mode))?;
    futimens(made, &times(found))
}

/// Returns whether the owner was kept. A denied change is not a failure.
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

/// Whether a directory was filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filled {
    /// The directory is a copy of the home.
    Yes,
    /// The directory is not empty, or there is no home to copy.
    No,
}

/// Copies the content and attributes of `home` to `to` if `to` is empty. After a
/// failure `to` is empty again.
pub(crate) fn fill(home: &Path, to: &Path) -> Result<Filled, Fault> {
    let target = openat(CWD, to, DIRECTORY, Mode::empty()).or_fault("fill", to)?;
    if !is_empty(&target).or_fault("fill", to)? {
        return Ok(Filled::No);
    }
    let Some(source) = open_home(home, &target).or_fault("copy", home)? else {
        return Ok(Filled::No);
    };
    copy_home(source, target, home).inspect_err(|_| {
        // An empty directory can be filled by the next attempt.
        erase(to, &mut |_| {}).ok();
    })?;
    Ok(Filled::Yes)
}

/// Opens a home. Returns nothing for the root directory, a pseudo filesystem or
/// the directory to be filled.
fn open_home(home: &Path, target: &OwnedFd) -> Result<Option<OwnedFd>, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let source = match open(home, flags, Mode::empty()) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        opened => opened?,
    };
    let found = FileId::of(&fstat(&source)?);
    let other = found != FileId::of(&stat("/")?) && found != FileId::of(&fstat(target)?);
    Ok((other && !is_pseudo_filesystem(source.as_fd())).then_some(source))
}

fn is_empty(directory: &OwnedFd) -> Result<bool, Errno> {
    match each_entry(directory.as_fd(), |_, _| Err(OpError::System(Errno::NOTEMPTY))) {
        Ok(()) => Ok(true),
        Err(OpError::System(Errno::NOTEMPTY)) => Ok(false),
        Err(OpError::System(errno)) => Err(errno),
        Err(OpError::Fault(_)) => Err(Errno::IO),
    }
}

#[cfg(test)]
#[path = "copy_tests.rs"]
mod tests;
