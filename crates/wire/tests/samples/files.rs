//! Samples of operations on files and their results.

use vestal_wire::tree::{
    HashedFile, KnownDirectory, Listing, ReadHead, Stamp, TreeChange, TreeItem, TreeOutcome,
    TreePath, TreeRoot,
};
use vestal_wire::{
    CreateMode, DirectoryEntry, FileEdit, FileKind, FileOp, FileReply, FileVersion, FoundMatches,
    Match, Metadata, SearchQuery, TreeOp,
};

use super::bytes;

fn version() -> FileVersion {
    FileVersion { inode: 1, size: 2, mtime_ns: -3 }
}

fn metadata() -> Metadata {
    Metadata {
        path: bytes("/x"),
        kind: FileKind::Symlink,
        mode: 0o644,
        uid: 4,
        gid: 5,
        version: version(),
        target: Some(bytes("y")),
    }
}

pub(crate) fn file_ops() -> Vec<FileOp> {
    vec![
        FileOp::Read { path: bytes("x"), offset: 1, limit: Some(2) },
        FileOp::Write {
            path: bytes("x"),
            create: CreateMode::Existing,
            parents: true,
            mode: Some(0o600),
            expect: Some(version()),
        },
        FileOp::Patch {
            path: bytes("x"),
            edits: vec![FileEdit { old: bytes("o"), new: bytes("n"), all: true }],
            expect: Some(version()),
        },
        FileOp::List { path: bytes("x"), skip: 1, limit: 2 },
        FileOp::Stat { path: bytes("x"), follow: true },
        FileOp::Search(SearchQuery {
            root: bytes("x"),
            glob: Some("g".into()),
            regex: Some("r".into()),
            ignore_case: true,
            hidden: false,
            ignored: true,
            skip: 1,
            limit: 2,
            context: 3,
        }),
        FileOp::Mkdir { path: bytes("x"), parents: true, mode: Some(0o700) },
        FileOp::Move { from: bytes("x"), to: bytes("y"), overwrite: true },
        FileOp::Delete { path: bytes("x"), recursive: true },
        FileOp::Tree { path: bytes("x"), op: TreeOp::Hash },
    ]
}

pub(crate) fn file_replies() -> Vec<FileReply> {
    vec![
        FileReply::Read { metadata: metadata(), sent: 1, eof: true },
        FileReply::Written { metadata: metadata(), created: true, in_place: false, replaced: 1 },
        FileReply::List {
            entries: vec![DirectoryEntry {
                name: bytes("x"),
                kind: FileKind::Directory,
                size: 1,
                mode: 0o755,
                mtime_ns: 2,
            }],
            more: true,
        },
        FileReply::Stat(metadata()),
        FileReply::Found(FoundMatches {
            matches: vec![Match { path: bytes("x"), line: 1, text: bytes("t"), context: true }],
            more: true,
            files: 2,
            unreadable: 3,
            binary: 4,
        }),
        FileReply::Done,
    ]
}

pub(crate) fn tree_ops() -> Vec<TreeOp> {
    vec![TreeOp::Scan { ignore: bytes("*.o") }, TreeOp::Hash, TreeOp::Read, TreeOp::Change]
}

fn stamp() -> Stamp {
    Stamp { inode: 1, size: 2, mtime_ns: 3, ctime_ns: -4 }
}

pub(crate) fn known_directory() -> KnownDirectory {
    KnownDirectory { path: bytes("a/b"), digest: [1; 16].into() }
}

pub(crate) fn tree_root() -> TreeRoot {
    TreeRoot { inode: 1, born_ns: Some(2), now_ns: 3 }
}

pub(crate) fn listing() -> Listing {
    Listing {
        path: bytes("a"),
        digest: [1; 16].into(),
        entries: vec![TreeItem {
            name: bytes("x"),
            kind: FileKind::Symlink,
            mode: 0o777,
            stamp: stamp(),
            target: Some(bytes("y")),
        }],
        ignored: 1,
        more: true,
        unreadable: Some("why".into()),
        temporary: vec![bytes(".vestal-sync-1")],
        is_mounted: Some(true),
    }
}

pub(crate) fn tree_path() -> TreePath {
    TreePath { path: bytes("x"), offset: 1, end: Some(2) }
}

pub(crate) fn hashed_file() -> HashedFile {
    HashedFile { hash: Some([1; 32].into()), stamp: stamp(), error: Some("why".into()) }
}

pub(crate) fn read_head() -> ReadHead {
    ReadHead { error: Some("why".into()) }
}

pub(crate) fn tree_changes() -> Vec<TreeChange> {
    vec![
        TreeChange::Directory { path: bytes("x"), mode: Some(0o755) },
        TreeChange::File {
            path: bytes("x"),
            hash: [1; 32].into(),
            mode: Some(0o644),
            executable: true,
            mtime_ns: 1,
            replaces: Some(stamp()),
            offset: 2,
            resumable: true,
        },
        TreeChange::Link { path: bytes("x"), target: bytes("y"), replaces: None },
        TreeChange::Delete { path: bytes("x"), stamp: stamp() },
        TreeChange::RemoveDirectory { path: bytes("x") },
        TreeChange::Rename { path: bytes("x"), name: bytes("y") },
        TreeChange::Executable { path: bytes("x"), executable: true, stamp: stamp() },
        TreeChange::Discard { path: bytes(".vestal-sync-1") },
    ]
}

pub(crate) fn tree_outcomes() -> Vec<TreeOutcome> {
    vec![TreeOutcome::Made, TreeOutcome::Overtaken, TreeOutcome::Failed { reason: "why".into() }]
}
