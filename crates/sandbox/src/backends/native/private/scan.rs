//! Scanning a system directory for private paths.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::thread;

use minicbor::bytes::ByteVec;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, Statx, StatxAttributes, StatxFlags, StatxTimestamp,
    makedev, openat, statx,
};
use rustix::io::Errno;

use super::{Node, Stamp};

/// Nanoseconds for which a changed directory is read at every scan: a file in it may
/// get its final mode only later.
const RECENT: i64 = 600 * SECOND;

const SECOND: i64 = 1_000_000_000;

/// Most threads of a scan.
const MAX_THREADS: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PathStatus {
    /// It does not exist.
    Missing,
    /// Not everyone may read it, or it is a mount point, below which a scan would see
    /// another filesystem.
    Private,
    /// A world-readable directory.
    Directory(Stamp),
    /// Another world-readable file, or a link.
    Public,
}

/// A cached directory with the current status of its path.
struct CachedDir<'a> {
    node: &'a Node,
    status: PathStatus,
    below: Vec<Self>,
}

impl<'a> CachedDir<'a> {
    /// Takes one status for each directory, in the order of [`collect`].
    fn of(node: &'a Node, status: &mut impl Iterator<Item = PathStatus>) -> Self {
        let own = status.next().unwrap_or(PathStatus::Missing);
        let below = node.below.iter().map(|below| Self::of(below, status)).collect();
        Self { node, status: own, below }
    }
}

/// Scans a tree. Directories that are unchanged since `before` are not read.
pub(super) fn scan(source: &Path, before: Option<&Node>, now: u64) -> io::Result<Node> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let top = openat(CWD, source, flags, Mode::empty())?;
    let found = stat(&top, Path::new(""))?;
    let stamp = Stamp::of(&found);
    let now = i64::try_from(now).unwrap_or(i64::MAX).saturating_mul(SECOND);
    let scanner = PrivateScanner { top: &top, now };
    let (path, name) = (Path::new(""), ByteVec::from(Vec::new()));
    if found.stx_mode & 0o001 == 0 {
        return scanner.all_private(name);
    }
    match before {
        None => scanner.read(path, name, stamp, &[]),
        Some(node) => {
            let mut status = scanner.statuses(&collect(node)).into_iter();
            scanner.update(path, stamp, &CachedDir::of(node, &mut status))
        }
    }
}

/// Returns the private paths of a tree, relative to its top.
pub(super) fn private_paths(top: &Node) -> Vec<PathBuf> {
    let mut private = Vec::new();
    visit_all(top, Path::new(""), &mut |path, node| {
        private.extend(node.private.iter().map(|name| path.join(OsStr::from_bytes(name))));
    });
    private
}

/// Returns the paths of all directories of a tree, parents before their children.
fn collect(top: &Node) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    visit_all(top, Path::new(""), &mut |path, _| paths.push(path.to_owned()));
    paths
}

fn visit_all(node: &Node, path: &Path, visit: &mut impl FnMut(&Path, &Node)) {
    visit(path, node);
    for below in &node.below {
        visit_all(below, &path.join(OsStr::from_bytes(&below.name)), visit);
    }
}

struct PrivateScanner<'a> {
    top: &'a OwnedFd,
    /// The current time in nanoseconds since 1970.
    now: i64,
}

impl PrivateScanner<'_> {
    /// Returns the status of many paths, with several threads. This is most of the
    /// work if nothing has changed.
    fn statuses(&self, paths: &[PathBuf]) -> Vec<PathStatus> {
        let threads = thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
        let share = paths.len().div_ceil(threads).max(1);
        thread::scope(|scope| {
            let check = |paths: &[PathBuf]| -> Vec<PathStatus> {
                paths.iter().map(|path| status(self.top, path)).collect()
            };
            let threads: Vec<_> = paths
                .chunks(share)
                .map(|paths| (paths, scope.spawn(move || check(paths))))
                .collect();
            let joined = threads.into_iter().map(|(paths, thread)| {
                // A check does not panic; if it did, its paths would count as missing.
                thread.join().unwrap_or_else(|_| vec![PathStatus::Missing; paths.len()])
            });
            joined.flatten().collect()
        })
    }

    /// Updates a cached directory.
    fn update(&self, path: &Path, stamp: Stamp, known: &CachedDir<'_>) -> io::Result<Node> {
        let CachedDir { node, below, .. } = known;
        let name = node.name.clone();
        let mut private = Vec::new();
        for name in &node.private {
            match status(self.top, &path.join(OsStr::from_bytes(name))) {
                PathStatus::Private => private.push(name.clone()),
                PathStatus::Missing => {}
                PathStatus::Directory(_) | PathStatus::Public => {
                    return self.read(path, node.name.clone(), stamp, below);
                }
            }
        }
        if node.stamp != Some(stamp) {
            return self.read(path, name, stamp, below);
        }
        let mut directories = Vec::new();
        for known in below {
            let name = &known.node.name;
            match known.status {
                PathStatus::Directory(stamp) => {
                    let path = path.join(OsStr::from_bytes(name));
                    add(name, self.update(&path, stamp, known), &mut directories, &mut private);
                }
                PathStatus::Private => private.push(name.clone()),
                // It was removed after its parent was checked.
                PathStatus::Missing | PathStatus::Public => {}
            }
        }
        Ok(Node { name, stamp: self.unless_recent(stamp), private, below: directories })
    }

    /// Reads a directory, using what is cached of its subdirectories.
    fn read(
        &self,
        path: &Path,
        name: ByteVec,
        stamp: Stamp,
        known: &[CachedDir<'_>],
    ) -> io::Result<Node> {
        let known: BTreeMap<&[u8], &CachedDir<'_>> =
            known.iter().map(|known| (known.node.name.as_slice(), known)).collect();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let here = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let dir = openat(self.top, here, flags, Mode::empty())?;
        let (mut private, mut below) = (Vec::new(), Vec::new());
        for entry in Dir::read_from(&dir)? {
            let entry = entry?;
            let bytes = entry.file_name().to_bytes();
            if matches!(bytes, b"." | b"..") || entry.file_type() == FileType::Symlink {
                continue;
            }
            let name = ByteVec::from(bytes.to_vec());
            match status(&dir, Path::new(OsStr::from_bytes(bytes))) {
                PathStatus::Missing | PathStatus::Public => {}
                PathStatus::Private => private.push(name),
                PathStatus::Directory(stamp) => {
                    let path = path.join(OsStr::from_bytes(bytes));
                    let found = match known.get(bytes) {
                        Some(known) => self.update(&path, stamp, known),
                        None => self.read(&path, name.clone(), stamp, &[]),
                    };
                    add(&name, found, &mut below, &mut private);
                }
            }
        }
        // The order must not depend on the filesystem.
        private.sort_unstable_by(|a, b| a.as_slice().cmp(b));
        below.sort_unstable_by(|a, b| a.name.as_slice().cmp(&b.name));
        Ok(Node { name, stamp: self.unless_recent(stamp), private, below })
    }

    /// Returns a top directory that not everyone may enter: all entries are private.
    fn all_private(&self, name: ByteVec) -> io::Result<Node> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = openat(self.top, ".", flags, Mode::empty())?;
        let mut private = Vec::new();
        for entry in Dir::read_from(&dir)? {
            let entry = entry?;
            let bytes = entry.file_name().to_bytes();
            if !matches!(bytes, b"." | b"..") {
                private.push(ByteVec::from(bytes.to_vec()));
            }
        }
        private.sort_unstable_by(|a, b| a.as_slice().cmp(b));
        Ok(Node { name, stamp: None, private, below: Vec::new() })
    }

    /// Returns the stamp of a directory, unless it changed recently.
    fn unless_recent(&self, stamp: Stamp) -> Option<Stamp> {
        let last = stamp.modified.max(stamp.changed);
        (last < self.now.saturating_sub(RECENT)).then_some(stamp)
    }
}

/// Adds a subdirectory. One that cannot be read is private.
fn add(name: &ByteVec, found: io::Result<Node>, below: &mut Vec<Node>, private: &mut Vec<ByteVec>) {
    match found {
        Ok(node) => below.push(node),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(_) => private.push(name.clone()),
    }
}

impl Stamp {
    fn of(found: &Statx) -> Self {
        let time = |time: &StatxTimestamp| {
            time.tv_sec.saturating_mul(SECOND).saturating_add(i64::from(time.tv_nsec))
        };
        Self {
            device: makedev(found.stx_dev_major, found.stx_dev_minor),
            inode: found.stx_ino,
            modified: time(&found.stx_mtime),
            changed: time(&found.stx_ctime),
        }
    }
}

fn stat(dir: &OwnedFd, path: &Path) -> rustix::io::Result<Statx> {
    let wanted = StatxFlags::BASIC_STATS;
    let flags = AtFlags::SYMLINK_NOFOLLOW
        | AtFlags::NO_AUTOMOUNT
        | AtFlags::STATX_DONT_SYNC
        | AtFlags::EMPTY_PATH;
    statx(dir, path, flags, wanted)
}

fn status(dir: &OwnedFd, path: &Path) -> PathStatus {
    let found = match stat(dir, path) {
        Ok(found) => found,
        Err(Errno::NOENT | Errno::NOTDIR) => return PathStatus::Missing,
        Err(_) => return PathStatus::Private,
    };
    let mode = u32::from(found.stx_mode);
    let kind = FileType::from_raw_mode(mode);
    let is_mount_point = found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT);
    match kind {
        FileType::Symlink => PathStatus::Public,
        _ if is_mount_point || !is_public(kind, mode) => PathStatus::Private,
        FileType::Directory => PathStatus::Directory(Stamp::of(&found)),
        _ => PathStatus::Public,
    }
}

/// Returns whether everyone may read a file, or enter and list a directory. A setuid
/// or setgid program that everyone may run also counts: its content is not secret.
fn is_public(kind: FileType, mode: u32) -> bool {
    match kind {
        FileType::Directory => mode & 0o005 == 0o005,
        _ => mode & 0o004 != 0 || (mode & 0o6000 != 0 && mode & 0o001 != 0),
    }
}
