use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, Mode, XattrFlags, getxattr, mkfifoat, setxattr};
use vestal_wire::{FileOp, Metadata};

use super::*;
use crate::files::metadata::PERMISSIONS;
use crate::files::testing::{DisconnectedReader, NEVER, TestDir, is_root, metadata_of};

struct Written {
    metadata: Metadata,
    created: bool,
    in_place: bool,
}

fn request(path: &str) -> FileWrite<'_> {
    FileWrite {
        path: path.as_bytes(),
        create: CreateMode::Any,
        parents: false,
        mode: None,
        expect: None,
    }
}

fn run(test_dir: &TestDir, request: &FileWrite<'_>, content: &[u8]) -> Result<Written, Fault> {
    match write(request, &test_dir.roots(), &mut &*content, &NEVER)? {
        FileReply::Written { metadata, created, in_place, .. } => {
            Ok(Written { metadata, created, in_place })
        }
        other => panic!("{other:?}"),
    }
}

fn code(result: Result<Written, Fault>) -> FaultCode {
    match result {
        Ok(_) => panic!("it was written"),
        Err(fault) => fault.code,
    }
}

fn mode_of(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().mode() & PERMISSIONS
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

/// Returns the umask without changing it.
fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:")).unwrap();
    u32::from_str_radix(line.trim(), 8).unwrap()
}

#[test]
fn a_new_file_has_the_content_and_the_mode_the_umask_leaves() {
    let test_dir = TestDir::new();
    let done = run(&test_dir, &request("new"), b"hello").unwrap();
    assert!(done.created && !done.in_place);
    assert_eq!(test_dir.get("new"), b"hello");
    assert_eq!(mode_of(&test_dir.path("new")), 0o666 & !umask());
    let found = std::fs::metadata(test_dir.path("new")).unwrap();
    let version = done.metadata.version;
    assert_eq!((version.inode, version.size), (found.ino(), 5));
    assert_eq!(version.mtime_ns, found.mtime() * 1_000_000_000 + found.mtime_nsec());
    assert_eq!(test_dir.names(), ["new"]);
}

#[test]
fn what_is_written_to_the_home_is_read_from_the_home() {
    let test_dir = TestDir::new();
    run(&test_dir, &request("~/x"), b"same").unwrap();
    let read = FileOp::Read { path: b"~/x".to_vec().into(), offset: 0, limit: None };
    assert_eq!(test_dir.perform(read, b"").unwrap().1, b"same");
    assert_eq!(std::fs::read(test_dir.roots().home.join("x")).unwrap(), b"same");
}

#[test]
fn the_file_replaced_leaves_its_mode_and_its_attributes() {
    let test_dir = TestDir::new();
    let path = test_dir.put("file", b"old");
    set_mode(&path, 0o2751);
    let tagged = setxattr(&path, c"user.tag", b"kept", XattrFlags::empty()).is_ok();
    let before = std::fs::metadata(&path).unwrap();
    let done = run(&test_dir, &request("file"), b"new content").unwrap();
    assert!(!done.created && !done.in_place);
    let after = std::fs::metadata(&path).unwrap();
    assert_eq!(mode_of(&path), 0o2751);
    assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
    assert_ne!(after.ino(), before.ino());
    if tagged {
        let mut value = [0; 16];
        assert_eq!(getxattr(&path, c"user.tag", &mut value[..]).unwrap(), 4);
        assert_eq!(&value[..4], b"kept");
    }
    assert_eq!(test_dir.get("file"), b"new content");
}

#[test]
fn another_owner_is_kept() {
    let test_dir = TestDir::new();
    let path = test_dir.put("file", b"old");
    if !is_root() {
        // Without the right to change owners there are no files of others to write.
        return;
    }
    std::os::unix::fs::chown(&path, Some(1234), Some(4321)).unwrap();
    set_mode(&path, 0o4755);
    run(&test_dir, &request("file"), b"new").unwrap();
    let after = std::fs::metadata(&path).unwrap();
    assert_eq!((after.uid(), after.gid(), mode_of(&path)), (1234, 4321, 0o4755));
}

#[test]
fn a_mode_that_is_asked_for_is_set_whatever_the_umask() {
    let test_dir = TestDir::new();
    run(&test_dir, &FileWrite { mode: Some(0o666), ..request("new") }, b"").unwrap();
    assert_eq!(mode_of(&test_dir.path("new")), 0o666);
    run(&test_dir, &FileWrite { mode: Some(0o600), ..request("new") }, b"").unwrap();
    assert_eq!(mode_of(&test_dir.path("new")), 0o600);
    let odd = run(&test_dir, &FileWrite { mode: Some(0o40_000), ..request("new") }, b"");
    assert_eq!(code(odd), FaultCode::Invalid);
}

#[test]
fn a_link_stays_and_what_it_points_at_is_written() {
    let test_dir = TestDir::new();
    let path = test_dir.put("sub/target", b"old");
    set_mode(&path, 0o640);
    symlink("sub/target", test_dir.path("one")).unwrap();
    symlink(test_dir.path("one"), test_dir.path("two")).unwrap();
    let done = run(&test_dir, &request("two"), b"new").unwrap();
    assert!(!done.created);
    assert_eq!(test_dir.get("sub/target"), b"new");
    assert_eq!(mode_of(&path), 0o640);
    for link in ["one", "two"] {
        assert!(std::fs::symlink_metadata(test_dir.path(link)).unwrap().is_symlink());
    }
    assert_eq!(test_dir.names(), ["one", "sub", "two"]);
}

#[test]
fn a_dangling_link_makes_its_target() {
    let test_dir = TestDir::new();
    symlink("later", test_dir.path("link")).unwrap();
    assert!(run(&test_dir, &request("link"), b"now").unwrap().created);
    assert_eq!(test_dir.get("later"), b"now");
    symlink("no/such/dir", test_dir.path("far")).unwrap();
    assert_eq!(code(run(&test_dir, &request("far"), b"")), FaultCode::NotFound);
    run(&test_dir, &FileWrite { parents: true, ..request("far") }, b"made").unwrap();
    assert_eq!(test_dir.get("no/such/dir"), b"made");
}

#[test]
fn links_in_a_circle_are_a_fault() {
    let test_dir = TestDir::new();
    symlink("b", test_dir.path("a")).unwrap();
    symlink("a", test_dir.path("b")).unwrap();
    assert_eq!(code(run(&test_dir, &request("a"), b"")), FaultCode::WrongKind);
}

#[test]
fn several_hard_links_stay_one_file_and_are_reported() {
    let test_dir = TestDir::new();
    let path = test_dir.put("one", b"a longer old content");
    std::fs::hard_link(&path, test_dir.path("two")).unwrap();
    let done = run(&test_dir, &request("one"), b"new").unwrap();
    assert!(done.in_place && !done.created);
    assert_eq!((test_dir.get("one"), test_dir.get("two")), (b"new".to_vec(), b"new".to_vec()));
    assert_eq!(std::fs::metadata(&path).unwrap().nlink(), 2);
    assert_eq!(test_dir.names(), ["one", "two"]);
}

#[test]
fn a_file_in_a_directory_that_may_not_be_written_is_written_in_place() {
    if is_root() {
        // Root may write everywhere; a mount point stands in below.
        return;
    }
    let test_dir = TestDir::new();
    let path = test_dir.put("sub/file", b"old content");
    set_mode(path.parent().unwrap(), 0o555);
    let done = run(&test_dir, &request("sub/file"), b"new");
    let other = code(run(&test_dir, &request("sub/other"), b""));
    set_mode(path.parent().unwrap(), 0o755);
    assert!(done.unwrap().in_place);
    assert_eq!((test_dir.get("sub/file"), other), (b"new".to_vec(), FaultCode::Denied));
}

#[test]
fn what_may_be_there_before_is_kept_to() {
    let test_dir = TestDir::new();
    let new = |path| FileWrite { create: CreateMode::New, ..request(path) };
    let existing = |path| FileWrite { create: CreateMode::Existing, ..request(path) };
    assert_eq!(code(run(&test_dir, &existing("file"), b"")), FaultCode::NotFound);
    assert!(run(&test_dir, &new("file"), b"1").unwrap().created);
    assert_eq!(code(run(&test_dir, &new("file"), b"2")), FaultCode::Exists);
    assert!(!run(&test_dir, &existing("file"), b"3").unwrap().created);
    symlink("nowhere", test_dir.path("link")).unwrap();
    assert_eq!(code(run(&test_dir, &new("link"), b"")), FaultCode::Exists);
    assert_eq!(test_dir.get("file"), b"3");
    assert_eq!(test_dir.names(), ["file", "link"]);
}

#[test]
fn a_version_that_is_not_there_any_more_is_a_conflict() {
    let test_dir = TestDir::new();
    let first = run(&test_dir, &request("file"), b"aaa").unwrap().metadata.version;
    let expecting = |version| FileWrite { expect: Some(version), ..request("file") };
    let second = run(&test_dir, &expecting(first), b"bbb").unwrap().metadata.version;
    assert_ne!(first, second);
    assert_eq!(code(run(&test_dir, &expecting(first), b"ccc")), FaultCode::Conflict);
    assert_eq!(test_dir.get("file"), b"bbb");
    std::fs::remove_file(test_dir.path("file")).unwrap();
    assert_eq!(code(run(&test_dir, &expecting(second), b"ddd")), FaultCode::Conflict);
    assert_eq!(test_dir.names(), Vec::<String>::new());
}

#[test]
fn parents_are_made_when_asked_for() {
    let test_dir = TestDir::new();
    assert_eq!(code(run(&test_dir, &request("a/b/c"), b"")), FaultCode::NotFound);
    run(&test_dir, &FileWrite { parents: true, ..request("a/b/c") }, b"deep").unwrap();
    assert_eq!(test_dir.get("a/b/c"), b"deep");
}

#[test]
fn only_regular_files_are_written() {
    let test_dir = TestDir::new();
    std::fs::create_dir(test_dir.path("dir")).unwrap();
    mkfifoat(CWD, test_dir.path("pipe"), Mode::from_raw_mode(0o600)).unwrap();
    for path in ["dir", "pipe", "/dev/null", "new/", "/", "dir/.."] {
        assert_eq!(code(run(&test_dir, &request(path), b"x")), FaultCode::WrongKind, "{path}");
    }
    assert_eq!(test_dir.names(), ["dir", "pipe"]);
}

#[test]
fn a_lost_connection_leaves_the_file_as_it_was() {
    let test_dir = TestDir::new();
    test_dir.put("file", b"old");
    std::fs::hard_link(test_dir.path("file"), test_dir.path("linked")).unwrap();
    test_dir.put("single", b"old");
    for path in ["file", "single", "none"] {
        let half = vec![b'x'; 300_000];
        let result =
            write(&request(path), &test_dir.roots(), &mut DisconnectedReader(&half), &NEVER);
        assert_eq!(result.unwrap_err().code, FaultCode::System);
    }
    assert_eq!((test_dir.get("file"), test_dir.get("single")), (b"old".to_vec(), b"old".to_vec()));
    assert_eq!(test_dir.names(), ["file", "linked", "single"]);
}

#[test]
fn a_cancelled_write_leaves_the_file_as_it_was() {
    struct Cancelling<'a>(&'a AtomicBool);
    impl Read for Cancelling<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.store(true, Ordering::Relaxed);
            Ok(buffer.len())
        }
    }
    let test_dir = TestDir::new();
    test_dir.put("file", b"old");
    let cancelled = AtomicBool::new(false);
    let result =
        write(&request("file"), &test_dir.roots(), &mut Cancelling(&cancelled), &cancelled);
    assert_eq!(result.unwrap_err().code, FaultCode::Cancelled);
    assert_eq!(test_dir.get("file"), b"old");
    assert_eq!(test_dir.names(), ["file"]);
}

#[test]
fn the_path_in_the_reply_is_the_one_it_was_reached_by() {
    let test_dir = TestDir::new();
    test_dir.put("file", b"");
    symlink("file", test_dir.path("link")).unwrap();
    let write = FileOp::Write {
        path: b"./link".to_vec().into(),
        create: CreateMode::Any,
        parents: false,
        mode: None,
        expect: None,
    };
    let metadata = metadata_of(test_dir.perform(write, b"x").unwrap().0);
    assert_eq!(&metadata.path[..], test_dir.path("link").to_str().unwrap().as_bytes());
}

#[path = "write_race_tests.rs"]
mod races;
