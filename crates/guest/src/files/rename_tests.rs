use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use rustix::fs::mkfifoat;

use super::*;
use crate::files::testing::{NEVER, TestDir};

fn run(from: &Path, to: &Path, overwrite: IfExists) -> Result<FileReply, Fault> {
    rename(from, to, overwrite, &NEVER)
}

/// A directory on another filesystem than the test directory's, where there is one.
fn elsewhere(test_dir: &TestDir) -> Option<tempfile::TempDir> {
    let here = std::fs::metadata(test_dir.root()).unwrap().dev();
    ["/dev/shm", "/var/tmp", "/run"].iter().find_map(|place| {
        let directory = tempfile::tempdir_in(place).ok()?;
        (std::fs::metadata(directory.path()).unwrap().dev() != here).then_some(directory)
    })
}

#[test]
fn a_name_that_is_taken_is_only_overwritten_when_that_is_allowed() {
    let test_dir = TestDir::new();
    let (from, to) = (test_dir.put("from", b"new"), test_dir.put("to", b"old"));
    let fault = run(&from, &to, IfExists::Never).unwrap_err();
    assert_eq!(fault.code, FaultCode::Exists);
    assert_eq!((test_dir.get("from"), test_dir.get("to")), (b"new".to_vec(), b"old".to_vec()));
    run(&from, &to, IfExists::Allowed).unwrap();
    assert_eq!((test_dir.get("to"), test_dir.names()), (b"new".to_vec(), vec!["to".to_owned()]));
    run(&to, &test_dir.path("free"), IfExists::Never).unwrap();
    assert_eq!(test_dir.names(), ["free"]);
}

#[test]
fn links_are_moved_themselves() {
    let test_dir = TestDir::new();
    test_dir.put("file", b"x");
    symlink("file", test_dir.path("link")).unwrap();
    run(&test_dir.path("link"), &test_dir.path("moved"), IfExists::Never).unwrap();
    assert_eq!(std::fs::read_link(test_dir.path("moved")).unwrap(), Path::new("file"));
    assert_eq!(test_dir.names(), ["file", "moved"]);
}

#[test]
fn a_directory_is_not_moved_into_itself() {
    let test_dir = TestDir::new();
    test_dir.put("dir/sub/file", b"");
    for overwrite in [IfExists::Never, IfExists::Allowed] {
        let fault =
            run(&test_dir.path("dir"), &test_dir.path("dir/sub/dir"), overwrite).unwrap_err();
        assert_eq!(fault.code, FaultCode::Invalid);
        assert!(fault.message.contains("inside of it"), "{}", fault.message);
    }
    assert!(test_dir.path("dir/sub/file").exists());
}

#[test]
fn what_is_missing_is_reported() {
    let test_dir = TestDir::new();
    test_dir.put("file", b"");
    let none = run(&test_dir.path("none"), &test_dir.path("x"), IfExists::Never).unwrap_err();
    assert_eq!(none.code, FaultCode::NotFound);
    let nowhere = run(&test_dir.path("file"), &test_dir.path("a/b"), IfExists::Never).unwrap_err();
    assert_eq!(nowhere.code, FaultCode::NotFound);
    assert!(nowhere.message.contains("/a/b"), "{}", nowhere.message);
}

fn furnish(test_dir: &TestDir) -> PathBuf {
    let file = test_dir.put("tree/sub/file", b"content \xff");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).unwrap();
    let old = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    std::fs::File::options().write(true).open(&file).unwrap().set_modified(old).unwrap();
    symlink("sub/file", test_dir.path("tree/link")).unwrap();
    symlink("nowhere", test_dir.path("tree/dangling")).unwrap();
    mkfifoat(CWD, test_dir.path("tree/pipe"), Mode::from_raw_mode(0o600)).unwrap();
    std::fs::create_dir(test_dir.path("tree/empty")).unwrap();
    std::fs::set_permissions(test_dir.path("tree/empty"), PermissionsExt::from_mode(0o711))
        .unwrap();
    std::fs::File::open(test_dir.path("tree/sub")).unwrap().set_modified(old).unwrap();
    test_dir.path("tree")
}

fn assert_complete(tree: &Path) {
    let file = std::fs::metadata(tree.join("sub/file")).unwrap();
    assert_eq!(std::fs::read(tree.join("sub/file")).unwrap(), b"content \xff");
    assert_eq!(file.mode() & 0o7777, 0o640);
    let sub = std::fs::metadata(tree.join("sub")).unwrap();
    for found in [file, sub] {
        assert_eq!((found.mtime(), found.mtime_nsec()), (1_000_000_000, 123_456_789));
    }
    assert_eq!(std::fs::read_link(tree.join("link")).unwrap(), Path::new("sub/file"));
    assert_eq!(std::fs::read_link(tree.join("dangling")).unwrap(), Path::new("nowhere"));
    assert_eq!(std::fs::metadata(tree.join("empty")).unwrap().mode() & 0o7777, 0o711);
    let pipe = std::fs::metadata(tree.join("pipe")).unwrap();
    assert_eq!(FileType::from_raw_mode(pipe.mode()), FileType::Fifo);
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_tree_is_carried_to_another_filesystem_whole() {
    let test_dir = TestDir::new();
    let tree = furnish(&test_dir);
    let Some(other) = elsewhere(&test_dir) else {
        // Within one filesystem the same code copies, without being asked to rename.
        return copy_beside(&test_dir, &tree);
    };
    run(&tree, &other.path().join("moved"), IfExists::Never).unwrap();
    assert_complete(&other.path().join("moved"));
    assert_eq!(names(other.path()), ["moved"]);
    assert_eq!(test_dir.names(), Vec::<String>::new());
}

fn copy_beside(test_dir: &TestDir, tree: &Path) {
    let target = test_dir.path("moved");
    let (source, target) = (RenameEnd::open(tree).unwrap(), RenameEnd::open(&target).unwrap());
    move_across_filesystems(&source, &target, IfExists::Never, &NEVER).unwrap();
    assert_complete(target.path);
    assert_eq!(test_dir.names(), ["moved"]);
}

#[test]
fn the_way_of_carrying_keeps_everything() {
    let test_dir = TestDir::new();
    let tree = furnish(&test_dir);
    copy_beside(&test_dir, &tree);
}

#[test]
fn a_carried_tree_that_fails_leaves_nothing_behind() {
    let test_dir = TestDir::new();
    let tree = furnish(&test_dir);
    test_dir.put("target/full", b"");
    let target = test_dir.path("target");
    let (source, spot) = (RenameEnd::open(&tree).unwrap(), RenameEnd::open(&target).unwrap());
    // A directory that is not empty cannot be replaced: the last step fails.
    let fault = move_across_filesystems(&source, &spot, IfExists::Allowed, &NEVER).unwrap_err();
    assert_eq!(fault.code, FaultCode::Exists);
    let fault = move_across_filesystems(&source, &spot, IfExists::Never, &NEVER).unwrap_err();
    assert_eq!(fault.code, FaultCode::Exists);
    let cancelled = AtomicBool::new(true);
    std::fs::remove_dir_all(&target).unwrap();
    let fault = move_across_filesystems(&source, &spot, IfExists::Never, &cancelled).unwrap_err();
    assert_eq!(fault.code, FaultCode::Cancelled);
    assert_complete(&tree);
    assert_eq!(test_dir.names(), ["tree"]);
}

#[test]
fn a_tree_is_not_carried_into_itself() {
    let test_dir = TestDir::new();
    let tree = furnish(&test_dir);
    let target = tree.join("sub/inside");
    let (source, spot) = (RenameEnd::open(&tree).unwrap(), RenameEnd::open(&target).unwrap());
    let fault = move_across_filesystems(&source, &spot, IfExists::Never, &NEVER).unwrap_err();
    assert_eq!(fault.code, FaultCode::Invalid);
    assert_complete(&tree);
}
