use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use super::testing::{Archive, RootfsFixture};
use crate::{Progress, ProgressSink};

fn system(at: &Path) {
    fs::create_dir_all(at.join("usr/bin")).unwrap();
    fs::write(at.join("usr/bin/dash"), "").unwrap();
    fs::set_permissions(at.join("usr/bin/dash"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("/usr/bin", at.join("bin")).unwrap();
    symlink("dash", at.join("usr/bin/sh")).unwrap();
}

#[test]
fn a_directory_with_a_system_is_used_where_it_is() {
    let fixture = RootfsFixture::new();
    let dir = fixture.path("debian");
    system(&dir);
    let found = fixture.provide(&dir).unwrap();
    assert_eq!((&found.dir, found.is_unpacked), (&dir, false));
    assert_eq!(found.remarks, Vec::<String>::new());
    assert_eq!(fixture.cached_names(), Vec::<String>::new());
    // The identity is the directory, not its path.
    symlink(&dir, fixture.path("link")).unwrap();
    assert_eq!(fixture.provide(&fixture.path("link")).unwrap(), found);
    fs::rename(&dir, fixture.path("old")).unwrap();
    system(&dir);
    assert_ne!(fixture.provide(&dir).unwrap().identity, found.identity);
}

#[test]
fn a_directory_without_a_system_is_refused_with_its_setting() {
    let fixture = RootfsFixture::new();
    let (empty, socket) = (fixture.path("empty"), fixture.path("socket"));
    fs::create_dir(&empty).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let text = fixture.file("text", b"no archive");
    let (missing, nothing) = (fixture.path("missing"), fixture.file("nothing", b""));
    let cases = [
        (&missing, "it cannot be opened: "),
        (&empty, "it has no shell"),
        (&socket, "it is neither a directory nor a file"),
        (&text, "it is not a tar archive"),
        (&nothing, "it is not a tar archive"),
    ];
    for (path, problem) in cases {
        let refusal = fixture.refused(path);
        let expected = format!(
            "terminal.native_rootfs (from environment variable TERMINAL_NATIVE_ROOTFS) is {}: \
             {problem}",
            path.display()
        );
        assert!(refusal.starts_with(&expected), "{refusal}");
    }
}

#[test]
fn a_shell_outside_of_it_is_no_shell_of_it() {
    let fixture = RootfsFixture::new();
    let dir = fixture.path("debian");
    fs::create_dir_all(dir.join("bin")).unwrap();
    // It exists as seen from outside.
    symlink("../../../../../../../../../../bin/sh", dir.join("bin/sh")).unwrap();
    assert!(dir.join("bin/sh").exists());
    assert!(fixture.refused(&dir).contains("it has no shell"));
    fs::remove_file(dir.join("bin/sh")).unwrap();
    fs::write(dir.join("bin/sh"), "").unwrap();
    assert!(fixture.refused(&dir).contains("it has no shell"), "it is not a program");
}

#[test]
fn the_host_and_our_own_files_are_no_system_for_a_sandbox() {
    let fixture = RootfsFixture::new();
    assert!(fixture.refused(Path::new("/")).contains("it is the root of this machine"));
    let inside = fixture.path("home/sandboxes/debian");
    system(&inside);
    for dir in [inside, fixture.path("home"), fixture.path("")] {
        assert!(fixture.refused(&dir).contains("Vestal keeps its own files there"), "{dir:?}");
    }
    // A directory beside the sandboxes is allowed.
    let beside = fixture.path("home/systems/debian");
    system(&beside);
    assert_eq!(fixture.provide(&beside).unwrap().dir, beside);
}

#[test]
fn an_archive_is_unpacked_once_per_state_of_its_file() {
    let fixture = RootfsFixture::new();
    let archive = fixture.file("root.tar", &Archive::of_a_system().bytes());
    let first = fixture.provide(&archive).unwrap();
    assert!(first.is_unpacked);
    let inode = fs::metadata(&first.dir).unwrap().ino();
    assert_eq!(fixture.provide(&archive).unwrap(), first);
    assert_eq!(fs::metadata(&first.dir).unwrap().ino(), inode);
    fixture.file("root.tar", &Archive::of_a_system().file("new", "", 0o644).bytes());
    let second = fixture.provide(&archive).unwrap();
    assert_ne!(second.identity, first.identity);
    assert!(second.dir.join("new").exists() && !first.dir.join("new").exists());
    assert_eq!(fixture.cached_names().len(), 2);
}

#[test]
fn unsupported_compression_is_refused_with_advice() {
    let fixture = RootfsFixture::new();
    let gzip = fixture.file("root.tar.gz", &Archive::of_a_system().gzip());
    assert!(fixture.provide(&gzip).unwrap().dir.join("usr/bin/dash").exists());
    for (magic, name) in [
        (&b"\xfd7zXZ\0rest"[..], "xz"),
        (&b"\x28\xb5\x2f\xfdrest"[..], "zstd"),
        (&b"BZh9rest"[..], "bzip2"),
    ] {
        let path = fixture.file("other", magic);
        assert!(fixture.refused(&path).contains(&format!("compressed with {name}")));
    }
}

#[test]
fn a_damaged_archive_is_reported_and_leaves_nothing() {
    let fixture = RootfsFixture::new();
    let whole = Archive::of_a_system().file("big", &"x".repeat(4096), 0o644);
    let whole = whole.bytes();
    let cut = fixture.file("cut.tar", &whole[..whole.len() - 3000]);
    assert!(fixture.refused(&cut).contains("it cannot be unpacked: "), "{}", fixture.refused(&cut));
    let zipped = Archive::of_a_system().gzip();
    let cut = fixture.file("cut.tar.gz", &zipped[..zipped.len() / 2]);
    assert!(fixture.refused(&cut).contains("it cannot be unpacked: "), "{}", fixture.refused(&cut));
    let mut garbled = Archive::of_a_system().bytes();
    garbled[512 + 148] ^= 0xff;
    let garbled = fixture.file("garbled.tar", &garbled);
    assert!(fixture.refused(&garbled).contains("it cannot be unpacked: "));
    assert_eq!(fixture.cached_names(), Vec::<String>::new());
}

#[test]
fn a_saved_image_is_recognized() {
    let fixture = RootfsFixture::new();
    let saved = Archive::new().file("manifest.json", "[]", 0o644).file("abc/layer.tar", "", 0o644);
    let path = fixture.file("image.tar", &saved.bytes());
    assert!(fixture.refused(&path).contains("it is a saved image"), "{}", fixture.refused(&path));
    assert_eq!(fixture.cached_names(), Vec::<String>::new());
}

#[test]
fn an_unpacking_that_is_given_up_on_leaves_nothing() {
    let fixture = RootfsFixture::new();
    fixture.cancelled.store(true, std::sync::atomic::Ordering::Relaxed);
    let path = fixture.file("root.tar", &Archive::of_a_system().bytes());
    fixture.provide(&path).unwrap_err();
    assert_eq!(fixture.cached_names(), Vec::<String>::new());
    fixture.cancelled.store(false, std::sync::atomic::Ordering::Relaxed);
    fixture.provide(&path).unwrap();
}

#[test]
fn what_a_killed_process_has_left_goes_with_the_next_unpacking() {
    let fixture = RootfsFixture::new();
    let left = fixture.path("cache/.rootfs-left.tmp");
    fs::create_dir_all(left.join("usr")).unwrap();
    let hour = Duration::from_hours(1);
    File::open(&left).unwrap().set_modified(SystemTime::now() - hour).unwrap();
    let path = fixture.file("root.tar", &Archive::of_a_system().bytes());
    let made = fixture.provide(&path).unwrap();
    let name = made.dir.file_name().unwrap().to_str().unwrap().to_owned();
    assert_eq!(fixture.cached_names(), [name]);
}

#[test]
fn a_system_that_an_instance_uses_is_kept() {
    let fixture = RootfsFixture::new();
    let path = fixture.file("root.tar", &Archive::of_a_system().bytes());
    let made = fixture.provide(&path).unwrap();
    let old = || {
        let dir = File::open(&made.dir).unwrap();
        dir.set_modified(SystemTime::now() - Duration::from_hours(48)).unwrap();
    };
    old();
    super::prune(&fixture.path("cache"), &BTreeSet::from([made.identity.clone()])).unwrap();
    assert!(made.dir.exists());
    old();
    super::prune(&fixture.path("cache"), &BTreeSet::new()).unwrap();
    assert_eq!(fixture.cached_names(), Vec::<String>::new());
}

#[test]
fn a_system_is_as_young_as_its_unpacking_whatever_its_archive_says() {
    let fixture = RootfsFixture::new();
    let archive = Archive::of_a_system().entry(b'5', "./", "", "", 0o755);
    let path = fixture.file("root.tar", &archive.bytes());
    let made = fixture.provide(&path).unwrap();
    super::prune(&fixture.path("cache"), &BTreeSet::new()).unwrap();
    assert!(made.dir.exists());
}

#[test]
fn unpacking_tells_how_far_it_is() {
    let fixture = RootfsFixture::new();
    let bytes = Archive::of_a_system().bytes();
    let path = fixture.file("root.tar", &bytes);
    let reported = Arc::new(Mutex::new(Vec::new()));
    let sink = {
        let reported = Arc::clone(&reported);
        ProgressSink::new(move |progress| reported.lock().unwrap().push(progress))
    };
    fixture.provide_reporting(&path, &sink).unwrap();
    let reported = reported.lock().unwrap();
    let expected = Progress::Copying {
        what: format!("the root filesystem {}", path.display()),
        files: 1,
        bytes: bytes.len() as u64,
        total: Some(bytes.len() as u64),
    };
    assert_eq!(reported.first(), Some(&expected));
}
