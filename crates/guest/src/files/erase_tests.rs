use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;
use crate::files::testing::Yard;

fn erased(path: &Path) -> (Result<u64, Fault>, Vec<String>) {
    let mut told = Vec::new();
    let kept = erase(path, &mut |line| told.push(line.to_owned()));
    (kept, told)
}

#[test]
fn everything_in_a_directory_goes_and_the_directory_stays() {
    let yard = Yard::new();
    yard.put("a/b/c/file", b"x");
    yard.put("file", b"x");
    symlink("/", yard.path("link")).unwrap();
    symlink(yard.root().join("home"), yard.path("a/link")).unwrap();
    fs::write(yard.root().join("home/kept"), "x").unwrap();
    let deep = "d/".repeat(100);
    fs::create_dir_all(yard.path(&deep)).unwrap();
    // Nobody but root can look into it as it is.
    fs::set_permissions(yard.path("a/b/c"), PermissionsExt::from_mode(0o000)).unwrap();
    fs::set_permissions(yard.path("a/b"), PermissionsExt::from_mode(0o555)).unwrap();
    assert_eq!(erased(&yard.path("")), (Ok(0), vec![]));
    assert_eq!(yard.names(), Vec::<String>::new());
    assert!(yard.root().join("home/kept").exists());
}

#[test]
fn a_directory_that_is_a_link_or_missing_is_an_error() {
    let yard = Yard::new();
    yard.put("dir/file", b"x");
    symlink("dir", yard.path("link")).unwrap();
    assert!(erased(&yard.path("link")).0.is_err());
    assert!(erased(&yard.path("none")).0.is_err());
    assert_eq!(yard.get("dir/file"), b"x");
}
