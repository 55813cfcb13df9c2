use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::sync::atomic::Ordering;

use rustix::fs::{CWD, Mode, mkfifoat};
use vestal_wire::{CallReply, FaultCode, FileKind, Metadata, encode};

use super::*;
use crate::files::testing::{NEVER, Received, TestDir, metadata_of};

fn whole(path: &Path) -> Result<(Vec<u8>, FileReply), Fault> {
    part(path, 0, None)
}

fn part(path: &Path, offset: u64, limit: Option<u64>) -> Result<(Vec<u8>, FileReply), Fault> {
    let mut sink = Received::default();
    let reply = read(path, ByteRange { offset, limit }, &mut sink, &NEVER)?;
    Ok((sink.bytes, reply))
}

fn ended(reply: &FileReply) -> (u64, bool) {
    match reply {
        FileReply::Read { sent, eof, .. } => (*sent, *eof),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_content_arrives_byte_for_byte_in_bounded_pieces() {
    let test_dir = TestDir::new();
    let content: Vec<u8> = (0..=255).cycle().step_by(7).take(200_000).collect();
    let path = test_dir.put("file", &content);
    let mut sink = Received::default();
    let reply = read(&path, ByteRange { offset: 0, limit: None }, &mut sink, &NEVER).unwrap();
    assert_eq!(sink.bytes, content);
    assert!(sink.pieces.borrow().iter().all(|length| *length <= MAX_DATA));
    assert_eq!(ended(&reply), (200_000, true));
    let Metadata { kind, version, .. } = metadata_of(reply);
    assert_eq!((kind, version.size), (FileKind::File, 200_000));
}

#[test]
fn a_range_is_sent_and_says_whether_it_reaches_the_end() {
    let test_dir = TestDir::new();
    let path = test_dir.put("file", b"0123456789");
    let cases: [(u64, Option<u64>, &[u8], bool); 7] = [
        (2, Some(3), b"234", false),
        (7, Some(3), b"789", true),
        (7, Some(100), b"789", true),
        (4, None, b"456789", true),
        (0, Some(0), b"", false),
        (10, None, b"", true),
        (u64::MAX, Some(u64::MAX), b"", true),
    ];
    for (offset, limit, bytes, eof) in cases {
        let (got, reply) = part(&path, offset, limit).unwrap();
        assert_eq!((&got[..], ended(&reply)), (bytes, (bytes.len() as u64, eof)));
    }
}

#[test]
fn files_of_the_kernel_that_claim_to_be_empty_are_read_to_their_end() {
    let (content, reply) = whole(Path::new("/proc/self/status")).unwrap();
    assert!(content.starts_with(b"Name:"));
    assert!(ended(&reply).1);
}

#[test]
fn what_is_no_regular_file_is_refused_without_blocking() {
    let test_dir = TestDir::new();
    mkfifoat(CWD, test_dir.path("pipe"), Mode::from_raw_mode(0o600)).unwrap();
    let _socket = UnixListener::bind(test_dir.path("socket")).unwrap();
    symlink("pipe", test_dir.path("link")).unwrap();
    let strange = ["pipe", "socket", "link", "."].map(|name| test_dir.path(name));
    for path in strange.iter().map(std::path::PathBuf::as_path).chain([Path::new("/dev/null")]) {
        assert_eq!(whole(path).unwrap_err().code, FaultCode::WrongKind, "{}", path.display());
    }
}

#[test]
fn links_are_followed_and_missing_files_are_reported() {
    let test_dir = TestDir::new();
    test_dir.put("file", b"here");
    symlink("file", test_dir.path("link")).unwrap();
    assert_eq!(whole(&test_dir.path("link")).unwrap().0, b"here");
    assert_eq!(whole(&test_dir.path("none")).unwrap_err().code, FaultCode::NotFound);
}

#[test]
fn a_cancelled_read_stops_between_two_pieces() {
    struct Once<'a>(&'a AtomicBool, usize);
    impl ContentSink for Once<'_> {
        fn send(&mut self, bytes: &[u8]) -> Result<(), Fault> {
            self.0.store(true, Ordering::Relaxed);
            self.1 += bytes.len();
            Ok(())
        }
    }
    let test_dir = TestDir::new();
    let path = test_dir.put("file", &vec![0; 1 << 20]);
    let cancelled = AtomicBool::new(false);
    let mut sink = Once(&cancelled, 0);
    let range = ByteRange { offset: 0, limit: None };
    let fault = read(&path, range, &mut sink, &cancelled).unwrap_err();
    assert_eq!((fault.code, sink.1), (FaultCode::Cancelled, MAX_DATA));
}

#[test]
fn a_link_is_described_itself_or_by_what_it_points_at() {
    let test_dir = TestDir::new();
    test_dir.put("file", b"12345");
    symlink("file", test_dir.path("link")).unwrap();
    let itself = metadata_of(stat(&test_dir.path("link"), FinalLink::Keep).unwrap());
    assert_eq!(itself.kind, FileKind::Symlink);
    assert_eq!(itself.target, Some(b"file".to_vec().into()));
    let behind = metadata_of(stat(&test_dir.path("link"), FinalLink::Follow).unwrap());
    assert_eq!((behind.kind, behind.version.size, behind.target), (FileKind::File, 5, None));
}

#[test]
fn a_dangling_link_can_only_be_described_itself() {
    let test_dir = TestDir::new();
    symlink("nowhere", test_dir.path("link")).unwrap();
    assert!(stat(&test_dir.path("link"), FinalLink::Keep).is_ok());
    let fault = stat(&test_dir.path("link"), FinalLink::Follow).unwrap_err();
    assert_eq!(fault.code, FaultCode::NotFound);
}

fn run(path: &Path, skip: u32, limit: u32) -> (Vec<DirectoryEntry>, bool) {
    match list(path, skip, limit, &NEVER).unwrap() {
        FileReply::List { entries, more } => (entries, more),
        other => panic!("{other:?}"),
    }
}

fn names(entries: &[DirectoryEntry]) -> Vec<&[u8]> {
    entries.iter().map(|entry| &entry.name[..]).collect()
}

#[test]
fn entries_come_in_the_order_of_their_bytes() {
    let test_dir = TestDir::new();
    for name in ["b", "a", "B", "ä", ".hidden"] {
        test_dir.put(name, b"");
    }
    std::fs::write(test_dir.path("").join(std::ffi::OsStr::from_bytes(b"\xff")), b"").unwrap();
    let (entries, more) = run(&test_dir.path(""), 0, 100);
    let wanted: Vec<&[u8]> = vec![b".hidden", b"B", b"a", b"b", "ä".as_bytes(), b"\xff"];
    assert_eq!((names(&entries), more), (wanted, false));
}

#[test]
fn entries_are_described_without_following_links() {
    let test_dir = TestDir::new();
    test_dir.put("file", b"12345");
    std::fs::create_dir(test_dir.path("dir")).unwrap();
    symlink("nowhere", test_dir.path("link")).unwrap();
    let (entries, _) = run(&test_dir.path(""), 0, 100);
    let kinds: Vec<FileKind> = entries.iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, [FileKind::Directory, FileKind::File, FileKind::Symlink]);
    assert_eq!(entries[1].size, 5);
    assert!(entries[1].mtime_ns > 0);
}

#[test]
fn pages_join_to_the_whole() {
    let test_dir = TestDir::new();
    for n in 0..25 {
        test_dir.put(&format!("{n:02}"), b"");
    }
    let mut all = Vec::new();
    loop {
        let (entries, more) = run(&test_dir.path(""), u32::try_from(all.len()).unwrap(), 10);
        all.extend(entries);
        if !more {
            break;
        }
    }
    assert_eq!(all, run(&test_dir.path(""), 0, 100).0);
    assert_eq!(all.len(), 25);
    assert_eq!(run(&test_dir.path(""), 0, 0), (Vec::new(), true));
    assert_eq!(run(&test_dir.path(""), u32::MAX, u32::MAX), (Vec::new(), false));
}

#[test]
fn a_reply_never_outgrows_a_message() {
    let test_dir = TestDir::new();
    let long = "x".repeat(240);
    let original = test_dir.put(&format!("{long}00000"), b"");
    // Links are the fastest files to make.
    for n in 1..4_500 {
        std::fs::hard_link(&original, test_dir.path(&format!("{long}{n:05}"))).unwrap();
    }
    let reply = list(&test_dir.path(""), 0, u32::MAX, &NEVER).unwrap();
    let FileReply::List { entries, more: true } = &reply else {
        panic!("everything at once");
    };
    let count = u32::try_from(entries.len()).unwrap();
    assert!(count > 3_000);
    assert_eq!(run(&test_dir.path(""), count, u32::MAX).0.len(), 4_500 - entries.len());
    encode(&CallReply::File(reply)).unwrap();
}

#[test]
fn what_is_no_directory_is_not_listed() {
    let test_dir = TestDir::new();
    let file = test_dir.put("file", b"");
    assert_eq!(list(&file, 0, 1, &NEVER).unwrap_err().code, FaultCode::WrongKind);
    let none = list(&test_dir.path("none"), 0, 1, &NEVER).unwrap_err();
    assert_eq!(none.code, FaultCode::NotFound);
    assert!(none.message.starts_with("cannot list /"));
}

#[test]
fn a_directory_of_many_thousand_entries_is_listed_in_pages() {
    let test_dir = TestDir::new();
    let original = test_dir.put("0", b"");
    // Links are the fastest files to make.
    for n in 1..20_000 {
        std::fs::hard_link(&original, test_dir.path(&n.to_string())).unwrap();
    }
    let (entries, more) = run(&test_dir.path(""), 19_990, 100);
    assert_eq!((entries.len(), more), (10, false));
    assert_eq!(&entries[9].name[..], b"9999");
    let (entries, more) = run(&test_dir.path(""), 0, 15_000);
    assert_eq!((entries.len(), more), (15_000, true));
}
