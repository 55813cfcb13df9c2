//! File operations in a sandbox.
//!
//! Paths are bytes. A leading `~` is the home of the sandbox's user. Relative paths
//! start at the session's directory, else at the guest's start directory.

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

/// A file operation.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct FileCall {
    /// The session whose directory is the start of relative paths.
    #[n(0)]
    pub session: Option<String>,
    /// The start of relative paths if there is no such session.
    #[n(1)]
    pub start_dir: Option<ByteVec>,
    /// The operation.
    #[n(2)]
    pub op: FileOp,
}

/// The kind of a file operation.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum FileOp {
    /// Sends bytes of a regular file on [`crate::Stream::Content`].
    #[n(0)]
    Read {
        /// The file.
        #[n(0)]
        path: ByteVec,
        /// First byte.
        #[n(1)]
        offset: u64,
        /// Maximum number of bytes to send; absent: to the end.
        #[n(2)]
        limit: Option<u64>,
    },
    /// Replaces the content of a file by the bytes of [`crate::Stream::Input`].
    #[n(1)]
    Write {
        /// The file; symbolic links are followed.
        #[n(0)]
        path: ByteVec,
        /// What may exist at the path.
        #[n(1)]
        create: CreateMode,
        /// Creates missing parent directories.
        #[n(2)]
        parents: bool,
        /// Permission bits; absent: those of the replaced file, else 0666 minus
        /// the umask.
        #[n(3)]
        mode: Option<u32>,
        /// The version that must still be there.
        #[n(4)]
        expect: Option<FileVersion>,
    },
    /// Replaces pieces of a file, all of them or none.
    #[n(2)]
    Patch {
        /// The file.
        #[n(0)]
        path: ByteVec,
        /// Replacements, applied in order.
        #[n(1)]
        edits: Vec<FileEdit>,
        /// The version that must still be there.
        #[n(2)]
        expect: Option<FileVersion>,
    },
    /// Lists a directory in the order of names.
    #[n(3)]
    List {
        /// The directory.
        #[n(0)]
        path: ByteVec,
        /// Number of entries to skip.
        #[n(1)]
        skip: u32,
        /// Maximum number of entries to return.
        #[n(2)]
        limit: u32,
    },
    /// Describes a file.
    #[n(4)]
    Stat {
        /// The file.
        #[n(0)]
        path: ByteVec,
        /// Describes the file that a symbolic link points to.
        #[n(1)]
        follow: bool,
    },
    /// Finds files by name and lines by content.
    #[n(5)]
    Search(#[n(0)] SearchQuery),
    /// Creates a directory.
    #[n(6)]
    Mkdir {
        /// The directory.
        #[n(0)]
        path: ByteVec,
        /// Creates missing parents, and succeeds if it already exists.
        #[n(1)]
        parents: bool,
        /// Permission bits; absent: 0777 minus the umask.
        #[n(2)]
        mode: Option<u32>,
    },
    /// Renames a file, also across filesystems.
    #[n(7)]
    Move {
        /// The current path.
        #[n(0)]
        from: ByteVec,
        /// The new path.
        #[n(1)]
        to: ByteVec,
        /// Replaces an existing file.
        #[n(2)]
        overwrite: bool,
    },
    /// Deletes a file; a symbolic link itself, and not its target.
    #[n(8)]
    Delete {
        /// What to delete.
        #[n(0)]
        path: ByteVec,
        /// Deletes a directory with its content.
        #[n(1)]
        recursive: bool,
    },
    /// Walks, reads or changes a whole tree, in one round trip for any number of
    /// files. The records of [`crate::tree`] go on [`crate::Stream::Input`] and
    /// [`crate::Stream::Content`]. Answered by [`FileReply::Done`]. Since 1.2.
    #[n(9)]
    Tree {
        /// The directory; a symbolic link at its end is not followed.
        #[n(0)]
        path: ByteVec,
        /// What to do.
        #[n(1)]
        op: TreeOp,
    },
}

/// The kind of an operation on a tree. Paths of its records are below the
/// directory, and no symbolic link is followed on the way to any of them.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum TreeOp {
    /// Lists all directories. Input: [`crate::tree::KnownDirectory`]; content:
    /// [`crate::tree::TreeRoot`], then [`crate::tree::Listing`] of each directory
    /// that is not as it was known.
    #[n(0)]
    Scan {
        /// What to leave out, as text of a `.gitignore`.
        #[n(0)]
        ignore: ByteVec,
    },
    /// Reads files for their hashes. Input: [`crate::tree::TreePath`]; content: one
    /// [`crate::tree::HashedFile`] for each, in their order.
    #[n(1)]
    Hash,
    /// Sends the content of files. Input: [`crate::tree::TreePath`]; content: for each, in
    /// their order, one [`crate::tree::ReadHead`] and, if it could be opened, its content
    /// in pieces.
    #[n(2)]
    Read,
    /// Changes the tree. Input: [`crate::tree::TreeChange`], after a file the pieces
    /// of its content; content: one [`crate::tree::TreeOutcome`] for each, in their order.
    #[n(3)]
    Change,
}

/// What may exist at the path of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum CreateMode {
    /// Anything: it is replaced or created.
    #[n(0)]
    Any,
    /// Nothing.
    #[n(1)]
    New,
    /// A file.
    #[n(2)]
    Existing,
}

/// One replacement in a patch, byte-exact.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct FileEdit {
    /// The text to find; not empty.
    #[n(0)]
    pub old: ByteVec,
    /// The replacement.
    #[n(1)]
    pub new: ByteVec,
    /// Replaces every occurrence; otherwise there must be exactly one.
    #[n(2)]
    pub all: bool,
}

/// Shows whether a file changed, by the sandbox's own clock and inodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct FileVersion {
    /// Inode number.
    #[n(0)]
    pub inode: u64,
    /// Size in bytes.
    #[n(1)]
    pub size: u64,
    /// Modification time in nanoseconds of Unix time.
    #[n(2)]
    pub mtime_ns: i64,
}

/// Kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum FileKind {
    /// Regular file.
    #[n(0)]
    File,
    /// Directory.
    #[n(1)]
    Directory,
    /// Symbolic link.
    #[n(2)]
    Symlink,
    /// Anything else: device, pipe, socket.
    #[n(3)]
    Other,
}

/// Description of a file.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Metadata {
    /// The absolute path it was reached by.
    #[n(0)]
    pub path: ByteVec,
    /// Its kind.
    #[n(1)]
    pub kind: FileKind,
    /// Permission bits.
    #[n(2)]
    pub mode: u32,
    /// Owner.
    #[n(3)]
    pub uid: u32,
    /// Group.
    #[n(4)]
    pub gid: u32,
    /// Version: inode, size and time of change.
    #[n(5)]
    pub version: FileVersion,
    /// Target of a symbolic link.
    #[n(6)]
    pub target: Option<ByteVec>,
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct DirectoryEntry {
    /// Its name.
    #[n(0)]
    pub name: ByteVec,
    /// Its kind; symbolic links are not followed.
    #[n(1)]
    pub kind: FileKind,
    /// Size in bytes.
    #[n(2)]
    pub size: u64,
    /// Permission bits.
    #[n(3)]
    pub mode: u32,
    /// Modification time in nanoseconds of Unix time.
    #[n(4)]
    pub mtime_ns: i64,
}

/// A search below a directory or in one file.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct SearchQuery {
    /// The directory or file to search.
    #[n(0)]
    pub root: ByteVec,
    /// A glob for the path below the root, or for the file name if it contains no
    /// `/`. Absent: all files.
    #[n(1)]
    pub glob: Option<String>,
    /// A regular expression for lines. Absent: file names are returned.
    #[n(2)]
    pub regex: Option<String>,
    /// Ignores case.
    #[n(3)]
    pub ignore_case: bool,
    /// Includes hidden files and directories.
    #[n(4)]
    pub hidden: bool,
    /// Includes files ignored by `.gitignore`.
    #[n(5)]
    pub ignored: bool,
    /// Number of results to skip.
    #[n(6)]
    pub skip: u32,
    /// Maximum number of results to return.
    #[n(7)]
    pub limit: u32,
    /// Lines of context before and after each match.
    #[n(8)]
    pub context: u32,
}

/// One result of a search.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Match {
    /// The file, relative to the root.
    #[n(0)]
    pub path: ByteVec,
    /// Line number from 1; 0 for a file name.
    #[n(1)]
    pub line: u64,
    /// The line without its end, truncated at 2,000 bytes.
    #[n(2)]
    pub text: ByteVec,
    /// Whether this is a line of context instead of a match.
    #[n(3)]
    pub context: bool,
}

/// Result of a search.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct FoundMatches {
    /// The matches, in the order of paths and lines.
    #[n(0)]
    pub matches: Vec<Match>,
    /// Whether there are more matches.
    #[n(1)]
    pub more: bool,
    /// Number of files searched.
    #[n(2)]
    pub files: u64,
    /// Number of files and directories that could not be read.
    #[n(3)]
    pub unreadable: u64,
    /// Number of binary files, which were skipped.
    #[n(4)]
    pub binary: u64,
}

/// Result of a file operation.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum FileReply {
    /// The content has been sent.
    #[n(0)]
    Read {
        /// The file.
        #[n(0)]
        metadata: Metadata,
        /// Bytes sent.
        #[n(1)]
        sent: u64,
        /// Whether the end of the file was reached.
        #[n(2)]
        eof: bool,
    },
    /// The file has the new content.
    #[n(1)]
    Written {
        /// The file now.
        #[n(0)]
        metadata: Metadata,
        /// Whether it was created.
        #[n(1)]
        created: bool,
        /// Whether it was written in place because it could not be replaced (a
        /// mount point, several hard links, a directory without write
        /// permission). Readers may have seen incomplete content.
        #[n(2)]
        in_place: bool,
        /// Number of replacements of a patch.
        #[n(3)]
        replaced: u32,
    },
    /// Entries of a directory.
    #[n(2)]
    List {
        /// The entries.
        #[n(0)]
        entries: Vec<DirectoryEntry>,
        /// Whether there are more entries.
        #[n(1)]
        more: bool,
    },
    /// Description of a file.
    #[n(3)]
    Stat(#[n(0)] Metadata),
    /// Result of a search.
    #[n(4)]
    Found(#[n(0)] FoundMatches),
    /// Done.
    #[n(5)]
    Done,
}
