//! Reading files of a tree: for their hashes, or to send them.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use vestal_wire::limits::MAX_DATA;
use vestal_wire::tree::{ContentHash, HashedFile, Stamp, TreePath};

use crate::root::{OpenTree, TreeError, split, stamp, stamp_of_file};

/// A pipe in the place of a file must not make anybody wait.
const READING: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

impl OpenTree {
    /// Opens a regular file below the root.
    pub(crate) fn file(&self, path: &[u8]) -> Result<(File, Stamp), TreeError> {
        let (directory, name) = split(path)?;
        let open = || -> Result<(File, Stamp), Errno> {
            let directory = self.directory(directory)?;
            let file = openat(directory, name, READING, Mode::empty())?;
            let found = fstat(&file)?;
            match FileType::from_raw_mode(found.st_mode) {
                FileType::RegularFile => Ok((file.into(), stamp(&found))),
                _ => Err(Errno::INVAL),
            }
        };
        open().map_err(|errno| self.failed("read", path, errno))
    }

    /// Returns the hash of a file, or of a part of it.
    pub(crate) fn hash(
        &self,
        wanted: &TreePath,
        cancelled: &AtomicBool,
    ) -> Result<HashedFile, TreeError> {
        let hashed = self.file(&wanted.path).and_then(|(mut file, before)| {
            let mut hasher = Sha256::new();
            each_piece(&mut file, wanted, cancelled, &mut |piece| {
                hasher.update(piece);
                Ok(())
            })
            .map_err(|error| self.read_error(&wanted.path, error))?;
            let after =
                stamp_of_file(&file).map_err(|errno| self.failed("read", &wanted.path, errno))?;
            let hash = (before == after).then(|| finished(hasher));
            let error = hash.is_none().then(|| "it changes while it is read".to_owned());
            Ok(HashedFile { hash, stamp: after, error })
        });
        match hashed {
            Err(TreeError::Cancelled) => Err(TreeError::Cancelled),
            Err(error) => Ok(HashedFile {
                hash: None,
                stamp: Stamp::default(),
                error: Some(error.to_string()),
            }),
            Ok(hashed) => Ok(hashed),
        }
    }

    pub(crate) fn read_error(&self, path: &[u8], error: PieceError) -> TreeError {
        match error {
            PieceError::Cancelled => TreeError::Cancelled,
            PieceError::Read(error) => self.failed("read", path, error),
            PieceError::Taker(error) => error,
        }
    }
}

/// Why the pieces of a file ended too early.
pub(crate) enum PieceError {
    Cancelled,
    Read(io::Error),
    Taker(TreeError),
}

/// Reads what is wanted of a file, in pieces.
pub(crate) fn each_piece(
    file: &mut File,
    wanted: &TreePath,
    cancelled: &AtomicBool,
    take: &mut dyn FnMut(&[u8]) -> Result<(), TreeError>,
) -> Result<(), PieceError> {
    if wanted.offset > 0 {
        file.seek(SeekFrom::Start(wanted.offset)).map_err(PieceError::Read)?;
    }
    let mut left = wanted.end.map_or(u64::MAX, |end| end.saturating_sub(wanted.offset));
    let mut piece = vec![0; MAX_DATA];
    while left > 0 {
        if cancelled.load(Ordering::Relaxed) {
            return Err(PieceError::Cancelled);
        }
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len());
        match file.read(&mut piece[..most]) {
            Ok(0) => break,
            Ok(count) => {
                left -= count as u64;
                take(&piece[..count]).map_err(PieceError::Taker)?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(PieceError::Read(error)),
        }
    }
    Ok(())
}

pub(crate) fn finished(hasher: Sha256) -> ContentHash {
    let mut hash = [0; 32];
    hash.copy_from_slice(&hasher.finalize());
    hash.into()
}
