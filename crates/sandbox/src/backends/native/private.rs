//! Files of the system directories that not everyone on the host may read.
//!
//! In root's sandboxes the files of the host's root belong to the sandbox's root,
//! so that packages can be installed over them. Permissions therefore hide
//! nothing there, and files that are not world-readable are left out instead.
//!
//! Scanning every file takes too long for a start, so the result is cached per
//! directory, with the directory's times: a directory in which nothing was added,
//! removed or renamed is not read again. A changed mode of a file does not change
//! its directory. Therefore recently changed directories are read at every start,
//! and everything is read once an hour.

mod scan;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use super::facts::{HostFacts, SystemDirKind};
use crate::mounts::MACHINE_DIR;
use crate::store::replace;

/// Seconds after which everything is scanned again.
const FULL_SCAN_AFTER: u64 = 3600;

/// Private paths by the system directory that contains them, relative to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PrivatePaths(BTreeMap<PathBuf, Vec<PathBuf>>);

impl PrivatePaths {
    /// Returns the private paths in a system directory.
    pub(super) fn of(&self, source: &Path) -> &[PathBuf] {
        self.0.get(source).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns a placeholder path for each directory, for a probe: it shows whether
    /// paths can be left out at all.
    pub(super) fn placeholders(facts: &HostFacts) -> Self {
        let name = || vec![PathBuf::from(".vestal-trial")];
        Self(sources(facts).into_iter().map(|source| (source, name())).collect())
    }

    #[cfg(test)]
    pub(super) fn from_list(list: &[(&str, &[&str])]) -> Self {
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect();
        Self(list.iter().map(|(source, list)| (source.into(), paths(list))).collect())
    }
}

/// Scans the system directories that root's sandboxes show. The cache lies in a
/// directory for all homes if there is one, else in `dir`.
pub(super) fn scan(facts: &HostFacts, dir: &Path) -> io::Result<PrivatePaths> {
    let machine = Path::new(MACHINE_DIR);
    let cache_dir = if is_private_dir(machine) { machine } else { dir };
    scan_sources(&sources(facts), cache_dir, seconds_now())
}

/// Returns the system directories of the host.
fn sources(facts: &HostFacts) -> Vec<PathBuf> {
    let kinds = facts.system.iter().map(|dir| &dir.kind);
    let kinds = kinds.chain(facts.packages.iter().map(|list| &list.kind));
    let sources = kinds.filter_map(|kind| match kind {
        SystemDirKind::Directory { source, .. } => Some(source.clone()),
        SystemDirKind::Link(_) => None,
    });
    sources.collect()
}

fn scan_sources(sources: &[PathBuf], cache_dir: &Path, now: u64) -> io::Result<PrivatePaths> {
    let before = ScanCache::read(cache_dir);
    let mut after = ScanCache::default();
    let mut private = PrivatePaths::default();
    for source in sources {
        let known = before.tree(source).filter(|tree| {
            // A time in the future (the clock was set back) is not trusted.
            tree.scanned_at <= now && now - tree.scanned_at < FULL_SCAN_AFTER
        });
        let scanned_at = known.map_or(now, |tree| tree.scanned_at);
        let top = scan::scan(source, known.map(|tree| &tree.top), now)?;
        private.0.insert(source.clone(), scan::private_paths(&top));
        after.trees.push(SystemTree::new(source, scanned_at, top));
    }
    // Other homes can show other directories.
    after.keep_other_trees(&before);
    if after != before {
        // Without the cache, the next start takes longer.
        if let Err(error) = after.write(cache_dir) {
            tracing::debug!(%error, "cannot write the cache of private paths");
        }
    }
    Ok(private)
}

fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

const CACHE_VERSION: u32 = 1;
const CACHE_FILE: &str = "private.cbor";

/// Largest cache file that is read, enough for a million directories.
const MAX_FILE: u64 = 128 << 20;

/// Most trees in the cache.
const MAX_TREES: usize = 32;

/// The cached scans of all trees.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
struct ScanCache {
    #[n(0)]
    version: u32,
    #[n(1)]
    trees: Vec<SystemTree>,
}

/// The cached scan of a system directory.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
struct SystemTree {
    #[n(0)]
    source: ByteVec,
    /// When all of it was last scanned, in seconds since 1970.
    #[n(1)]
    scanned_at: u64,
    #[n(2)]
    top: Node,
}

/// A directory that everyone may enter and list.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
struct Node {
    /// Its name in its parent.
    #[n(0)]
    name: ByteVec,
    /// Its identity and times; `None` if it changed so recently that it must be read
    /// again.
    #[n(1)]
    stamp: Option<Stamp>,
    /// Names in it that not everyone may read.
    #[n(2)]
    private: Vec<ByteVec>,
    /// Directories in it that everyone may enter and list.
    #[n(3)]
    below: Vec<Self>,
}

/// The identity and times of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
struct Stamp {
    #[n(0)]
    device: u64,
    #[n(1)]
    inode: u64,
    /// mtime in nanoseconds since 1970.
    #[n(2)]
    modified: i64,
    /// ctime in nanoseconds since 1970.
    #[n(3)]
    changed: i64,
}

impl Default for ScanCache {
    fn default() -> Self {
        Self { version: CACHE_VERSION, trees: Vec::new() }
    }
}

impl SystemTree {
    fn new(source: &Path, scanned_at: u64, top: Node) -> Self {
        Self { source: source.as_os_str().as_bytes().to_vec().into(), scanned_at, top }
    }
}

impl ScanCache {
    /// Reads the cache of a directory; an empty one if there is none or it is not
    /// valid.
    fn read(dir: &Path) -> Self {
        let bytes = read(&dir.join(CACHE_FILE)).unwrap_or_default();
        let cache: Option<Self> = minicbor::decode(&bytes).ok();
        cache.filter(|cache| cache.version == CACHE_VERSION).unwrap_or_default()
    }

    fn write(&self, dir: &Path) -> io::Result<()> {
        let bytes = minicbor::to_vec(self).map_err(io::Error::other)?;
        replace(&dir.join(CACHE_FILE), &bytes)
    }

    /// Returns the cached scan of a system directory.
    fn tree(&self, source: &Path) -> Option<&SystemTree> {
        self.trees.iter().find(|tree| OsStr::from_bytes(&tree.source) == source)
    }

    /// Keeps the trees of an older cache that were not scanned now.
    fn keep_other_trees(&mut self, other: &Self) {
        for tree in &other.trees {
            let known = self.trees.iter().any(|own| own.source == tree.source);
            if !known && self.trees.len() < MAX_TREES {
                self.trees.push(tree.clone());
            }
        }
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns whether a directory belongs to this user and is closed to all others. It
/// is made if it is missing.
fn is_private_dir(dir: &Path) -> bool {
    // If it cannot be made, the check below fails.
    fs::DirBuilder::new().mode(0o700).create(dir).ok();
    let own = rustix::process::geteuid().as_raw();
    fs::symlink_metadata(dir)
        .is_ok_and(|found| found.is_dir() && found.uid() == own && found.mode() & 0o777 == 0o700)
}

#[cfg(test)]
#[path = "private_tests.rs"]
mod tests;
