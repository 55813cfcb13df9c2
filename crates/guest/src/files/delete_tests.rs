use std::os::unix::fs::symlink;
use std::sync::atomic::Ordering;

use super::*;
use crate::files::testing::{NEVER, Yard};

fn run(yard: &Yard, path: &str, depth: Depth) -> Result<FileReply, Fault> {
    delete(&yard.path(path), depth, &yard.places(), &NEVER)
}

#[test]
fn a_file_and_an_empty_directory_go_a_full_one_only_with_all_in_it() {
    let yard = Yard::new();
    yard.put("file", b"");
    yard.put("dir/sub/file", b"");
    std::fs::create_dir(yard.path("empty")).unwrap();
    run(&yard, "file", Depth::One).unwrap();
    run(&yard, "empty", Depth::One).unwrap();
    assert_eq!(run(&yard, "dir", Depth::One).unwrap_err().code, FaultCode::Exists);
    assert!(yard.path("dir/sub/file").exists());
    run(&yard, "dir", Depth::All).unwrap();
    assert_eq!(yard.names(), Vec::<String>::new());
    assert_eq!(run(&yard, "dir", Depth::All).unwrap_err().code, FaultCode::NotFound);
}

#[test]
fn a_link_goes_and_what_it_points_at_stays() {
    let yard = Yard::new();
    yard.put("kept/file", b"");
    symlink("kept", yard.path("link")).unwrap();
    std::fs::create_dir(yard.path("dir")).unwrap();
    symlink(yard.path("kept"), yard.path("dir/inner")).unwrap();
    run(&yard, "link", Depth::All).unwrap();
    run(&yard, "dir", Depth::All).unwrap();
    assert_eq!(yard.names(), ["kept"]);
    assert!(yard.path("kept/file").exists());
}

#[test]
fn the_root_and_the_home_and_what_holds_them_are_kept() {
    let yard = Yard::new();
    let places = yard.places();
    std::fs::write(places.home.join("file"), b"").unwrap();
    let doomed = [
        Path::new("/").to_path_buf(),
        places.home.clone(),
        yard.root().to_path_buf(),
        places.home.join("../home"),
    ];
    for path in doomed {
        for depth in [Depth::One, Depth::All] {
            let fault = delete(&path, depth, &places, &NEVER).unwrap_err();
            assert_eq!(fault.code, FaultCode::Invalid, "{}", path.display());
        }
    }
    let up = delete(&yard.path("sub/.."), Depth::All, &places, &NEVER).unwrap_err();
    assert_eq!(up.code, FaultCode::Invalid);
    assert!(places.home.join("file").exists());
    symlink(&places.home, yard.path("link")).unwrap();
    run(&yard, "link", Depth::All).unwrap();
    assert!(places.home.join("file").exists());
}

#[test]
fn a_tree_deeper_than_any_path_goes() {
    let yard = Yard::new();
    let dir = openat(CWD, yard.path(""), OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
    let mut here = dir;
    for _ in 0..5_000 {
        rustix::fs::mkdirat(&here, c"deep", Mode::from_raw_mode(0o755)).unwrap();
        here = openat(&here, c"deep", OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
    drop(here);
    run(&yard, "deep", Depth::All).unwrap();
    assert_eq!(yard.names(), Vec::<String>::new());
}

#[test]
fn a_wide_tree_goes_while_others_fill_it() {
    let yard = Yard::new();
    for n in 0..50 {
        yard.put(&format!("tree/{n}/file"), b"");
    }
    let deleting = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let filler = scope.spawn(|| {
            let mut made = 0;
            while deleting.load(Ordering::Relaxed) && made < 2_000 {
                // It fails once the directory is gone, which is the point.
                made += usize::from(std::fs::write(yard.path("tree/7/more"), b"").is_ok());
                std::thread::yield_now();
            }
        });
        let done = run(&yard, "tree", Depth::All);
        deleting.store(false, Ordering::Relaxed);
        filler.join().unwrap();
        // A filler that outruns it is told of; nothing else may go wrong.
        if let Err(fault) = done {
            assert_eq!(fault.code, FaultCode::Exists);
        }
    });
    run(&yard, "tree", Depth::All).ok();
    assert_eq!(yard.names(), Vec::<String>::new());
}

#[test]
fn directories_swapped_for_links_lead_nowhere() {
    let yard = Yard::new();
    yard.put("kept/file", b"precious");
    for n in 0..200 {
        yard.put(&format!("tree/{n}/x"), b"");
    }
    let deleting = AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while deleting.load(Ordering::Relaxed) {
                for n in 0..200 {
                    let spot = yard.path(&format!("tree/{n}"));
                    let aside = yard.path(&format!("aside-{n}"));
                    if std::fs::rename(&spot, &aside).is_ok() {
                        symlink(yard.path("kept"), &spot).ok();
                    }
                }
            }
        });
        // A directory that was moved away while it was emptied is told of.
        run(&yard, "tree", Depth::All).ok();
        deleting.store(false, Ordering::Relaxed);
    });
    assert_eq!(yard.get("kept/file"), b"precious");
}

#[test]
fn a_cancelled_delete_stops() {
    let yard = Yard::new();
    yard.put("tree/file", b"");
    let cancelled = AtomicBool::new(true);
    let fault = delete(&yard.path("tree"), Depth::All, &yard.places(), &cancelled).unwrap_err();
    assert_eq!(fault.code, FaultCode::Cancelled);
    assert!(yard.path("tree/file").exists());
}
