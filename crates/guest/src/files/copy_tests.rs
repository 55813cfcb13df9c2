use std::fs::{self, File, FileTimes};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::time::{Duration, SystemTime};

use super::*;
use crate::files::testing::TestDir;

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().permissions().mode() & 0o7777
}

#[test]
fn an_empty_directory_becomes_a_copy_of_the_home() {
    let test_dir = TestDir::new();
    let home = test_dir.path("home");
    test_dir.put("home/.profile", b"profile");
    test_dir.put("home/bin/tool", b"tool");
    fs::hard_link(home.join("bin/tool"), home.join("bin/same")).unwrap();
    symlink("/etc/passwd", home.join("link")).unwrap();
    symlink(".", home.join("bin/loop")).unwrap();
    fs::set_permissions(home.join("bin/tool"), PermissionsExt::from_mode(0o751)).unwrap();
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    let times = FileTimes::new().set_accessed(old).set_modified(old);
    File::open(home.join(".profile")).unwrap().set_times(times).unwrap();
    let pipe = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(CWD, home.join("pipe"), pipe, Mode::from_raw_mode(0o600), 0).unwrap();
    std::os::unix::net::UnixListener::bind(home.join("socket")).unwrap();
    // Larger than any disk, and nothing in it.
    File::create(home.join("hollow")).unwrap().set_len(1 << 40).unwrap();
    fs::set_permissions(&home, PermissionsExt::from_mode(0o750)).unwrap();
    let to = test_dir.path("to");
    fs::create_dir(&to).unwrap();

    assert_eq!(fill(&home, &to), Ok(Filled::Yes));
    assert_eq!(mode(&to), 0o750);
    assert_eq!(test_dir.get("to/.profile"), b"profile");
    assert_eq!(to.join(".profile").metadata().unwrap().mtime(), 1_000_000);
    assert_eq!(
        (test_dir.get("to/bin/same"), mode(&to.join("bin/tool"))),
        (b"tool".to_vec(), 0o751)
    );
    assert_eq!(fs::read_link(to.join("link")).unwrap(), Path::new("/etc/passwd"));
    assert_eq!(fs::read_link(to.join("bin/loop")).unwrap(), Path::new("."));
    assert_eq!(to.join("hollow").metadata().unwrap().len(), 1 << 40);
    assert!(!to.join("pipe").exists() && !to.join("socket").exists());
    // It is never filled again.
    fs::remove_file(to.join(".profile")).unwrap();
    assert_eq!(fill(&home, &to), Ok(Filled::No));
    assert!(!to.join(".profile").exists());
}

#[test]
fn there_is_nothing_to_copy_from_the_root_the_kernel_or_a_home_that_is_missing() {
    let test_dir = TestDir::new();
    let to = test_dir.path("to");
    fs::create_dir(&to).unwrap();
    test_dir.put("file", b"x");
    let homes = ["/", "//", "/..", "/proc/self", "/nonexistent"];
    for home in homes.map(Path::new).into_iter().chain([&*test_dir.path("file"), &*to]) {
        assert_eq!(fill(home, &to), Ok(Filled::No), "{}", home.display());
    }
    assert_eq!(fs::read_dir(&to).unwrap().count(), 0);
}

#[test]
fn a_home_that_holds_the_directory_to_fill_is_copied_once() {
    let test_dir = TestDir::new();
    test_dir.put("home/file", b"x");
    let to = test_dir.path("home/to");
    fs::create_dir(&to).unwrap();
    assert_eq!(fill(&test_dir.path("home"), &to), Ok(Filled::Yes));
    assert_eq!(fs::read_dir(&to).unwrap().count(), 1);
}

#[test]
fn a_bottomless_home_is_an_error_and_leaves_the_directory_empty() {
    let test_dir = TestDir::new();
    test_dir.put("home/file", b"x");
    fs::create_dir_all(test_dir.path("home").join("d/".repeat(300))).unwrap();
    let to = test_dir.path("to");
    fs::create_dir(&to).unwrap();
    let fault = fill(&test_dir.path("home"), &to).unwrap_err();
    assert!(fault.message.contains("home/d/d/"), "{}", fault.message);
    assert_eq!(fs::read_dir(&to).unwrap().count(), 0);
}

#[test]
fn a_directory_that_is_a_link_is_not_filled() {
    let test_dir = TestDir::new();
    test_dir.put("home/file", b"x");
    fs::create_dir(test_dir.path("real")).unwrap();
    symlink("real", test_dir.path("to")).unwrap();
    assert!(fill(&test_dir.path("home"), &test_dir.path("to")).is_err());
    assert_eq!(fs::read_dir(test_dir.path("real")).unwrap().count(), 0);
}
