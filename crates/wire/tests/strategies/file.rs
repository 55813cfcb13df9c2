//! Operations on files and their results.

use proptest::prelude::*;
use vestal_wire::{
    CreateMode, DirectoryEntry, FileCall, FileEdit, FileKind, FileOp, FileReply, FileVersion,
    FoundMatches, Match, Metadata, SearchQuery, TreeOp,
};

use super::{bytes, few, maybe, text};

pub(super) fn file_call() -> impl Strategy<Value = FileCall> {
    fields!(FileCall { session: maybe(text()), start_dir: maybe(bytes()), op: file_op() })
}

fn file_op() -> impl Strategy<Value = FileOp> {
    prop_oneof![
        fields!(FileOp::Read { path: bytes(), offset: any::<u64>(), limit: maybe(any::<u64>()) }),
        fields!(FileOp::Write {
            path: bytes(),
            create: create_mode(),
            parents: any::<bool>(),
            mode: maybe(any::<u32>()),
            expect: maybe(version()),
        }),
        fields!(FileOp::Patch { path: bytes(), edits: few(edit()), expect: maybe(version()) }),
        fields!(FileOp::List { path: bytes(), skip: any::<u32>(), limit: any::<u32>() }),
        fields!(FileOp::Stat { path: bytes(), follow: any::<bool>() }),
        search_query().prop_map(FileOp::Search),
        fields!(FileOp::Mkdir { path: bytes(), parents: any::<bool>(), mode: maybe(any::<u32>()) }),
        fields!(FileOp::Move { from: bytes(), to: bytes(), overwrite: any::<bool>() }),
        fields!(FileOp::Delete { path: bytes(), recursive: any::<bool>() }),
        (bytes(), tree_op()).prop_map(|(path, op)| FileOp::Tree { path, op }),
    ]
}

fn create_mode() -> impl Strategy<Value = CreateMode> {
    prop_oneof![Just(CreateMode::Any), Just(CreateMode::New), Just(CreateMode::Existing)]
}

fn edit() -> impl Strategy<Value = FileEdit> {
    fields!(FileEdit { old: bytes(), new: bytes(), all: any::<bool>() })
}

fn version() -> impl Strategy<Value = FileVersion> {
    fields!(FileVersion { inode: any::<u64>(), size: any::<u64>(), mtime_ns: any::<i64>() })
}

fn file_kind() -> impl Strategy<Value = FileKind> {
    prop_oneof![
        Just(FileKind::File),
        Just(FileKind::Directory),
        Just(FileKind::Symlink),
        Just(FileKind::Other),
    ]
}

fn search_query() -> impl Strategy<Value = SearchQuery> {
    fields!(SearchQuery {
        root: bytes(),
        glob: maybe(text()),
        regex: maybe(text()),
        ignore_case: any::<bool>(),
        hidden: any::<bool>(),
        ignored: any::<bool>(),
        skip: any::<u32>(),
        limit: any::<u32>(),
        context: any::<u32>(),
    })
}

fn metadata() -> impl Strategy<Value = Metadata> {
    fields!(Metadata {
        path: bytes(),
        kind: file_kind(),
        mode: any::<u32>(),
        uid: any::<u32>(),
        gid: any::<u32>(),
        version: version(),
        target: maybe(bytes()),
    })
}

fn entry() -> impl Strategy<Value = DirectoryEntry> {
    fields!(DirectoryEntry {
        name: bytes(),
        kind: file_kind(),
        size: any::<u64>(),
        mode: any::<u32>(),
        mtime_ns: any::<i64>(),
    })
}

fn found() -> impl Strategy<Value = FoundMatches> {
    let one =
        fields!(Match { path: bytes(), line: any::<u64>(), text: bytes(), context: any::<bool>() });
    fields!(FoundMatches {
        matches: few(one),
        more: any::<bool>(),
        files: any::<u64>(),
        unreadable: any::<u64>(),
        binary: any::<u64>(),
    })
}

pub(super) fn file_reply() -> impl Strategy<Value = FileReply> {
    prop_oneof![
        fields!(FileReply::Read { metadata: metadata(), sent: any::<u64>(), eof: any::<bool>() }),
        fields!(FileReply::Written {
            metadata: metadata(),
            created: any::<bool>(),
            in_place: any::<bool>(),
            replaced: any::<u32>(),
        }),
        fields!(FileReply::List { entries: few(entry()), more: any::<bool>() }),
        metadata().prop_map(FileReply::Stat),
        found().prop_map(FileReply::Found),
        Just(FileReply::Done),
    ]
}

fn tree_op() -> impl Strategy<Value = TreeOp> {
    prop_oneof![
        bytes().prop_map(|ignore| TreeOp::Scan { ignore }),
        Just(TreeOp::Hash),
        Just(TreeOp::Read),
        Just(TreeOp::Change),
    ]
}
