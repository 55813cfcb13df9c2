//! Records of operations on whole trees, and how they stand on a stream.
//!
//! A record is its length, u32 little-endian, and its encoding. The content of a
//! file follows its record in pieces of the same form; a piece of length 0 is its end.
//! Neither side needs to hold more than one record or piece.

use std::io::{self, Read};

use minicbor::bytes::{ByteArray, ByteVec};
use minicbor::{Decode, Encode};

use crate::file::FileKind;
use crate::limits::{MAX_DATA, MAX_MESSAGE};

/// SHA-256 of the content of a file.
pub type ContentHash = ByteArray<32>;

/// First half of the SHA-256 of what stands in a listing.
pub type ListingDigest = ByteArray<16>;

/// Beginning of the names of files that are only there while a tree is changed.
/// They are in no listing.
pub const TEMPORARY: &[u8] = b".vestal-sync-";

/// A directory whose listing the host has from before.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct KnownDirectory {
    /// The directory; the root is empty.
    #[n(0)]
    pub path: ByteVec,
    /// The digest of its listing.
    #[n(1)]
    pub digest: ListingDigest,
}

/// The directory at the top of a tree.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct TreeRoot {
    /// Inode number.
    #[n(0)]
    pub inode: u64,
    /// When it was made, in nanoseconds of Unix time, where the filesystem knows.
    #[n(1)]
    pub born_ns: Option<i64>,
    /// The clock over there when the walk began, in nanoseconds of Unix time.
    #[n(2)]
    pub now_ns: i64,
}

/// The entries of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Listing {
    /// The directory; the root is empty.
    #[n(0)]
    pub path: ByteVec,
    /// Digest of the whole listing.
    #[n(1)]
    pub digest: ListingDigest,
    /// The entries, in the order of names.
    #[n(2)]
    pub entries: Vec<TreeItem>,
    /// Number of entries that were left out on request.
    #[n(3)]
    pub ignored: u64,
    /// Whether more entries follow in another listing of the same directory.
    #[n(4)]
    pub more: bool,
    /// Why it cannot be read. What is in it is unknown then.
    #[n(5)]
    pub unreadable: Option<String>,
    /// Names of files that a change of the tree left behind when it was killed.
    #[n(6)]
    pub temporary: Vec<ByteVec>,
    /// Whether it is on another filesystem than the root. Older guests do not tell.
    #[n(7)]
    pub is_mounted: Option<bool>,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct TreeItem {
    /// Its name.
    #[n(0)]
    pub name: ByteVec,
    /// Its kind.
    #[n(1)]
    pub kind: FileKind,
    /// Permission bits.
    #[n(2)]
    pub mode: u32,
    /// Which state of it this is.
    #[n(3)]
    pub stamp: Stamp,
    /// Target of a symbolic link.
    #[n(4)]
    pub target: Option<ByteVec>,
}

/// Shows whether a file has changed: only the system sets the time of the last
/// change of its inode. All zero for a directory, whose entries are its state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
pub struct Stamp {
    /// Inode number.
    #[n(0)]
    pub inode: u64,
    /// Size in bytes.
    #[n(1)]
    pub size: u64,
    /// Modification time in nanoseconds of Unix time.
    #[n(2)]
    pub mtime_ns: i64,
    /// Time of the last change of the inode, likewise.
    #[n(3)]
    pub ctime_ns: i64,
}

/// A file to read.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct TreePath {
    /// The file.
    #[n(0)]
    pub path: ByteVec,
    /// First byte to read; what is before it counts for no hash.
    #[n(1)]
    pub offset: u64,
    /// Where to stop; absent: at the end.
    #[n(2)]
    pub end: Option<u64>,
}

/// The hash of a file.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct HashedFile {
    /// The hash; absent if it could not be read, or changed meanwhile.
    #[n(0)]
    pub hash: Option<ContentHash>,
    /// Which state of it was read.
    #[n(1)]
    pub stamp: Stamp,
    /// Why it could not be read.
    #[n(2)]
    pub error: Option<String>,
}

/// What comes before the content of a file.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ReadHead {
    /// Why nothing of it follows.
    #[n(0)]
    pub error: Option<String>,
}

/// One change of a tree.
///
/// What is changed must be in the state that the host saw, and where it saw nothing
/// there must be nothing: else the change is not made.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum TreeChange {
    /// Makes a directory, unless there is one.
    #[n(0)]
    Directory {
        /// The directory.
        #[n(0)]
        path: ByteVec,
        /// Permission bits; absent: the usual ones.
        #[n(1)]
        mode: Option<u32>,
    },
    /// Puts a file there. Its content follows.
    #[n(1)]
    File {
        /// The file.
        #[n(0)]
        path: ByteVec,
        /// What the whole content must hash to.
        #[n(1)]
        hash: ContentHash,
        /// Permission bits; absent: those of the file replaced or the usual ones.
        #[n(2)]
        mode: Option<u32>,
        /// Whether it can be executed, where `mode` is absent.
        #[n(3)]
        executable: bool,
        /// Modification time in nanoseconds of Unix time.
        #[n(4)]
        mtime_ns: i64,
        /// The file to replace.
        #[n(5)]
        replaces: Option<Stamp>,
        /// How many bytes an interrupted change has left there, with which the
        /// content begins.
        #[n(6)]
        offset: u64,
        /// Keeps what has arrived if the rest does not come.
        #[n(7)]
        resumable: bool,
    },
    /// Puts a symbolic link there.
    #[n(2)]
    Link {
        /// The link.
        #[n(0)]
        path: ByteVec,
        /// Its target.
        #[n(1)]
        target: ByteVec,
        /// The file to replace.
        #[n(2)]
        replaces: Option<Stamp>,
    },
    /// Deletes a file or a symbolic link.
    #[n(3)]
    Delete {
        /// The file.
        #[n(0)]
        path: ByteVec,
        /// Its state.
        #[n(1)]
        stamp: Stamp,
    },
    /// Removes an empty directory.
    #[n(4)]
    RemoveDirectory {
        /// The directory.
        #[n(0)]
        path: ByteVec,
    },
    /// Gives a file or directory another name in its directory, which must be free.
    #[n(5)]
    Rename {
        /// The file.
        #[n(0)]
        path: ByteVec,
        /// The new name.
        #[n(1)]
        name: ByteVec,
    },
    /// Lets a file be executed, or not.
    #[n(6)]
    Executable {
        /// The file.
        #[n(0)]
        path: ByteVec,
        /// Whether it can be.
        #[n(1)]
        executable: bool,
        /// Its state.
        #[n(2)]
        stamp: Stamp,
    },
    /// Removes a file that an interrupted change left behind.
    #[n(7)]
    Discard {
        /// The file, whose name is one of those by [`is_temporary`].
        #[n(0)]
        path: ByteVec,
    },
}

/// What became of a change.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum TreeOutcome {
    /// It was made.
    #[n(0)]
    Made,
    /// It was not made: what is there is not what the host saw, or the content is
    /// not what was announced.
    #[n(1)]
    Overtaken,
    /// It could not be made.
    #[n(2)]
    Failed {
        /// Why, as a lowercase fragment.
        #[n(0)]
        reason: String,
    },
}

/// Returns whether a name is one that a change gives to a file that is on its way: no other
/// file is ever taken for one.
pub fn is_temporary(name: &[u8]) -> bool {
    let Some(rest) = name.strip_prefix(TEMPORARY) else { return false };
    let (digits, count) = match rest.strip_prefix(b"part-") {
        Some(digits) => (digits, 24),
        None => (rest, 16),
    };
    digits.len() == count && digits.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns the name of the file in which the beginning of a content is kept.
pub fn partial_name(hash: &ContentHash) -> Vec<u8> {
    let mut name = [TEMPORARY, b"part-"].concat();
    for byte in &hash[..12] {
        name.extend(format!("{byte:02x}").bytes());
    }
    name
}

/// Returns a record as it stands on a stream.
pub fn framed<T: Encode<()>>(record: &T) -> Result<Vec<u8>, crate::EncodeError> {
    Ok(framed_bytes(&crate::encode(record)?))
}

/// Returns bytes, at most [`MAX_MESSAGE`], with their length before them: a piece of a
/// content, or its end if there are none.
pub fn framed_bytes(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    [&length.to_le_bytes(), bytes].concat()
}

/// Reads records and pieces from a stream that blocks.
#[derive(Debug)]
pub struct RecordReader<R> {
    source: R,
}

impl<R: Read> RecordReader<R> {
    /// Returns the reader of a stream.
    pub fn new(source: R) -> Self {
        Self { source }
    }

    /// Returns the next record; nothing at the end of the stream.
    pub fn record<T: for<'b> Decode<'b, ()>>(&mut self) -> io::Result<Option<T>> {
        let Some(bytes) = self.bytes(MAX_MESSAGE)? else { return Ok(None) };
        crate::decode(&bytes)
            .map(Some)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// Returns the next piece of a content; nothing at its end.
    pub fn piece(&mut self) -> io::Result<Option<Vec<u8>>> {
        let piece = self.bytes(MAX_DATA)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok((!piece.is_empty()).then_some(piece))
    }

    fn bytes(&mut self, most: usize) -> io::Result<Option<Vec<u8>>> {
        let mut length = [0; 4];
        let mut filled = 0;
        while filled < length.len() {
            match self.source.read(&mut length[filled..]) {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let length = u32::from_le_bytes(length) as usize;
        if length > most {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("a record of {length} bytes, where {most} are allowed"),
            ));
        }
        let mut bytes = vec![0; length];
        self.source.read_exact(&mut bytes)?;
        Ok(Some(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_and_pieces_come_out_as_they_went_in() {
        let known = KnownDirectory { path: b"a/b".to_vec().into(), digest: [7; 16].into() };
        let stream = [framed(&known).unwrap(), framed_bytes(b"piece"), framed_bytes(b"")].concat();
        let mut reader = RecordReader::new(&stream[..]);
        assert_eq!(reader.record().unwrap(), Some(known));
        assert_eq!(reader.piece().unwrap(), Some(b"piece".to_vec()));
        assert_eq!(reader.piece().unwrap(), None);
        assert_eq!(reader.record::<KnownDirectory>().unwrap(), None);
        assert!(reader.piece().is_err());
    }

    #[test]
    fn a_length_beyond_the_limit_is_refused_before_anything_is_allocated() {
        let mut reader = RecordReader::new(&[0xff; 4][..]);
        assert_eq!(
            reader.record::<KnownDirectory>().unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
        let too_long = u32::try_from(MAX_DATA + 1).unwrap().to_le_bytes();
        assert!(RecordReader::new(&too_long[..]).piece().is_err());
    }
}
