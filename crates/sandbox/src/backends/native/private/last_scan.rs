//! The result of the last scan, used by the starts of the next seconds.

use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use super::{PrivatePaths, read};
use crate::store::replace;

/// Seconds for which the result of a scan is used.
const USED_FOR: u64 = 10;

const VERSION: u32 = 1;
const FILE: &str = "private-last.cbor";

/// The result of the last scan.
#[derive(Debug, Encode, Decode)]
#[cbor(map)]
pub(super) struct LastScan {
    #[n(0)]
    version: u32,
    /// When it began, in seconds since 1970.
    #[n(1)]
    scanned_at: u64,
    #[n(2)]
    directories: Vec<ScannedDirectory>,
}

/// A system directory and the private paths in it.
#[derive(Debug, Encode, Decode)]
struct ScannedDirectory {
    #[n(0)]
    source: ByteVec,
    #[n(1)]
    private: Vec<ByteVec>,
}

impl LastScan {
    pub(super) fn new(scanned_at: u64, private: &PrivatePaths) -> Self {
        let directories = private.0.iter().map(|(source, private)| ScannedDirectory {
            source: bytes(source),
            private: private.iter().map(|path| bytes(path)).collect(),
        });
        Self { version: VERSION, scanned_at, directories: directories.collect() }
    }

    /// Reads the last scan recorded in a directory, if there is a valid one.
    pub(super) fn read(dir: &Path) -> Option<Self> {
        let bytes = read(&dir.join(FILE)).ok()?;
        let last: Self = minicbor::decode(&bytes).ok()?;
        (last.version == VERSION).then_some(last)
    }

    pub(super) fn write(&self, dir: &Path) -> io::Result<()> {
        let bytes = minicbor::to_vec(self).map_err(io::Error::other)?;
        replace(&dir.join(FILE), &bytes)
    }

    /// Returns the result if it is recent and covers these directories. A time in the
    /// future (the clock was set back) is not trusted.
    pub(super) fn result(self, sources: &[PathBuf], now: u64) -> Option<PrivatePaths> {
        if self.scanned_at > now || now - self.scanned_at >= USED_FOR {
            return None;
        }
        let directories = self.directories.into_iter().map(|directory| {
            let private = directory.private.into_iter().map(path).collect();
            (path(directory.source), private)
        });
        let private = PrivatePaths(directories.collect());
        sources.iter().all(|source| private.0.contains_key(source)).then_some(private)
    }
}

fn bytes(path: &Path) -> ByteVec {
    path.as_os_str().as_bytes().to_vec().into()
}

fn path(bytes: ByteVec) -> PathBuf {
    PathBuf::from(std::ffi::OsString::from_vec(bytes.into()))
}
