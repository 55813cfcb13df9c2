//! The directory at the top of a tree, and the way to what is below it.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, ResolveFlags, Stat, StatxFlags, fstat, openat, openat2, statat,
    statx,
};
use rustix::io::Errno;
use vestal_wire::limits::MAX_DEPTH;
use vestal_wire::tree::Stamp;

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Longest name of a file on Linux.
const NAME_MAX: usize = 255;

/// Longest path below a root.
const PATH_MAX: usize = 4095;

/// Why an operation on a tree ended.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// The system refused.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The stream of the other side broke off or makes no sense.
    #[error("the stream of the other side is broken: {0}")]
    Stream(io::Error),
    /// A path that is none below a root.
    #[error("a path that is none below a directory")]
    Path,
    /// Nobody waits for it any more.
    #[error("cancelled")]
    Cancelled,
}

/// A directory, held open: whatever is renamed meanwhile, paths lead to what is
/// below it, and through no symbolic link.
#[derive(Debug)]
pub struct OpenTree {
    dir: OwnedFd,
    shown: PathBuf,
}

impl OpenTree {
    /// Opens a directory by its path. A symbolic link at its end is refused.
    pub fn open(path: &Path) -> Result<Self, TreeError> {
        let opened = openat(CWD, path, DIRECTORY, Mode::empty());
        let dir = opened.map_err(|errno| io_error("open", path, errno))?;
        Ok(Self { dir, shown: path.to_owned() })
    }

    /// Takes a directory that is open for reading. The path is for messages only.
    pub fn of(dir: OwnedFd, shown: &Path) -> Self {
        Self { dir, shown: shown.to_owned() }
    }

    /// Returns the path of something below it, for messages.
    pub(crate) fn shown(&self, path: &[u8]) -> PathBuf {
        self.shown.join(OsStr::from_bytes(path))
    }

    pub(crate) fn failed(
        &self,
        doing: &'static str,
        path: &[u8],
        error: impl Into<io::Error>,
    ) -> TreeError {
        TreeError::Io { doing, path: self.shown(path), source: error.into() }
    }

    /// Opens a directory below it for reading; the empty path is itself.
    pub(crate) fn directory(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        if path.is_empty() {
            return openat(&self.dir, c".", DIRECTORY, Mode::empty());
        }
        let beneath =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        loop {
            match openat2(&self.dir, path, DIRECTORY, Mode::empty(), beneath) {
                // Something on the way was renamed at this moment.
                Err(Errno::AGAIN) => {}
                // An old kernel, or a filter of system calls that does not know this one.
                Err(Errno::NOSYS | Errno::PERM) => return self.directory_by_steps(path),
                other => return other,
            }
        }
    }

    pub(crate) fn directory_by_steps(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let mut here = openat(&self.dir, c".", DIRECTORY, Mode::empty())?;
        for name in path.split(|byte| *byte == b'/') {
            here = openat(&here, name, DIRECTORY, Mode::empty())?;
        }
        Ok(here)
    }

    /// Returns the inode's number and the time it was made.
    pub(crate) fn identity(&self) -> Result<(u64, Option<i64>), Errno> {
        let found =
            statx(&self.dir, c"", AtFlags::EMPTY_PATH, StatxFlags::INO | StatxFlags::BTIME)?;
        let known = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME);
        let born = nanoseconds(found.stx_btime.tv_sec, i64::from(found.stx_btime.tv_nsec));
        Ok((found.stx_ino, known.then_some(born)))
    }
}

impl AsFd for OpenTree {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

pub(crate) fn io_error(doing: &'static str, path: &Path, error: impl Into<io::Error>) -> TreeError {
    TreeError::Io { doing, path: path.to_owned(), source: error.into() }
}

/// Returns whether bytes can be the name of an entry.
pub(crate) fn is_name(name: &[u8]) -> bool {
    (1..=NAME_MAX).contains(&name.len())
        && name != b"."
        && name != b".."
        && !name.iter().any(|byte| matches!(byte, b'/' | 0))
}

/// Returns the directory and the name of a path below a root, if it is one.
pub(crate) fn split(path: &[u8]) -> Result<(&[u8], &[u8]), TreeError> {
    let depth = path.split(|byte| *byte == b'/').count();
    let is_path = path.len() <= PATH_MAX
        && depth <= MAX_DEPTH
        && path.split(|byte| *byte == b'/').all(is_name);
    if !is_path {
        return Err(TreeError::Path);
    }
    Ok(match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    })
}

pub(crate) fn stat_of(dir: impl AsFd, name: &[u8]) -> Result<Stat, Errno> {
    statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
}

pub(crate) fn stamp_of_file(file: impl AsFd) -> Result<Stamp, Errno> {
    fstat(file).map(|found| stamp(&found))
}

/// Returns which state of a file this is.
#[allow(
    clippy::cast_possible_wrap,
    clippy::unnecessary_cast,
    clippy::cast_sign_loss,
    clippy::allow_attributes,
    reason = "types of these members differ between architectures"
)]
pub(crate) fn stamp(found: &Stat) -> Stamp {
    Stamp {
        inode: found.st_ino as u64,
        size: u64::try_from(found.st_size).unwrap_or_default(),
        mtime_ns: nanoseconds(found.st_mtime as i64, found.st_mtime_nsec as i64),
        ctime_ns: nanoseconds(found.st_ctime as i64, found.st_ctime_nsec as i64),
    }
}

pub(crate) fn nanoseconds(seconds: i64, nanoseconds: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
}
