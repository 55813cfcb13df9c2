use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use rustix::fs::mkfifoat;

use super::*;
use crate::files::testing::{NEVER, Yard};

fn run(from: &Path, to: &Path, overwrite: Overwrite) -> Result<FileReply, Fault> {
    rename(from, to, overwrite, &NEVER)
}

/// A directory on another filesystem than the yard's, where there is one.
fn elsewhere(yard: &Yard) -> Option<tempfile::TempDir> {
    let here = std::fs::metadata(yard.root()).unwrap().dev();
    ["/dev/shm", "/var/tmp", "/run"].iter().find_map(|place| {
        let directory = tempfile::tempdir_in(place).ok()?;
        (std::fs::metadata(directory.path()).unwrap().dev() != here).then_some(directory)
    })
}

#[test]
fn a_name_that_is_taken_is_only_overwritten_when_that_is_allowed() {
    let yard = Yard::new();
    let (from, to) = (yard.put("from", b"new"), yard.put("to", b"old"));
    let fault = run(&from, &to, Overwrite::Never).unwrap_err();
    assert_eq!(fault.code, FaultCode::Exists);
    assert_eq!((yard.get("from"), yard.get("to")), (b"new".to_vec(), b"old".to_vec()));
    run(&from, &to, Overwrite::Allowed).unwrap();
    assert_eq!((yard.get("to"), yard.names()), (b"new".to_vec(), vec!["to".to_owned()]));
    run(&to, &yard.path("free"), Overwrite::Never).unwrap();
    assert_eq!(yard.names(), ["free"]);
}

#[test]
fn links_are_moved_themselves() {
    let yard = Yard::new();
    yard.put("file", b"x");
    symlink("file", yard.path("link")).unwrap();
    run(&yard.path("link"), &yard.path("moved"), Overwrite::Never).unwrap();
    assert_eq!(std::fs::read_link(yard.path("moved")).unwrap(), Path::new("file"));
    assert_eq!(yard.names(), ["file", "moved"]);
}

#[test]
fn a_directory_is_not_moved_into_itself() {
    let yard = Yard::new();
    yard.put("dir/sub/file", b"");
    for overwrite in [Overwrite::Never, Overwrite::Allowed] {
        let fault = run(&yard.path("dir"), &yard.path("dir/sub/dir"), overwrite).unwrap_err();
        assert_eq!(fault.code, FaultCode::Invalid);
        assert!(fault.message.contains("inside of it"), "{}", fault.message);
    }
    assert!(yard.path("dir/sub/file").exists());
}

#[test]
fn what_is_missing_is_told() {
    let yard = Yard::new();
    yard.put("file", b"");
    let none = run(&yard.path("none"), &yard.path("x"), Overwrite::Never).unwrap_err();
    assert_eq!(none.code, FaultCode::NotFound);
    let nowhere = run(&yard.path("file"), &yard.path("a/b"), Overwrite::Never).unwrap_err();
    assert_eq!(nowhere.code, FaultCode::NotFound);
    assert!(nowhere.message.contains("/a/b"), "{}", nowhere.message);
}

fn furnish(yard: &Yard) -> PathBuf {
    let file = yard.put("tree/sub/file", b"content \xff");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).unwrap();
    let old = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    std::fs::File::options().write(true).open(&file).unwrap().set_modified(old).unwrap();
    symlink("sub/file", yard.path("tree/link")).unwrap();
    symlink("nowhere", yard.path("tree/dangling")).unwrap();
    mkfifoat(CWD, yard.path("tree/pipe"), Mode::from_raw_mode(0o600)).unwrap();
    std::fs::create_dir(yard.path("tree/empty")).unwrap();
    std::fs::set_permissions(yard.path("tree/empty"), PermissionsExt::from_mode(0o711)).unwrap();
    std::fs::File::open(yard.path("tree/sub")).unwrap().set_modified(old).unwrap();
    yard.path("tree")
}

fn demand_furnished(tree: &Path) {
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
    let yard = Yard::new();
    let tree = furnish(&yard);
    let Some(other) = elsewhere(&yard) else {
        // Within one filesystem the same code copies, without being asked to rename.
        return copy_beside(&yard, &tree);
    };
    run(&tree, &other.path().join("moved"), Overwrite::Never).unwrap();
    demand_furnished(&other.path().join("moved"));
    assert_eq!(names(other.path()), ["moved"]);
    assert_eq!(yard.names(), Vec::<String>::new());
}

fn copy_beside(yard: &Yard, tree: &Path) {
    let goal = yard.path("moved");
    let (source, goal) = (Spot::open(tree).unwrap(), Spot::open(&goal).unwrap());
    carry(&source, &goal, Overwrite::Never, &NEVER).unwrap();
    demand_furnished(goal.path);
    assert_eq!(yard.names(), ["moved"]);
}

#[test]
fn the_way_of_carrying_keeps_everything() {
    let yard = Yard::new();
    let tree = furnish(&yard);
    copy_beside(&yard, &tree);
}

#[test]
fn a_carried_tree_that_fails_leaves_nothing_behind() {
    let yard = Yard::new();
    let tree = furnish(&yard);
    yard.put("goal/full", b"");
    let goal = yard.path("goal");
    let (source, spot) = (Spot::open(&tree).unwrap(), Spot::open(&goal).unwrap());
    // A directory that is not empty cannot be replaced: the last step fails.
    let fault = carry(&source, &spot, Overwrite::Allowed, &NEVER).unwrap_err();
    assert_eq!(fault.code, FaultCode::Exists);
    let fault = carry(&source, &spot, Overwrite::Never, &NEVER).unwrap_err();
    assert_eq!(fault.code, FaultCode::Exists);
    let cancelled = AtomicBool::new(true);
    std::fs::remove_dir_all(&goal).unwrap();
    let fault = carry(&source, &spot, Overwrite::Never, &cancelled).unwrap_err();
    assert_eq!(fault.code, FaultCode::Cancelled);
    demand_furnished(&tree);
    assert_eq!(yard.names(), ["tree"]);
}

#[test]
fn a_tree_is_not_carried_into_itself() {
    let yard = Yard::new();
    let tree = furnish(&yard);
    let goal = tree.join("sub/inside");
    let (source, spot) = (Spot::open(&tree).unwrap(), Spot::open(&goal).unwrap());
    let fault = carry(&source, &spot, Overwrite::Never, &NEVER).unwrap_err();
    assert_eq!(fault.code, FaultCode::Invalid);
    demand_furnished(&tree);
}
