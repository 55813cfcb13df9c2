use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use super::*;
use crate::files::testing::{NEVER, TestDir, metadata_of};

fn edit(old: &[u8], new: &[u8]) -> FileEdit {
    FileEdit { old: old.to_vec().into(), new: new.to_vec().into(), all: false }
}

fn everywhere(old: &[u8], new: &[u8]) -> FileEdit {
    FileEdit { all: true, ..edit(old, new) }
}

fn run(test_dir: &TestDir, edits: &[FileEdit]) -> Result<FileReply, Fault> {
    patch(b"file", edits, None, &test_dir.roots(), &NEVER)
}

fn replaced(reply: &FileReply) -> u32 {
    match reply {
        FileReply::Written { replaced, created: false, .. } => *replaced,
        other => panic!("{other:?}"),
    }
}

fn conflict(test_dir: &TestDir, edits: &[FileEdit]) -> String {
    let before = test_dir.get("file");
    let fault = run(test_dir, edits).unwrap_err();
    assert_eq!(fault.code, FaultCode::Conflict);
    assert_eq!(test_dir.get("file"), before);
    assert_eq!(test_dir.names(), ["file"]);
    fault.message
}

#[test]
fn bytes_that_are_no_text_survive() {
    let test_dir = TestDir::new();
    let path = test_dir.put("file", b"caf\xe9 au lait\r\nna\xefve\0\xff\n");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
    let reply =
        run(&test_dir, &[edit(b"au lait", b"noir"), edit(b"na\xefve", b"\xfcber")]).unwrap();
    assert_eq!(replaced(&reply), 2);
    assert_eq!(test_dir.get("file"), b"caf\xe9 noir\r\n\xfcber\0\xff\n");
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
}

#[test]
fn edits_are_applied_in_order_each_to_what_the_last_one_left() {
    let test_dir = TestDir::new();
    test_dir.put("file", b"one two");
    run(&test_dir, &[edit(b"one", b"two"), everywhere(b"two", b"three"), edit(b"ee th", b"-")])
        .unwrap();
    assert_eq!(test_dir.get("file"), b"thr-ree");
}

#[test]
fn every_occurrence_is_replaced_from_left_to_right_without_overlap() {
    let test_dir = TestDir::new();
    test_dir.put("file", b"aaaaa");
    assert_eq!(replaced(&run(&test_dir, &[everywhere(b"aa", b"b")]).unwrap()), 2);
    assert_eq!(test_dir.get("file"), b"bba");
}

#[test]
fn all_edits_are_made_or_none() {
    let test_dir = TestDir::new();
    test_dir.put("file", b"one two");
    let message = conflict(&test_dir, &[edit(b"one", b"1"), edit(b"three", b"3")]);
    assert!(message.ends_with("edit 2 of 2: text not found"), "{message}");
}

#[test]
fn an_ambiguous_text_is_reported_with_its_lines() {
    let test_dir = TestDir::new();
    test_dir.put("file", b"x\ny x\n\nx\n");
    let message = conflict(&test_dir, &[edit(b"x", b"z")]);
    assert!(message.ends_with("text found 3 times, in lines 1, 2, 4"), "{message}");
    test_dir.put("file", "x\n".repeat(9).as_bytes());
    let message = conflict(&test_dir, &[edit(b"x", b"z")]);
    assert!(message.ends_with("text found 9 times, in lines 1, 2, 3, 4, 5, …"), "{message}");
}

#[test]
fn a_text_that_nearly_fits_is_refused_with_the_reason() {
    let test_dir = TestDir::new();
    test_dir.put("file", b"one\r\ntwo\r\n");
    let message = conflict(&test_dir, &[edit(b"one\ntwo\n", b"")]);
    assert!(message.contains("CRLF"), "{message}");
    test_dir.put("file", b"one  \ntwo\n");
    let message = conflict(&test_dir, &[edit(b"one\ntwo", b"")]);
    assert!(message.contains("spaces at the ends of lines"), "{message}");
    test_dir.put("file", b"one");
    let message = conflict(&test_dir, &[edit(b"  ", b"")]);
    assert!(message.ends_with("text not found"), "{message}");
}

#[test]
fn an_edit_without_a_text_to_look_for_is_invalid() {
    let test_dir = TestDir::new();
    test_dir.put("file", b"x");
    for edits in [&[edit(b"", b"y")][..], &[]] {
        assert_eq!(run(&test_dir, edits).unwrap_err().code, FaultCode::Invalid);
    }
}

#[test]
fn a_file_or_a_result_that_is_too_large_is_refused() {
    let test_dir = TestDir::new();
    let path = test_dir.put("file", b"");
    std::fs::File::options().write(true).open(&path).unwrap().set_len(MAX_SIZE + 1).unwrap();
    assert_eq!(run(&test_dir, &[edit(b"x", b"y")]).unwrap_err().code, FaultCode::NoSpace);
    test_dir.put("file", &[b'a'; 1 << 10]);
    let fault = run(&test_dir, &[everywhere(b"a", &vec![b'b'; 1 << 17])]).unwrap_err();
    assert_eq!(fault.code, FaultCode::NoSpace);
    assert_eq!(test_dir.get("file"), [b'a'; 1 << 10]);
}

#[test]
fn links_stay_and_versions_are_kept_to() {
    let test_dir = TestDir::new();
    let path = test_dir.put("target", b"old");
    symlink("target", test_dir.path("file")).unwrap();
    let found = rustix::fs::stat(&path).unwrap();
    let expect = Some(version(&found));
    let reply = patch(b"file", &[edit(b"old", b"new")], expect, &test_dir.roots(), &NEVER).unwrap();
    assert_ne!(Some(metadata_of(reply).version), expect);
    assert!(test_dir.path("file").is_symlink());
    let late = patch(b"file", &[edit(b"new", b"x")], expect, &test_dir.roots(), &NEVER);
    assert_eq!(late.unwrap_err().code, FaultCode::Conflict);
    assert_eq!(test_dir.get("target"), b"new");
}

#[test]
fn no_patch_is_lost_among_many_at_once() {
    let test_dir = TestDir::new();
    test_dir.put("file", b"");
    let lines: Vec<u8> = (0..8).flat_map(|n| format!("<{n}>\n").into_bytes()).collect();
    test_dir.put("file", &lines);
    let conflicts = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for n in 0..8 {
            let (test_dir, conflicts) = (&test_dir, &conflicts);
            scope.spawn(move || {
                let edits = [edit(format!("<{n}>").as_bytes(), format!("[{n}]").as_bytes())];
                while let Err(fault) = run(test_dir, &edits) {
                    assert_eq!(fault.code, FaultCode::Conflict);
                    assert!(fault.message.contains("changed"), "{}", fault.message);
                    conflicts.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let wanted: Vec<u8> = (0..8).flat_map(|n| format!("[{n}]\n").into_bytes()).collect();
    assert_eq!(test_dir.get("file"), wanted);
    assert_eq!(test_dir.names(), ["file"]);
}
