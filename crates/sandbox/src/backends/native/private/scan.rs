//! Looking at a tree of the host.

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

/// Nanoseconds for which a directory is looked at each time after it changed:
/// whoever makes a file may close it only afterwards.
const LATELY: i64 = 600 * SECOND;

const SECOND: i64 = 1_000_000_000;

/// Most threads that look at directories.
const THREADS: usize = 4;

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// Nothing.
    Nothing,
    /// What not everyone may read; or what something is mounted over, so that it
    /// cannot be looked at.
    Private,
    /// A directory for everyone.
    Directory(Stamp),
    /// Something else for everyone.
    Public,
}

/// A directory as it was before, and what its name stands for now.
struct Known<'a> {
    node: &'a Node,
    seen: Seen,
    below: Vec<Self>,
}

impl<'a> Known<'a> {
    /// Takes what was seen of each directory, in the order of [`collect`].
    fn of(node: &'a Node, seen: &mut impl Iterator<Item = Seen>) -> Self {
        let own = seen.next().unwrap_or(Seen::Nothing);
        let below = node.below.iter().map(|below| Self::of(below, seen)).collect();
        Self { node, seen: own, below }
    }
}

/// Looks at a tree. Directories that are as they were in `before` are not read
/// again.
pub(super) fn look(source: &Path, before: Option<&Node>, now: u64) -> io::Result<Node> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let top = openat(CWD, source, flags, Mode::empty())?;
    let found = ask(&top, Path::new(""))?;
    let stamp = Stamp::of(&found);
    let now = i64::try_from(now).unwrap_or(i64::MAX).saturating_mul(SECOND);
    let looker = Looker { top: &top, now };
    let (path, name) = (Path::new(""), ByteVec::from(Vec::new()));
    if found.stx_mode & 0o001 == 0 {
        return looker.closed(name);
    }
    match before {
        None => looker.read(path, name, stamp, &[]),
        Some(node) => {
            let mut seen = looker.see_all(&collect(node)).into_iter();
            looker.renew(path, stamp, &Known::of(node, &mut seen))
        }
    }
}

/// Returns what is private in a tree, relative to its top.
pub(super) fn private(top: &Node) -> Vec<PathBuf> {
    let mut private = Vec::new();
    each(top, Path::new(""), &mut |path, node| {
        private.extend(node.private.iter().map(|name| path.join(OsStr::from_bytes(name))));
    });
    private
}

/// Returns the paths of all directories of a tree, each before those below it.
fn collect(top: &Node) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    each(top, Path::new(""), &mut |path, _| paths.push(path.to_owned()));
    paths
}

fn each(node: &Node, path: &Path, visit: &mut impl FnMut(&Path, &Node)) {
    visit(path, node);
    for below in &node.below {
        each(below, &path.join(OsStr::from_bytes(&below.name)), visit);
    }
}

struct Looker<'a> {
    top: &'a OwnedFd,
    /// The time now, in nanoseconds since 1970.
    now: i64,
}

impl Looker<'_> {
    /// Sees what paths stand for, several at a time: that is most of the work
    /// where nothing has changed.
    fn see_all(&self, paths: &[PathBuf]) -> Vec<Seen> {
        let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS);
        let share = paths.len().div_ceil(threads).max(1);
        thread::scope(|scope| {
            let see = |paths: &[PathBuf]| -> Vec<Seen> {
                paths.iter().map(|path| see(self.top, path)).collect()
            };
            let threads: Vec<_> =
                paths.chunks(share).map(|paths| (paths, scope.spawn(move || see(paths)))).collect();
            let joined = threads.into_iter().map(|(paths, thread)| {
                // What was not seen is looked for by whoever comes to it.
                thread.join().unwrap_or_else(|_| vec![Seen::Nothing; paths.len()])
            });
            joined.flatten().collect()
        })
    }

    /// Returns a directory that was looked at before as it is now.
    fn renew(&self, path: &Path, stamp: Stamp, known: &Known<'_>) -> io::Result<Node> {
        let Known { node, below, .. } = known;
        let name = node.name.clone();
        let mut private = Vec::new();
        for name in &node.private {
            match see(self.top, &path.join(OsStr::from_bytes(name))) {
                Seen::Private => private.push(name.clone()),
                Seen::Nothing => {}
                Seen::Directory(_) | Seen::Public => {
                    return self.read(path, node.name.clone(), stamp, below);
                }
            }
        }
        if node.stamp != Some(stamp) {
            return self.read(path, name, stamp, below);
        }
        let mut kept = Vec::new();
        for known in below {
            let name = &known.node.name;
            match known.seen {
                Seen::Directory(stamp) => {
                    let path = path.join(OsStr::from_bytes(name));
                    add(name, self.renew(&path, stamp, known), &mut kept, &mut private);
                }
                Seen::Private => private.push(name.clone()),
                // It was removed since the directory above was seen.
                Seen::Nothing | Seen::Public => {}
            }
        }
        Ok(Node { name, stamp: self.settled(stamp), private, below: kept })
    }

    /// Reads a directory, with what is known of directories in it.
    fn read(
        &self,
        path: &Path,
        name: ByteVec,
        stamp: Stamp,
        known: &[Known<'_>],
    ) -> io::Result<Node> {
        let known: BTreeMap<&[u8], &Known<'_>> =
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
            match see(&dir, Path::new(OsStr::from_bytes(bytes))) {
                Seen::Nothing | Seen::Public => {}
                Seen::Private => private.push(name),
                Seen::Directory(stamp) => {
                    let path = path.join(OsStr::from_bytes(bytes));
                    let found = match known.get(bytes) {
                        Some(known) => self.renew(&path, stamp, known),
                        None => self.read(&path, name.clone(), stamp, &[]),
                    };
                    add(&name, found, &mut below, &mut private);
                }
            }
        }
        // In an order that does not depend on the filesystem.
        private.sort_unstable_by(|a, b| a.as_slice().cmp(b));
        below.sort_unstable_by(|a, b| a.name.as_slice().cmp(&b.name));
        Ok(Node { name, stamp: self.settled(stamp), private, below })
    }

    /// Returns a top that not everyone may enter: all in it is private.
    fn closed(&self, name: ByteVec) -> io::Result<Node> {
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

    /// Returns when a directory changed, unless that was lately.
    fn settled(&self, stamp: Stamp) -> Option<Stamp> {
        let last = stamp.modified.max(stamp.changed);
        (last < self.now.saturating_sub(LATELY)).then_some(stamp)
    }
}

/// Adds a directory to those that are shown. One that cannot be looked at is
/// not.
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

fn ask(dir: &OwnedFd, path: &Path) -> rustix::io::Result<Statx> {
    let wanted = StatxFlags::BASIC_STATS;
    let flags = AtFlags::SYMLINK_NOFOLLOW
        | AtFlags::NO_AUTOMOUNT
        | AtFlags::STATX_DONT_SYNC
        | AtFlags::EMPTY_PATH;
    statx(dir, path, flags, wanted)
}

fn see(dir: &OwnedFd, path: &Path) -> Seen {
    let found = match ask(dir, path) {
        Ok(found) => found,
        Err(Errno::NOENT | Errno::NOTDIR) => return Seen::Nothing,
        Err(_) => return Seen::Private,
    };
    let mode = u32::from(found.stx_mode);
    let kind = FileType::from_raw_mode(mode);
    let covered = found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT);
    match kind {
        FileType::Symlink => Seen::Public,
        _ if covered || !is_for_everyone(kind, mode) => Seen::Private,
        FileType::Directory => Seen::Directory(Stamp::of(&found)),
        _ => Seen::Public,
    }
}

/// Returns whether everyone may read a file, or enter and list a directory.
/// Programs that run with the rights of another user are often closed to
/// readers, and hold no secret for it.
fn is_for_everyone(kind: FileType, mode: u32) -> bool {
    match kind {
        FileType::Directory => mode & 0o005 == 0o005,
        _ => mode & 0o004 != 0 || (mode & 0o6000 != 0 && mode & 0o001 != 0),
    }
}
