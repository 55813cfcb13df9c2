use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::*;

#[test]
fn a_deep_home_gets_a_short_socket_elsewhere() {
    let deep = PathBuf::from(format!("/{}/run", "d".repeat(120)));
    let runtime = Environment::from_pairs([("XDG_RUNTIME_DIR", "/run/user/7")]);
    let dir = private_dir(&deep, 11, &runtime);
    assert!(dir.starts_with("/run/user/7"), "{dir:?}");
    assert_eq!(dir, private_dir(&deep, 11, &runtime), "the same for every process");
    assert_ne!(dir, private_dir(&deep.join("x"), 11, &runtime), "another for every home");
    assert!(private_dir(&deep, 11, &Environment::default()).starts_with("/tmp"));
    let long = format!("/{}", "r".repeat(100));
    let long = Environment::from_pairs([("XDG_RUNTIME_DIR", long)]);
    assert!(private_dir(&deep, 11, &long).starts_with("/tmp"));
    assert_eq!(private_dir(Path::new("/home/me/run"), 11, &runtime), Path::new("/home/me/run"));
}

#[test]
fn a_directory_for_sockets_is_this_users_alone() {
    let dir = tempfile::tempdir().unwrap();
    let made = dir.path().join("a/b");
    let mode = || fs::metadata(&made).unwrap().permissions().mode() & 0o777;
    make_private(&made).unwrap();
    assert_eq!(mode(), 0o700);
    fs::set_permissions(&made, fs::Permissions::from_mode(0o775)).unwrap();
    make_private(&made).unwrap();
    assert_eq!(mode(), 0o755, "others may not write to it");
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(dir.path(), &link).unwrap();
    assert!(make_private(&link).is_err(), "whoever made the link decides where it leads");
}
