//! What both sides had when they last agreed, on disk beside the sandbox's record.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use vestal_wire::tree::{ContentHash, TreeRoot};

use super::plan::{AgreedStates, State};
use super::survey::{KnownListing, TreeSurvey};
use crate::store::{StoreError, replace};

const VERSION: u64 = 1;

/// Largest file that is read.
const MAX_FILE: u64 = 1 << 30;

/// Name of the file in the sandbox's directory.
pub(crate) const FILE: &str = "sync.cbor";

/// What is known of both sides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Agreement {
    pub(crate) base: AgreedStates,
    pub(crate) here: TreeSurvey,
    pub(crate) there: TreeSurvey,
    /// Whether there was nothing left to do, and nothing to say.
    pub(crate) is_settled: bool,
}

/// Which directory of a side was agreed about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct RootMark {
    #[n(0)]
    inode: u64,
    #[n(1)]
    born_ns: Option<i64>,
}

impl From<&TreeRoot> for RootMark {
    fn from(root: &TreeRoot) -> Self {
        Self { inode: root.inode, born_ns: root.born_ns }
    }
}

/// The roots of both sides, and what takes no part.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct Terms {
    #[n(0)]
    pub(crate) here: RootMark,
    #[n(1)]
    pub(crate) there: RootMark,
    #[n(2)]
    pub(crate) ignore: ByteVec,
}

#[derive(Decode)]
#[cbor(map)]
pub(super) struct Envelope {
    #[n(0)]
    pub(super) version: u64,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct Stored {
    #[n(0)]
    version: u64,
    #[n(1)]
    terms: Terms,
    #[n(2)]
    base: Vec<StoredState>,
    #[n(3)]
    here: Vec<KnownListing>,
    #[n(4)]
    there: Vec<KnownListing>,
    #[n(5)]
    is_settled: bool,
}

/// A path and its state: a file has a hash, a link a target, a directory neither.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(super) struct StoredState {
    #[n(0)]
    path: ByteVec,
    #[n(1)]
    hash: Option<ContentHash>,
    #[n(2)]
    executable: bool,
    #[n(3)]
    target: Option<ByteVec>,
}

impl StoredState {
    pub(super) fn new(path: Vec<u8>, state: State) -> Self {
        let (hash, executable, target) = match state {
            State::Directory => (None, false, None),
            State::File { hash, executable } => (Some(hash.into()), executable, None),
            State::Link { target } => (None, false, Some(target.into())),
        };
        Self { path: path.into(), hash, executable, target }
    }

    pub(super) fn into_state(self) -> (Vec<u8>, State) {
        let state = match (self.hash, self.target) {
            (Some(hash), _) => State::File { hash: *hash, executable: self.executable },
            (None, Some(target)) => State::Link { target: target.into() },
            (None, None) => State::Directory,
        };
        (self.path.into(), state)
    }
}

/// Reads a file of ours; nothing if there is none.
pub(super) fn read_bounded(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    use std::io::Read as _;
    let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let opened = fs::OpenOptions::new().read(true).custom_flags(flags).open(path);
    let mut bytes = Vec::new();
    match opened.and_then(|file| file.take(MAX_FILE).read_to_end(&mut bytes)) {
        Ok(_) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::io("read", path, error)),
    }
}

impl Agreement {
    /// Reads what was agreed about. A file that is damaged is as good as none: then what
    /// differs is kept twice.
    pub(crate) fn read(dir: &Path) -> Result<Option<(Terms, Self)>, StoreError> {
        let path = dir.join(FILE);
        let Some(bytes) = read_bounded(&path)? else { return Ok(None) };
        let version = minicbor::decode::<Envelope>(&bytes).map(|envelope| envelope.version);
        if let Ok(found) = version
            && found > VERSION
        {
            return Err(StoreError::Newer { path, found, known: VERSION });
        }
        let Ok(stored) = minicbor::decode::<Stored>(&bytes) else {
            tracing::warn!(path = %path.display(), "damaged; what differs is kept twice");
            return Ok(None);
        };
        let agreement = Self {
            base: stored.base.into_iter().map(StoredState::into_state).collect(),
            here: TreeSurvey::of(stored.here),
            there: TreeSurvey::of(stored.there),
            is_settled: stored.is_settled,
        };
        Ok(Some((stored.terms, agreement)))
    }

    /// Writes what was agreed about.
    pub(crate) fn write(
        self,
        dir: &Path,
        terms: Terms,
        here: &TreeRoot,
        there: &TreeRoot,
    ) -> Result<(), StoreError> {
        let stored = Stored {
            version: VERSION,
            terms,
            base: self
                .base
                .into_iter()
                .map(|(path, state)| StoredState::new(path, state))
                .collect(),
            here: self.here.into_listings(here),
            there: self.there.into_listings(there),
            is_settled: self.is_settled,
        };
        let path = dir.join(FILE);
        let bytes = minicbor::to_vec(&stored).map_err(|error| StoreError::Damaged {
            path: path.clone(),
            reason: error.to_string(),
        })?;
        replace(&path, &bytes).map_err(|error| StoreError::io("write", &path, error))
    }
}
