use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::sync::atomic::Ordering;

use rustix::fs::{CWD, Mode, mkfifoat};
use vestal_wire::Metadata;

use super::*;
use crate::files::testing::{NEVER, Received, Yard, metadata_of};

fn whole(path: &Path) -> Result<(Vec<u8>, FileReply), Fault> {
    part(path, 0, None)
}

fn part(path: &Path, offset: u64, limit: Option<u64>) -> Result<(Vec<u8>, FileReply), Fault> {
    let mut sink = Received::default();
    let reply = read(path, Range { offset, limit }, &mut sink, &NEVER)?;
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
    let yard = Yard::new();
    let content: Vec<u8> = (0..=255).cycle().step_by(7).take(200_000).collect();
    let path = yard.put("file", &content);
    let mut sink = Received::default();
    let reply = read(&path, Range { offset: 0, limit: None }, &mut sink, &NEVER).unwrap();
    assert_eq!(sink.bytes, content);
    assert!(sink.pieces.borrow().iter().all(|length| *length <= MAX_DATA));
    assert_eq!(ended(&reply), (200_000, true));
    let Metadata { kind, version, .. } = metadata_of(reply);
    assert_eq!((kind, version.size), (FileKind::File, 200_000));
}

#[test]
fn a_range_is_sent_and_says_whether_it_reaches_the_end() {
    let yard = Yard::new();
    let path = yard.put("file", b"0123456789");
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
    let yard = Yard::new();
    mkfifoat(CWD, yard.path("pipe"), Mode::from_raw_mode(0o600)).unwrap();
    let _socket = UnixListener::bind(yard.path("socket")).unwrap();
    symlink("pipe", yard.path("link")).unwrap();
    let strange = ["pipe", "socket", "link", "."].map(|name| yard.path(name));
    for path in strange.iter().map(std::path::PathBuf::as_path).chain([Path::new("/dev/null")]) {
        assert_eq!(whole(path).unwrap_err().code, FaultCode::WrongKind, "{}", path.display());
    }
}

#[test]
fn links_are_followed_and_missing_files_are_told() {
    let yard = Yard::new();
    yard.put("file", b"here");
    symlink("file", yard.path("link")).unwrap();
    assert_eq!(whole(&yard.path("link")).unwrap().0, b"here");
    assert_eq!(whole(&yard.path("none")).unwrap_err().code, FaultCode::NotFound);
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
    let yard = Yard::new();
    let path = yard.put("file", &vec![0; 1 << 20]);
    let cancelled = AtomicBool::new(false);
    let mut sink = Once(&cancelled, 0);
    let range = Range { offset: 0, limit: None };
    let fault = read(&path, range, &mut sink, &cancelled).unwrap_err();
    assert_eq!((fault.code, sink.1), (FaultCode::Cancelled, MAX_DATA));
}
