use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::atomic::Ordering;

use super::*;
use crate::files::testing::{NEVER, TestDir};

fn run(test_dir: &TestDir, path: &str, depth: DeleteDepth) -> Result<FileReply, Fault> {
    delete(&test_dir.path(path), depth, &test_dir.roots(), &NEVER)
}

#[test]
fn a_file_and_an_empty_directory_go_a_full_one_only_with_all_in_it() {
    let test_dir = TestDir::new();
    test_dir.put("file", b"");
    test_dir.put("dir/sub/file", b"");
    std::fs::create_dir(test_dir.path("empty")).unwrap();
    run(&test_dir, "file", DeleteDepth::One).unwrap();
    run(&test_dir, "empty", DeleteDepth::One).unwrap();
    assert_eq!(run(&test_dir, "dir", DeleteDepth::One).unwrap_err().code, FaultCode::Exists);
    assert!(test_dir.path("dir/sub/file").exists());
    run(&test_dir, "dir", DeleteDepth::All).unwrap();
    assert_eq!(test_dir.names(), Vec::<String>::new());
    assert_eq!(run(&test_dir, "dir", DeleteDepth::All).unwrap_err().code, FaultCode::NotFound);
}

#[test]
fn a_link_goes_and_what_it_points_at_stays() {
    let test_dir = TestDir::new();
    test_dir.put("kept/file", b"");
    symlink("kept", test_dir.path("link")).unwrap();
    std::fs::create_dir(test_dir.path("dir")).unwrap();
    symlink(test_dir.path("kept"), test_dir.path("dir/inner")).unwrap();
    run(&test_dir, "link", DeleteDepth::All).unwrap();
    run(&test_dir, "dir", DeleteDepth::All).unwrap();
    assert_eq!(test_dir.names(), ["kept"]);
    assert!(test_dir.path("kept/file").exists());
}

#[test]
fn the_root_and_the_home_and_what_holds_them_are_kept() {
    let test_dir = TestDir::new();
    let roots = test_dir.roots();
    std::fs::write(roots.home.join("file"), b"").unwrap();
    let doomed = [
        Path::new("/").to_path_buf(),
        roots.home.clone(),
        test_dir.root().to_path_buf(),
        roots.home.join("../home"),
    ];
    for path in doomed {
        for depth in [DeleteDepth::One, DeleteDepth::All] {
            let fault = delete(&path, depth, &roots, &NEVER).unwrap_err();
            assert_eq!(fault.code, FaultCode::Invalid, "{}", path.display());
        }
    }
    let up = delete(&test_dir.path("sub/.."), DeleteDepth::All, &roots, &NEVER).unwrap_err();
    assert_eq!(up.code, FaultCode::Invalid);
    assert!(roots.home.join("file").exists());
    symlink(&roots.home, test_dir.path("link")).unwrap();
    run(&test_dir, "link", DeleteDepth::All).unwrap();
    assert!(roots.home.join("file").exists());
}

#[test]
fn a_tree_deeper_than_any_path_goes() {
    let test_dir = TestDir::new();
    let dir =
        openat(CWD, test_dir.path(""), OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
    let mut here = dir;
    for _ in 0..5_000 {
        rustix::fs::mkdirat(&here, c"deep", Mode::from_raw_mode(0o755)).unwrap();
        here = openat(&here, c"deep", OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
    drop(here);
    run(&test_dir, "deep", DeleteDepth::All).unwrap();
    assert_eq!(test_dir.names(), Vec::<String>::new());
}

#[test]
fn a_wide_tree_goes_while_others_fill_it() {
    let test_dir = TestDir::new();
    for n in 0..50 {
        test_dir.put(&format!("tree/{n}/file"), b"");
    }
    let deleting = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let filler = scope.spawn(|| {
            let mut made = 0;
            while deleting.load(Ordering::Relaxed) && made < 2_000 {
                // It fails once the directory is gone, which is the point.
                made += usize::from(std::fs::write(test_dir.path("tree/7/more"), b"").is_ok());
                std::thread::yield_now();
            }
        });
        let done = run(&test_dir, "tree", DeleteDepth::All);
        deleting.store(false, Ordering::Relaxed);
        filler.join().unwrap();
        // A filler that outruns it is reported; nothing else may go wrong.
        if let Err(fault) = done {
            assert_eq!(fault.code, FaultCode::Exists);
        }
    });
    run(&test_dir, "tree", DeleteDepth::All).ok();
    assert_eq!(test_dir.names(), Vec::<String>::new());
}

#[test]
fn directories_swapped_for_links_lead_nowhere() {
    let test_dir = TestDir::new();
    test_dir.put("kept/file", b"precious");
    for n in 0..200 {
        test_dir.put(&format!("tree/{n}/x"), b"");
    }
    let deleting = AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while deleting.load(Ordering::Relaxed) {
                for n in 0..200 {
                    let spot = test_dir.path(&format!("tree/{n}"));
                    let aside = test_dir.path(&format!("aside-{n}"));
                    if std::fs::rename(&spot, &aside).is_ok() {
                        symlink(test_dir.path("kept"), &spot).ok();
                    }
                }
            }
        });
        // A directory that was moved away while it was emptied is reported.
        run(&test_dir, "tree", DeleteDepth::All).ok();
        deleting.store(false, Ordering::Relaxed);
    });
    assert_eq!(test_dir.get("kept/file"), b"precious");
}

#[test]
fn a_cancelled_delete_stops() {
    let test_dir = TestDir::new();
    test_dir.put("tree/file", b"");
    let cancelled = AtomicBool::new(true);
    let fault = delete(&test_dir.path("tree"), DeleteDepth::All, &test_dir.roots(), &cancelled)
        .unwrap_err();
    assert_eq!(fault.code, FaultCode::Cancelled);
    assert!(test_dir.path("tree/file").exists());
}

fn erased(path: &Path) -> (Result<u64, Fault>, Vec<String>) {
    let mut reported = Vec::new();
    let kept = erase(path, &mut |line| reported.push(line.to_owned()));
    (kept, reported)
}

#[test]
fn everything_in_a_directory_goes_and_the_directory_stays() {
    let test_dir = TestDir::new();
    test_dir.put("a/b/c/file", b"x");
    test_dir.put("file", b"x");
    symlink("/", test_dir.path("link")).unwrap();
    symlink(test_dir.root().join("home"), test_dir.path("a/link")).unwrap();
    fs::write(test_dir.root().join("home/kept"), "x").unwrap();
    let deep = "d/".repeat(100);
    fs::create_dir_all(test_dir.path(&deep)).unwrap();
    // Nobody but root can look into it as it is.
    fs::set_permissions(test_dir.path("a/b/c"), PermissionsExt::from_mode(0o000)).unwrap();
    fs::set_permissions(test_dir.path("a/b"), PermissionsExt::from_mode(0o555)).unwrap();
    assert_eq!(erased(&test_dir.path("")), (Ok(0), vec![]));
    assert_eq!(test_dir.names(), Vec::<String>::new());
    assert!(test_dir.root().join("home/kept").exists());
}

#[test]
fn a_directory_that_is_a_link_or_missing_is_an_error() {
    let test_dir = TestDir::new();
    test_dir.put("dir/file", b"x");
    symlink("dir", test_dir.path("link")).unwrap();
    assert!(erased(&test_dir.path("link")).0.is_err());
    assert!(erased(&test_dir.path("none")).0.is_err());
    assert_eq!(test_dir.get("dir/file"), b"x");
}
