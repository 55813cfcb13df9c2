//! Files of a sandbox.
//!
//! Paths are bytes. A leading `~` is the home of the sandbox's user; relative
//! paths start at the session's directory, else at the guest's start directory.

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

/// One operation on files.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct FileCall {
    /// The session whose directory relative paths start at.
    #[n(0)]
    pub session: Option<String>,
    /// Directory relative paths start at when there is no such session.
    #[n(1)]
    pub start_dir: Option<ByteVec>,
    /// The operation.
    #[n(2)]
    pub op: FileOp,
}

/// What to do.
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
        /// Most bytes to send; absent: to the end.
        #[n(2)]
        limit: Option<u64>,
    },
    /// Makes the file's content what comes on [`crate::Stream::Input`].
    #[n(1)]
    Write {
        /// The file; a symbolic link is written through.
        #[n(0)]
        path: ByteVec,
        /// What may be there before.
        #[n(1)]
        create: CreateMode,
        /// Makes missing parent directories.
        #[n(2)]
        parents: bool,
        /// Permission bits; absent: those of the file replaced, else 0666 less the umask.
        #[n(3)]
        mode: Option<u32>,
        /// The version that must still be there.
        #[n(4)]
        expect: Option<Version>,
    },
    /// Replaces pieces of a file, all or none.
    #[n(2)]
    Patch {
        /// The file.
        #[n(0)]
        path: ByteVec,
        /// Replacements, applied in order.
        #[n(1)]
        edits: Vec<Edit>,
        /// The version that must still be there.
        #[n(2)]
        expect: Option<Version>,
    },
    /// Lists a directory in the order of names.
    #[n(3)]
    List {
        /// The directory.
        #[n(0)]
        path: ByteVec,
        /// Entries to pass over.
        #[n(1)]
        skip: u32,
        /// Most entries to return.
        #[n(2)]
        limit: u32,
    },
    /// Describes a file.
    #[n(4)]
    Stat {
        /// The file.
        #[n(0)]
        path: ByteVec,
        /// Describes what a symbolic link points at.
        #[n(1)]
        follow: bool,
    },
    /// Finds files by name and lines by content.
    #[n(5)]
    Search(#[n(0)] SearchQuery),
    /// Makes a directory.
    #[n(6)]
    Mkdir {
        /// The directory.
        #[n(0)]
        path: ByteVec,
        /// Makes missing parents, and is content when it exists.
        #[n(1)]
        parents: bool,
        /// Permission bits; absent: 0777 less the umask.
        #[n(2)]
        mode: Option<u32>,
    },
    /// Renames, across filesystems too.
    #[n(7)]
    Move {
        /// From here.
        #[n(0)]
        from: ByteVec,
        /// To here.
        #[n(1)]
        to: ByteVec,
        /// Replaces a file that is there.
        #[n(2)]
        overwrite: bool,
    },
    /// Deletes; a symbolic link itself, never what it points at.
    #[n(8)]
    Delete {
        /// What to delete.
        #[n(0)]
        path: ByteVec,
        /// Deletes a directory with all in it.
        #[n(1)]
        recursive: bool,
    },
}

/// What may be at the path of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum CreateMode {
    /// Anything: replaced or made.
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
pub struct Edit {
    /// What to look for; never empty.
    #[n(0)]
    pub old: ByteVec,
    /// What to put there.
    #[n(1)]
    pub new: ByteVec,
    /// Replaces every occurrence; otherwise there must be exactly one.
    #[n(2)]
    pub all: bool,
}

/// Tells whether a file changed, by the sandbox's own clock and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Version {
    /// Inode number.
    #[n(0)]
    pub inode: u64,
    /// Size in bytes.
    #[n(1)]
    pub size: u64,
    /// Last change of content, nanoseconds of Unix time.
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
    pub version: Version,
    /// Where a symbolic link points.
    #[n(6)]
    pub target: Option<ByteVec>,
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Entry {
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
    /// Last change of content, nanoseconds of Unix time.
    #[n(4)]
    pub mtime_ns: i64,
}

/// A search below a directory, or in one file.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct SearchQuery {
    /// Where to look.
    #[n(0)]
    pub root: ByteVec,
    /// Names to look at: a glob on the path below the root, or on the file name
    /// where it has no `/`. Absent: all.
    #[n(1)]
    pub glob: Option<String>,
    /// Regular expression lines must match. Absent: names are the result.
    #[n(2)]
    pub regex: Option<String>,
    /// Ignores case.
    #[n(3)]
    pub ignore_case: bool,
    /// Looks into hidden files and directories too.
    #[n(4)]
    pub hidden: bool,
    /// Looks at what `.gitignore` files leave out too.
    #[n(5)]
    pub ignored: bool,
    /// Results to pass over.
    #[n(6)]
    pub skip: u32,
    /// Most results to return.
    #[n(7)]
    pub limit: u32,
    /// Lines before and after each match to return.
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
    /// Line number from 1; 0 for a result by name.
    #[n(1)]
    pub line: u64,
    /// The line without its end, cut at 2,000 bytes.
    #[n(2)]
    pub text: ByteVec,
    /// Whether this is a line around a match rather than one.
    #[n(3)]
    pub context: bool,
}

/// Result of a search.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Found {
    /// The matches, in the order of paths and lines.
    #[n(0)]
    pub matches: Vec<Match>,
    /// Whether more follow the ones returned.
    #[n(1)]
    pub more: bool,
    /// Files looked at.
    #[n(2)]
    pub files: u64,
    /// Files and directories that could not be read.
    #[n(3)]
    pub unreadable: u64,
    /// Files passed over as binary.
    #[n(4)]
    pub binary: u64,
}

/// Result of an operation on files.
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
        /// Whether they reach to the end of the file.
        #[n(2)]
        eof: bool,
    },
    /// The file has the new content.
    #[n(1)]
    Written {
        /// The file now.
        #[n(0)]
        metadata: Metadata,
        /// Whether it was made.
        #[n(1)]
        created: bool,
        /// Whether it was written in place because a rename could not do it
        /// (a mount point, several hard links, a directory that may not be
        /// written). Readers may have seen a part of it.
        #[n(2)]
        in_place: bool,
        /// Replacements made, for a patch.
        #[n(3)]
        replaced: u32,
    },
    /// Entries of a directory.
    #[n(2)]
    List {
        /// The entries.
        #[n(0)]
        entries: Vec<Entry>,
        /// Whether more follow.
        #[n(1)]
        more: bool,
    },
    /// Description of a file.
    #[n(3)]
    Stat(#[n(0)] Metadata),
    /// Result of a search.
    #[n(4)]
    Found(#[n(0)] Found),
    /// Done.
    #[n(5)]
    Done,
}
