//! What of the host's system directories is not for everyone.
//!
//! Root's sandboxes show the files of the host's root as those of their own, so
//! that packages can be installed over them, and there permissions keep nobody
//! out. So what others may not read on the host is left out of what is shown.
//!
//! To look at every file takes too long for a start. What was found is kept by
//! directory, with the times of the directory: one to which nothing was added,
//! removed or renamed is taken as it was. A file whose permissions change where
//! it is changes no directory. So directories that changed lately are looked at
//! again each time, and everything is from time to time.

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

use super::facts::{Facts, SystemDirKind};
use crate::mounts::MACHINE_DIR;
use crate::store::replace;

/// Seconds after which everything is looked at again.
const WHOLE: u64 = 3600;

/// What is not shown, by the directory of the host that it is in, and relative to
/// that.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Private(BTreeMap<PathBuf, Vec<PathBuf>>);

impl Private {
    /// Returns what is not shown of a directory of the host.
    pub(super) fn of(&self, source: &Path) -> &[PathBuf] {
        self.0.get(source).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns one thing that is not shown in each directory, to try whether
    /// anything can be left out at all.
    pub(super) fn made_up(facts: &Facts) -> Self {
        let name = || vec![PathBuf::from(".vestal-trial")];
        Self(sources(facts).into_iter().map(|source| (source, name())).collect())
    }

    #[cfg(test)]
    pub(super) fn from_list(list: &[(&str, &[&str])]) -> Self {
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect();
        Self(list.iter().map(|(source, list)| (source.into(), paths(list))).collect())
    }
}

/// Looks at the system directories that root's sandboxes show. What is found is
/// kept for all homes, or else in `dir`.
pub(super) fn look(facts: &Facts, dir: &Path) -> io::Result<Private> {
    let machine = Path::new(MACHINE_DIR);
    let place = if is_ours(machine) { machine } else { dir };
    look_at(&sources(facts), place, seconds_now())
}

/// Returns the directories of the host that layers are put over.
fn sources(facts: &Facts) -> Vec<PathBuf> {
    let kinds = facts.system.iter().map(|dir| &dir.kind);
    let kinds = kinds.chain(facts.packages.iter().map(|list| &list.kind));
    let sources = kinds.filter_map(|kind| match kind {
        SystemDirKind::Directory { source, .. } => Some(source.clone()),
        SystemDirKind::Link(_) => None,
    });
    sources.collect()
}

fn look_at(sources: &[PathBuf], place: &Path, now: u64) -> io::Result<Private> {
    let before = Kept::read(place);
    let mut after = Kept::default();
    let mut private = Private::default();
    for source in sources {
        let known = before.tree(source).filter(|tree| {
            // A clock that was set back makes nothing new.
            tree.looked <= now && now - tree.looked < WHOLE
        });
        let looked = known.map_or(now, |tree| tree.looked);
        let top = scan::look(source, known.map(|tree| &tree.top), now)?;
        private.0.insert(source.clone(), scan::private(&top));
        after.trees.push(Tree::new(source, looked, top));
    }
    // The sandboxes of another root on this machine have their own.
    after.keep_others(&before);
    if after != before {
        // Without it the next start takes longer.
        if let Err(error) = after.write(place) {
            tracing::debug!(%error, "what is private is not kept");
        }
    }
    Ok(private)
}

fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

const VERSION: u32 = 1;
const NAME: &str = "private.cbor";

/// Largest file that is read: a million directories and more.
const MAX_FILE: u64 = 128 << 20;

/// Trees that are kept at most.
const MANY: usize = 32;

/// What was found in all trees.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
struct Kept {
    #[n(0)]
    version: u32,
    #[n(1)]
    trees: Vec<Tree>,
}

/// What was found below a directory of the host.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
struct Tree {
    #[n(0)]
    source: ByteVec,
    /// When every file of it was looked at, in seconds since 1970.
    #[n(1)]
    looked: u64,
    #[n(2)]
    top: Node,
}

/// A directory that everyone may enter and list.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
struct Node {
    /// Its name in the one above.
    #[n(0)]
    name: ByteVec,
    /// Which directory it was, and when it had changed; absent where that was so
    /// lately that more may follow.
    #[n(1)]
    stamp: Option<Stamp>,
    /// Names in it that are not for everyone.
    #[n(2)]
    private: Vec<ByteVec>,
    /// Directories in it that are.
    #[n(3)]
    below: Vec<Self>,
}

/// Which directory it is, and when it changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
struct Stamp {
    #[n(0)]
    device: u64,
    #[n(1)]
    inode: u64,
    /// When something was added to it or removed, in nanoseconds since 1970.
    #[n(2)]
    modified: i64,
    /// When that, its owner or its permissions changed.
    #[n(3)]
    changed: i64,
}

impl Default for Kept {
    fn default() -> Self {
        Self { version: VERSION, trees: Vec::new() }
    }
}

impl Tree {
    fn new(source: &Path, looked: u64, top: Node) -> Self {
        Self { source: source.as_os_str().as_bytes().to_vec().into(), looked, top }
    }
}

impl Kept {
    /// Reads what is kept in a directory; nothing if it is not what this program
    /// writes.
    fn read(dir: &Path) -> Self {
        let bytes = read(&dir.join(NAME)).unwrap_or_default();
        let kept: Option<Self> = minicbor::decode(&bytes).ok();
        kept.filter(|kept| kept.version == VERSION).unwrap_or_default()
    }

    fn write(&self, dir: &Path) -> io::Result<()> {
        let bytes = minicbor::to_vec(self).map_err(io::Error::other)?;
        replace(&dir.join(NAME), &bytes)
    }

    /// Returns what was found below a directory.
    fn tree(&self, source: &Path) -> Option<&Tree> {
        self.trees.iter().find(|tree| OsStr::from_bytes(&tree.source) == source)
    }

    /// Keeps what another one knows of other directories.
    fn keep_others(&mut self, other: &Self) {
        for tree in &other.trees {
            let known = self.trees.iter().any(|own| own.source == tree.source);
            if !known && self.trees.len() < MANY {
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

/// Returns whether a directory, which is made if it is missing, is this user's
/// and nobody else's.
fn is_ours(dir: &Path) -> bool {
    // Where it cannot be made it is not there.
    fs::DirBuilder::new().mode(0o700).create(dir).ok();
    let own = rustix::process::geteuid().as_raw();
    fs::symlink_metadata(dir)
        .is_ok_and(|found| found.is_dir() && found.uid() == own && found.mode() & 0o777 == 0o700)
}

#[cfg(test)]
#[path = "private_tests.rs"]
mod tests;
