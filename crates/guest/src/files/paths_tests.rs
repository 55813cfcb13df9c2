use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::files::testing::TestDir;

fn roots() -> PathRoots {
    PathRoots { home: "/home/me".into(), base: "/srv/space".into() }
}

fn resolved(raw: &[u8]) -> PathBuf {
    resolve(raw, &roots()).unwrap()
}

#[test]
fn a_tilde_is_the_home_of_the_sandbox() {
    assert_eq!(resolved(b"~"), Path::new("/home/me"));
    assert_eq!(resolved(b"~/x"), Path::new("/home/me/x"));
    assert_eq!(resolved(b"~//x"), Path::new("/home/me/x"));
    assert_eq!(resolved(b"~x"), Path::new("/srv/space/~x"));
}

#[test]
fn relative_paths_start_at_the_base() {
    assert_eq!(resolved(b"a/./b//c/"), Path::new("/srv/space/a/b/c"));
    assert_eq!(resolved(b"../a"), Path::new("/srv/space/../a"));
    assert_eq!(resolved(b"/etc"), Path::new("/etc"));
}

#[test]
fn bytes_that_are_no_text_are_kept() {
    assert_eq!(resolved(b"caf\xe9").as_os_str().as_bytes(), b"/srv/space/caf\xe9");
}

#[test]
fn empty_nul_and_endless_paths_are_invalid() {
    for raw in [&b""[..], b"a\0b", &[b'x'; 5000]] {
        assert_eq!(resolve(raw, &roots()).unwrap_err().code, FaultCode::Invalid);
    }
}

fn mode_of(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & PERMISSIONS
}

#[test]
fn parents_are_made_only_when_asked_for() {
    let test_dir = TestDir::new();
    let deep = test_dir.path("a/b/c");
    assert_eq!(mkdir(&deep, ParentDirs::Expect, None).unwrap_err().code, FaultCode::NotFound);
    mkdir(&deep, ParentDirs::Make, None).unwrap();
    assert!(deep.is_dir());
    mkdir(&deep, ParentDirs::Make, None).unwrap();
    assert_eq!(mkdir(&deep, ParentDirs::Expect, None).unwrap_err().code, FaultCode::Exists);
}

#[test]
fn the_mode_asked_for_is_set_whatever_the_umask() {
    let test_dir = TestDir::new();
    mkdir(&test_dir.path("open"), ParentDirs::Expect, Some(0o1777)).unwrap();
    assert_eq!(mode_of(&test_dir.path("open")), 0o1777);
    mkdir(&test_dir.path("shut"), ParentDirs::Expect, Some(0o300)).unwrap();
    assert_eq!(mode_of(&test_dir.path("shut")), 0o300);
    std::fs::remove_dir(test_dir.path("shut")).unwrap();
    let fault = mkdir(&test_dir.path("odd"), ParentDirs::Expect, Some(0o100_644)).unwrap_err();
    assert_eq!(fault.code, FaultCode::Invalid);
}

#[test]
fn a_file_in_the_way_is_a_fault() {
    let test_dir = TestDir::new();
    test_dir.put("file", b"");
    let onto = mkdir(&test_dir.path("file"), ParentDirs::Make, None).unwrap_err();
    assert_eq!(onto.code, FaultCode::Exists);
    let below = mkdir(&test_dir.path("file/x/y"), ParentDirs::Make, None).unwrap_err();
    assert_eq!(below.code, FaultCode::WrongKind);
}

#[test]
fn a_way_through_a_missing_directory_and_back_is_made() {
    let test_dir = TestDir::new();
    mkdir(&test_dir.path("a/../b/c"), ParentDirs::Make, None).unwrap();
    assert!(test_dir.path("b/c").is_dir());
}

#[test]
fn many_makers_of_one_directory_all_succeed() {
    let test_dir = TestDir::new();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| mkdir(&test_dir.path("p/q/r/s"), ParentDirs::Make, None).unwrap());
        }
    });
    assert!(test_dir.path("p/q/r/s").is_dir());
}
