//! What was found, on disk.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use crate::store::replace;

const VERSION: u32 = 1;
const NAME: &str = "private.cbor";

/// Largest file that is read: a million directories and more.
const MAX_FILE: u64 = 128 << 20;

/// Trees that are kept at most.
const MANY: usize = 32;

/// What was found in all trees.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(super) struct Kept {
    #[n(0)]
    version: u32,
    #[n(1)]
    pub(super) trees: Vec<Tree>,
}

/// What was found below a directory of the host.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(super) struct Tree {
    #[n(0)]
    source: ByteVec,
    /// When every file of it was looked at, in seconds since 1970.
    #[n(1)]
    pub(super) looked: u64,
    #[n(2)]
    pub(super) top: Node,
}

/// A directory that everyone may enter and list.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(super) struct Node {
    /// Its name in the one above.
    #[n(0)]
    pub(super) name: ByteVec,
    /// Which directory it was, and when it had changed; absent where that was so
    /// lately that more may follow.
    #[n(1)]
    pub(super) stamp: Option<Stamp>,
    /// Names in it that are not for everyone.
    #[n(2)]
    pub(super) private: Vec<ByteVec>,
    /// Directories in it that are.
    #[n(3)]
    pub(super) below: Vec<Self>,
}

/// Which directory it is, and when it changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(super) struct Stamp {
    #[n(0)]
    pub(super) device: u64,
    #[n(1)]
    pub(super) inode: u64,
    /// When something was added to it or removed, in nanoseconds since 1970.
    #[n(2)]
    pub(super) modified: i64,
    /// When that, its owner or its permissions changed.
    #[n(3)]
    pub(super) changed: i64,
}

impl Default for Kept {
    fn default() -> Self {
        Self { version: VERSION, trees: Vec::new() }
    }
}

impl Tree {
    pub(super) fn new(source: &Path, looked: u64, top: Node) -> Self {
        Self { source: source.as_os_str().as_bytes().to_vec().into(), looked, top }
    }
}

impl Kept {
    /// Reads what is kept in a directory; nothing if it is not what this program
    /// writes.
    pub(super) fn read(dir: &Path) -> Self {
        let bytes = read(&dir.join(NAME)).unwrap_or_default();
        let kept: Option<Self> = minicbor::decode(&bytes).ok();
        kept.filter(|kept| kept.version == VERSION).unwrap_or_default()
    }

    pub(super) fn write(&self, dir: &Path) -> io::Result<()> {
        let bytes = minicbor::to_vec(self).map_err(io::Error::other)?;
        replace(&dir.join(NAME), &bytes)
    }

    /// Returns what was found below a directory.
    pub(super) fn tree(&self, source: &Path) -> Option<&Tree> {
        self.trees.iter().find(|tree| OsStr::from_bytes(&tree.source) == source)
    }

    /// Keeps what another one knows of other directories.
    pub(super) fn keep_others(&mut self, other: &Self) {
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
pub(super) fn is_ours(dir: &Path) -> bool {
    // Where it cannot be made it is not there.
    fs::DirBuilder::new().mode(0o700).create(dir).ok();
    let own = rustix::process::geteuid().as_raw();
    fs::symlink_metadata(dir)
        .is_ok_and(|found| found.is_dir() && found.uid() == own && found.mode() & 0o777 == 0o700)
}
