//! Listing all directories of a tree that are not as they were.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Dir, FileType, fstat, readlinkat};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use sha2::{Digest as _, Sha256};
use vestal_wire::FileKind;
use vestal_wire::limits::{MAX_DEPTH, MAX_LISTED};
use vestal_wire::tree::{Listing, ListingDigest, Stamp, TreeItem, TreeRoot, is_temporary};

use crate::ignore::{IgnoreDecision, IgnoreRules};
use crate::root::{OpenTree, TreeError, nanoseconds, stamp, stat_of};

/// Bytes of names and targets in one listing of a directory.
const LISTED_BYTES: usize = 256 << 10;

/// Directories that the other side knows, by their paths.
pub(crate) type Known = HashMap<Vec<u8>, ListingDigest>;

impl OpenTree {
    /// Returns what the root is now.
    pub(crate) fn describe(&self) -> Result<TreeRoot, TreeError> {
        let (inode, born_ns) =
            self.identity().map_err(|errno| self.failed("look at", b"", errno))?;
        let now = clock_gettime(ClockId::Realtime);
        Ok(TreeRoot { inode, born_ns, now_ns: nanoseconds(now.tv_sec, now.tv_nsec) })
    }

    /// Lists all directories whose listings are not the known ones, each before those
    /// that are in it.
    pub(crate) fn scan(
        &self,
        rules: &IgnoreRules,
        known: &Known,
        cancelled: &AtomicBool,
        each: &mut dyn FnMut(Listing) -> Result<(), TreeError>,
    ) -> Result<(), TreeError> {
        let device = fstat(self).map_err(|errno| self.failed("look at", b"", errno))?.st_dev;
        let mut open: Vec<Vec<u8>> = vec![Vec::new()];
        while let Some(path) = open.pop() {
            if cancelled.load(Ordering::Relaxed) {
                return Err(TreeError::Cancelled);
            }
            let read = match self.read_directory(&path, rules, device) {
                // Removed since its parent was read, whose listing will be another one.
                Err(Errno::NOENT) if !path.is_empty() => continue,
                Err(errno) => Err(std::io::Error::from(errno).to_string()),
                Ok(found) => Ok(found),
            };
            let found = match read {
                Ok(found) => found,
                Err(reason) if path.is_empty() => {
                    return Err(self.failed("read", b"", std::io::Error::other(reason)));
                }
                Err(reason) => {
                    each(unreadable(path, reason))?;
                    continue;
                }
            };
            let depth = path.split(|byte| *byte == b'/').count() + 1;
            for entry in found.entries.iter().rev() {
                if entry.kind == FileKind::Directory {
                    let below = join(&path, &entry.name);
                    if depth < MAX_DEPTH && below.len() < 3800 {
                        open.push(below);
                    } else {
                        each(unreadable(below, "it is too deep down".to_owned()))?;
                    }
                }
            }
            let digest = found.digest();
            if known.get(&path) != Some(&digest) {
                found.send(&path, digest, each)?;
            }
        }
        Ok(())
    }

    fn read_directory(
        &self,
        path: &[u8],
        rules: &IgnoreRules,
        device: u64,
    ) -> Result<Found, Errno> {
        let dir = self.directory(path)?;
        let mut found = Found { is_mounted: fstat(&dir)?.st_dev != device, ..Found::default() };
        for entry in Dir::read_from(&dir)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            if is_temporary(name) {
                found.temporary.push(name.to_vec());
                continue;
            }
            let stat = match stat_of(&dir, name) {
                Ok(stat) => stat,
                // It was removed meanwhile.
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(errno),
            };
            let kind = kind(FileType::from_raw_mode(stat.st_mode));
            let is_directory = kind == FileKind::Directory;
            if !rules.is_empty() {
                let whole = join(path, name);
                let decision = rules.decision(&whole, name, is_directory);
                if decision == Some(IgnoreDecision::Ignored) {
                    found.ignored += 1;
                    continue;
                }
            }
            let target = match kind {
                FileKind::Symlink => match readlinkat(&dir, name, Vec::new()) {
                    Ok(target) => Some(target.into_bytes().into()),
                    Err(_) => continue,
                },
                _ => None,
            };
            found.entries.push(TreeItem {
                name: name.to_vec().into(),
                kind,
                mode: stat.st_mode & 0o7777,
                stamp: if is_directory { Stamp::default() } else { stamp(&stat) },
                target,
            });
        }
        found.entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        found.temporary.sort_unstable();
        Ok(found)
    }
}

/// What is in a directory.
#[derive(Default)]
struct Found {
    entries: Vec<TreeItem>,
    ignored: u64,
    temporary: Vec<Vec<u8>>,
    is_mounted: bool,
}

impl Found {
    fn digest(&self) -> ListingDigest {
        let mut hasher = Sha256::new();
        let mut put = |bytes: &[u8]| {
            hasher.update(bytes.len().to_le_bytes());
            hasher.update(bytes);
        };
        put(&self.ignored.to_le_bytes());
        for entry in &self.entries {
            let Stamp { inode, size, mtime_ns, ctime_ns } = entry.stamp;
            put(&entry.name);
            put(&[entry.kind as u8]);
            put(&entry.mode.to_le_bytes());
            put(&inode.to_le_bytes());
            put(&size.to_le_bytes());
            put(&mtime_ns.to_le_bytes());
            put(&ctime_ns.to_le_bytes());
            put(entry.target.as_ref().map_or(&[], |target| target.as_slice()));
        }
        for name in &self.temporary {
            put(name);
        }
        if self.is_mounted {
            put(b"/mounted");
        }
        let whole = hasher.finalize();
        let mut half = [0; 16];
        half.copy_from_slice(&whole[..16]);
        half.into()
    }

    fn send(
        self,
        path: &[u8],
        digest: ListingDigest,
        each: &mut dyn FnMut(Listing) -> Result<(), TreeError>,
    ) -> Result<(), TreeError> {
        let Self { entries, ignored, temporary, is_mounted } = self;
        let mut page = Listing {
            path: path.to_vec().into(),
            digest,
            entries: Vec::new(),
            ignored,
            more: true,
            unreadable: None,
            temporary: temporary.into_iter().take(MAX_LISTED).map(Into::into).collect(),
            is_mounted: Some(is_mounted),
        };
        let mut bytes = 0;
        for entry in entries {
            bytes += entry.name.len() + entry.target.as_ref().map_or(0, |target| target.len());
            if page.entries.len() == MAX_LISTED || bytes > LISTED_BYTES {
                bytes = 0;
                let next = Listing { entries: Vec::new(), temporary: Vec::new(), ..page.clone() };
                each(std::mem::replace(&mut page, next))?;
            }
            page.entries.push(entry);
        }
        page.more = false;
        each(page)
    }
}

fn unreadable(path: Vec<u8>, reason: String) -> Listing {
    Listing {
        path: path.into(),
        // No digest of a listing begins so, and this one is never taken as known.
        digest: [0; 16].into(),
        entries: Vec::new(),
        ignored: 0,
        more: false,
        unreadable: Some(reason),
        temporary: Vec::new(),
        is_mounted: None,
    }
}

pub(crate) fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() { name.to_vec() } else { [directory, b"/", name].concat() }
}

fn kind(kind: FileType) -> FileKind {
    match kind {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        _ => FileKind::Other,
    }
}
