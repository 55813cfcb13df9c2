use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use vestal_wire::{FaultCode, FileKind, Reply, encode};

use super::*;
use crate::files::testing::{NEVER, Yard};

fn run(path: &Path, skip: u32, limit: u32) -> (Vec<Entry>, bool) {
    match list(path, skip, limit, &NEVER).unwrap() {
        FileReply::List { entries, more } => (entries, more),
        other => panic!("{other:?}"),
    }
}

fn names(entries: &[Entry]) -> Vec<&[u8]> {
    entries.iter().map(|entry| &entry.name[..]).collect()
}

#[test]
fn entries_come_in_the_order_of_their_bytes() {
    let yard = Yard::new();
    for name in ["b", "a", "B", "ä", ".hidden"] {
        yard.put(name, b"");
    }
    std::fs::write(yard.path("").join(std::ffi::OsStr::from_bytes(b"\xff")), b"").unwrap();
    let (entries, more) = run(&yard.path(""), 0, 100);
    let wanted: Vec<&[u8]> = vec![b".hidden", b"B", b"a", b"b", "ä".as_bytes(), b"\xff"];
    assert_eq!((names(&entries), more), (wanted, false));
}

#[test]
fn entries_are_described_without_following_links() {
    let yard = Yard::new();
    yard.put("file", b"12345");
    std::fs::create_dir(yard.path("dir")).unwrap();
    symlink("nowhere", yard.path("link")).unwrap();
    let (entries, _) = run(&yard.path(""), 0, 100);
    let kinds: Vec<FileKind> = entries.iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, [FileKind::Directory, FileKind::File, FileKind::Symlink]);
    assert_eq!(entries[1].size, 5);
    assert!(entries[1].mtime_ns > 0);
}

#[test]
fn pages_join_to_the_whole() {
    let yard = Yard::new();
    for n in 0..25 {
        yard.put(&format!("{n:02}"), b"");
    }
    let mut all = Vec::new();
    loop {
        let (entries, more) = run(&yard.path(""), u32::try_from(all.len()).unwrap(), 10);
        all.extend(entries);
        if !more {
            break;
        }
    }
    assert_eq!(all, run(&yard.path(""), 0, 100).0);
    assert_eq!(all.len(), 25);
    assert_eq!(run(&yard.path(""), 0, 0), (Vec::new(), true));
    assert_eq!(run(&yard.path(""), u32::MAX, u32::MAX), (Vec::new(), false));
}

#[test]
fn a_reply_never_outgrows_a_message() {
    let yard = Yard::new();
    let long = "x".repeat(240);
    for n in 0..4_500 {
        yard.put(&format!("{long}{n:05}"), b"");
    }
    let reply = list(&yard.path(""), 0, u32::MAX, &NEVER).unwrap();
    let FileReply::List { entries, more: true } = &reply else {
        panic!("everything at once");
    };
    let count = u32::try_from(entries.len()).unwrap();
    assert!(count > 3_000);
    assert_eq!(run(&yard.path(""), count, u32::MAX).0.len(), 4_500 - entries.len());
    encode(&Reply::File(reply)).unwrap();
}

#[test]
fn what_is_no_directory_is_not_listed() {
    let yard = Yard::new();
    let file = yard.put("file", b"");
    assert_eq!(list(&file, 0, 1, &NEVER).unwrap_err().code, FaultCode::WrongKind);
    let none = list(&yard.path("none"), 0, 1, &NEVER).unwrap_err();
    assert_eq!(none.code, FaultCode::NotFound);
    assert!(none.message.starts_with("cannot list /"));
}

#[test]
fn a_directory_of_many_thousand_entries_is_listed_in_pages() {
    let yard = Yard::new();
    let original = yard.put("0", b"");
    // Links are the fastest files to make.
    for n in 1..20_000 {
        std::fs::hard_link(&original, yard.path(&n.to_string())).unwrap();
    }
    let (entries, more) = run(&yard.path(""), 19_990, 100);
    assert_eq!((entries.len(), more), (10, false));
    assert_eq!(&entries[9].name[..], b"9999");
    let (entries, more) = run(&yard.path(""), 0, 15_000);
    assert_eq!((entries.len(), more), (15_000, true));
}
