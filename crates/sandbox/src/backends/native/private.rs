//! Files of the system directories that not everyone on the host may read.
//!
//! In root's sandboxes the files of the host's root belong to the sandbox's root,
//! so that packages can be installed over them. Permissions therefore hide
//! nothing there. Two things keep private files from a sandbox:
//!
//! - The kernel reads the system directories for it with the rights that everyone
//!   has ([`vestal_wire::OverlayDirs::public_only`]). What is private when it is
//!   opened cannot be read, whenever it became so.
//! - They are left out, as if they were not there: a package manager stumbles over
//!   a file that it sees and can neither read nor replace. For this they are
//!   searched for, at most once an hour.
//!
//! Where the kernel cannot stack a further overlay (the host's root is one itself),
//! leaving them out is all that keeps them private, and they are searched for at
//! every start.
//!
//! Scanning every file takes too long for a start, so the result is cached per
//! directory, with the directory's times: a directory in which nothing was added,
//! removed or renamed is not read again. A changed mode of a file does not change
//! its directory. Therefore recently changed directories are read at every scan,
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

use super::cgroups::MountLine;
use super::facts::{HostFacts, SystemDirKind};
use crate::mounts::MACHINE_DIR;
use crate::store::replace;

/// Seconds after which everything is scanned again.
const FULL_SCAN_AFTER: u64 = 3600;

/// What is private in the system directories, and what keeps it from a sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PrivatePaths {
    /// The private paths by the system directory that contains them, relative to it.
    paths: BTreeMap<PathBuf, Vec<PathBuf>>,
    /// Whether the kernel keeps what is private from a sandbox, also what is not
    /// listed.
    is_kept_by_kernel: bool,
}

impl PrivatePaths {
    /// Returns the private paths in a system directory.
    pub(super) fn of(&self, source: &Path) -> &[PathBuf] {
        self.paths.get(source).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns whether the kernel keeps what is private from a sandbox.
    pub(super) fn is_kept_by_kernel(&self) -> bool {
        self.is_kept_by_kernel
    }

    /// Returns a placeholder path for each directory, for a probe: it shows whether
    /// paths can be left out at all.
    pub(super) fn placeholders(facts: &HostFacts) -> Self {
        let name = || vec![PathBuf::from(".vestal-trial")];
        let sources = sources(facts);
        let is_kept_by_kernel = sources.iter().all(|source| can_be_below_two_overlays(source));
        let paths = sources.into_iter().map(|source| (source, name())).collect();
        Self { paths, is_kept_by_kernel }
    }

    #[cfg(test)]
    pub(super) fn from_list(list: &[(&str, &[&str])]) -> Self {
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect();
        let paths = list.iter().map(|(source, list)| (source.into(), paths(list))).collect();
        Self { paths, is_kept_by_kernel: false }
    }

    #[cfg(test)]
    pub(super) fn kept_by_kernel(self) -> Self {
        Self { is_kept_by_kernel: true, ..self }
    }
}

/// Returns what is private in the system directories that root's sandboxes show. The
/// caches lie in a directory for all homes if there is one, else in `dir`.
pub(super) fn find(facts: &HostFacts, dir: &Path) -> io::Result<PrivatePaths> {
    let machine = Path::new(MACHINE_DIR);
    let cache_dir = if is_private_dir(machine) { machine } else { dir };
    let sources = sources(facts);
    if sources.iter().all(|source| can_be_below_two_overlays(source)) {
        find_what_to_leave_out(&sources, cache_dir, seconds_now())
    } else {
        scan_sources(&sources, cache_dir, seconds_now())
    }
}

/// Returns what to leave out where the kernel keeps it private in any case: what the
/// last search found, if that was lately.
fn find_what_to_leave_out(
    sources: &[PathBuf],
    cache_dir: &Path,
    now: u64,
) -> io::Result<PrivatePaths> {
    let known = LeftOut::read(cache_dir).filter(|known| known.is_of(sources, now));
    let mut private = match known {
        Some(known) => known.into_paths(),
        None => {
            let found = scan_sources(sources, cache_dir, now)?;
            if let Err(error) = LeftOut::new(&found, now).write(cache_dir) {
                tracing::debug!(%error, "cannot write the list of private paths");
            }
            found
        }
    };
    // What is mounted over a directory does not show there, and what it covers may
    // have been readable before.
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    private.add_mount_points(&mounts);
    private.is_kept_by_kernel = true;
    Ok(private)
}

/// Returns whether the kernel accepts two overlays above a directory: its filesystem
/// must not lie over another one itself.
fn can_be_below_two_overlays(dir: &Path) -> bool {
    const OVERLAY: u64 = 0x794c_7630;
    const ECRYPTFS: u64 = 0xf15f;
    const FUSE: u64 = 0x6573_5546;
    let kind = rustix::fs::statfs(dir).ok().and_then(|found| u64::try_from(found.f_type).ok());
    kind.is_some_and(|kind| ![OVERLAY, ECRYPTFS, FUSE].contains(&kind))
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
        private.paths.insert(source.clone(), scan::private_paths(&top));
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

impl PrivatePaths {
    /// Adds the mount points in the system directories, of the lines of `mountinfo`.
    fn add_mount_points(&mut self, mounts: &str) {
        for line in mounts.lines().filter_map(MountLine::parse) {
            for (source, paths) in &mut self.paths {
                let Ok(below) = Path::new(line.point()).strip_prefix(source) else { continue };
                let is_known = paths.iter().any(|known| below.starts_with(known));
                if !is_known && !below.as_os_str().is_empty() {
                    paths.push(below.to_owned());
                }
            }
        }
    }
}

/// What a search has found, by itself: it is read at every start, and the cache of the
/// search is a hundred times as large.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
struct LeftOut {
    #[n(0)]
    version: u32,
    /// When it was searched, in seconds since 1970.
    #[n(1)]
    searched_at: u64,
    #[n(2)]
    trees: Vec<LeftOutTree>,
}

/// What was found in a system directory.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
struct LeftOutTree {
    #[n(0)]
    source: ByteVec,
    #[n(1)]
    paths: Vec<ByteVec>,
}

const LEFT_OUT_FILE: &str = "left-out.cbor";

impl LeftOut {
    fn new(found: &PrivatePaths, now: u64) -> Self {
        let bytes = |path: &PathBuf| ByteVec::from(path.as_os_str().as_bytes().to_vec());
        let trees = found.paths.iter().map(|(source, paths)| LeftOutTree {
            source: bytes(source),
            paths: paths.iter().map(bytes).collect(),
        });
        Self { version: CACHE_VERSION, searched_at: now, trees: trees.collect() }
    }

    /// Returns whether it is of these directories, and lately.
    fn is_of(&self, sources: &[PathBuf], now: u64) -> bool {
        let has = |source: &PathBuf| {
            self.trees.iter().any(|tree| *tree.source == *source.as_os_str().as_bytes())
        };
        // A time in the future (the clock was set back) is not trusted.
        let is_recent = self.searched_at <= now && now - self.searched_at < FULL_SCAN_AFTER;
        self.version == CACHE_VERSION && is_recent && sources.iter().all(has)
    }

    fn into_paths(self) -> PrivatePaths {
        let path = |bytes: &ByteVec| PathBuf::from(OsStr::from_bytes(bytes));
        let trees = self.trees.iter();
        let paths = trees.map(|tree| (path(&tree.source), tree.paths.iter().map(path).collect()));
        PrivatePaths { paths: paths.collect(), is_kept_by_kernel: false }
    }

    fn read(dir: &Path) -> Option<Self> {
        minicbor::decode(&read(&dir.join(LEFT_OUT_FILE)).ok()?).ok()
    }

    fn write(&self, dir: &Path) -> io::Result<()> {
        let bytes = minicbor::to_vec(self).map_err(io::Error::other)?;
        replace(&dir.join(LEFT_OUT_FILE), &bytes)
    }
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
