//! Samples of operations on files and their results.

use vestal_wire::{
    CreateMode, DirectoryEntry, FileEdit, FileKind, FileOp, FileReply, FileVersion, FoundMatches,
    Match, Metadata, SearchQuery,
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
