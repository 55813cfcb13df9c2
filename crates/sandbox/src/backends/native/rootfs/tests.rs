use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use super::testing::{Archive, Yard};
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
    let yard = Yard::new();
    let dir = yard.path("debian");
    system(&dir);
    let found = yard.provide(&dir).unwrap();
    assert_eq!((&found.dir, found.is_unpacked), (&dir, false));
    assert_eq!(found.remarks, Vec::<String>::new());
    assert_eq!(yard.kept(), Vec::<String>::new());
    // By whatever name, it is the same one; another one is not.
    symlink(&dir, yard.path("link")).unwrap();
    assert_eq!(yard.provide(&yard.path("link")).unwrap(), found);
    fs::rename(&dir, yard.path("old")).unwrap();
    system(&dir);
    assert_ne!(yard.provide(&dir).unwrap().identity, found.identity);
}

#[test]
fn what_is_no_system_is_refused_with_who_named_it() {
    let yard = Yard::new();
    let (empty, socket) = (yard.path("empty"), yard.path("socket"));
    fs::create_dir(&empty).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let text = yard.file("text", b"no archive");
    let (missing, nothing) = (yard.path("missing"), yard.file("nothing", b""));
    let cases = [
        (&missing, "it cannot be opened: "),
        (&empty, "there is no shell in it"),
        (&socket, "it is neither a directory nor a file"),
        (&text, "it is no tar archive"),
        (&nothing, "it is no tar archive"),
    ];
    for (path, problem) in cases {
        let said = yard.refused(path);
        let expected = format!(
            "terminal.native_rootfs (from environment variable TERMINAL_NATIVE_ROOTFS) is {}: \
             {problem}",
            path.display()
        );
        assert!(said.starts_with(&expected), "{said}");
    }
}

#[test]
fn a_shell_outside_of_it_is_no_shell_of_it() {
    let yard = Yard::new();
    let dir = yard.path("debian");
    fs::create_dir_all(dir.join("bin")).unwrap();
    // It is there for whoever looks from outside.
    symlink("../../../../../../../../../../bin/sh", dir.join("bin/sh")).unwrap();
    assert!(dir.join("bin/sh").exists());
    assert!(yard.refused(&dir).contains("there is no shell in it"));
    fs::remove_file(dir.join("bin/sh")).unwrap();
    fs::write(dir.join("bin/sh"), "").unwrap();
    assert!(yard.refused(&dir).contains("there is no shell in it"), "it is no program");
}

#[test]
fn the_host_and_our_own_files_are_no_system_for_a_sandbox() {
    let yard = Yard::new();
    assert!(yard.refused(Path::new("/")).contains("it is the root of this machine"));
    let inside = yard.path("home/sandboxes/debian");
    system(&inside);
    for dir in [inside, yard.path("home"), yard.path("")] {
        assert!(yard.refused(&dir).contains("Vestal keeps its own files there"), "{dir:?}");
    }
    // Beside the sandboxes there is room for it.
    let beside = yard.path("home/systems/debian");
    system(&beside);
    assert_eq!(yard.provide(&beside).unwrap().dir, beside);
}

#[test]
fn an_archive_is_unpacked_once_per_state_of_its_file() {
    let yard = Yard::new();
    let archive = yard.file("root.tar", &Archive::of_a_system().bytes());
    let first = yard.provide(&archive).unwrap();
    assert!(first.is_unpacked);
    let inode = fs::metadata(&first.dir).unwrap().ino();
    assert_eq!(yard.provide(&archive).unwrap(), first);
    assert_eq!(fs::metadata(&first.dir).unwrap().ino(), inode);
    yard.file("root.tar", &Archive::of_a_system().file("new", "", 0o644).bytes());
    let second = yard.provide(&archive).unwrap();
    assert_ne!(second.identity, first.identity);
    assert!(second.dir.join("new").exists() && !first.dir.join("new").exists());
    assert_eq!(yard.kept().len(), 2);
}

#[test]
fn compressed_archives_are_unpacked_or_told_how_to_be() {
    let yard = Yard::new();
    let gzip = yard.file("root.tar.gz", &Archive::of_a_system().gzip());
    assert!(yard.provide(&gzip).unwrap().dir.join("usr/bin/dash").exists());
    for (magic, name) in [
        (&b"\xfd7zXZ\0rest"[..], "xz"),
        (&b"\x28\xb5\x2f\xfdrest"[..], "zstd"),
        (&b"BZh9rest"[..], "bzip2"),
    ] {
        let path = yard.file("other", magic);
        assert!(yard.refused(&path).contains(&format!("compressed with {name}")));
    }
}

#[test]
fn a_broken_archive_is_told_and_leaves_nothing() {
    let yard = Yard::new();
    let whole = Archive::of_a_system().file("big", &"x".repeat(4096), 0o644);
    let whole = whole.bytes();
    let cut = yard.file("cut.tar", &whole[..whole.len() - 3000]);
    assert!(yard.refused(&cut).contains("it cannot be unpacked: "), "{}", yard.refused(&cut));
    let zipped = Archive::of_a_system().gzip();
    let cut = yard.file("cut.tar.gz", &zipped[..zipped.len() / 2]);
    assert!(yard.refused(&cut).contains("it cannot be unpacked: "), "{}", yard.refused(&cut));
    let mut garbled = Archive::of_a_system().bytes();
    garbled[512 + 148] ^= 0xff;
    let garbled = yard.file("garbled.tar", &garbled);
    assert!(yard.refused(&garbled).contains("it cannot be unpacked: "));
    assert_eq!(yard.kept(), Vec::<String>::new());
}

#[test]
fn a_saved_image_is_told_from_a_system() {
    let yard = Yard::new();
    let saved = Archive::new().file("manifest.json", "[]", 0o644).file("abc/layer.tar", "", 0o644);
    let path = yard.file("image.tar", &saved.bytes());
    assert!(yard.refused(&path).contains("it is a saved image"), "{}", yard.refused(&path));
    assert_eq!(yard.kept(), Vec::<String>::new());
}

#[test]
fn an_unpacking_that_is_given_up_on_leaves_nothing() {
    let yard = Yard::new();
    yard.given_up.store(true, std::sync::atomic::Ordering::Relaxed);
    let path = yard.file("root.tar", &Archive::of_a_system().bytes());
    yard.provide(&path).unwrap_err();
    assert_eq!(yard.kept(), Vec::<String>::new());
    yard.given_up.store(false, std::sync::atomic::Ordering::Relaxed);
    yard.provide(&path).unwrap();
}

#[test]
fn what_a_killed_process_has_left_goes_with_the_next_unpacking() {
    let yard = Yard::new();
    let left = yard.path("cache/.rootfs-left.tmp");
    fs::create_dir_all(left.join("usr")).unwrap();
    let hour = Duration::from_hours(1);
    File::open(&left).unwrap().set_modified(SystemTime::now() - hour).unwrap();
    let path = yard.file("root.tar", &Archive::of_a_system().bytes());
    let made = yard.provide(&path).unwrap();
    let name = made.dir.file_name().unwrap().to_str().unwrap().to_owned();
    assert_eq!(yard.kept(), [name]);
}

#[test]
fn a_system_that_an_instance_uses_is_kept() {
    let yard = Yard::new();
    let path = yard.file("root.tar", &Archive::of_a_system().bytes());
    let made = yard.provide(&path).unwrap();
    let old = || {
        let dir = File::open(&made.dir).unwrap();
        dir.set_modified(SystemTime::now() - Duration::from_hours(48)).unwrap();
    };
    old();
    super::prune(&yard.path("cache"), &BTreeSet::from([made.identity.clone()])).unwrap();
    assert!(made.dir.exists());
    old();
    super::prune(&yard.path("cache"), &BTreeSet::new()).unwrap();
    assert_eq!(yard.kept(), Vec::<String>::new());
}

#[test]
fn a_system_is_as_young_as_its_unpacking_whatever_its_archive_says() {
    let yard = Yard::new();
    let archive = Archive::of_a_system().entry(b'5', "./", "", "", 0o755);
    let path = yard.file("root.tar", &archive.bytes());
    let made = yard.provide(&path).unwrap();
    super::prune(&yard.path("cache"), &BTreeSet::new()).unwrap();
    assert!(made.dir.exists());
}

#[test]
fn unpacking_tells_how_far_it_is() {
    let yard = Yard::new();
    let bytes = Archive::of_a_system().bytes();
    let path = yard.file("root.tar", &bytes);
    let told = Arc::new(Mutex::new(Vec::new()));
    let sink = {
        let told = Arc::clone(&told);
        ProgressSink::new(move |progress| told.lock().unwrap().push(progress))
    };
    yard.provide_telling(&path, &sink).unwrap();
    let told = told.lock().unwrap();
    let expected = Progress::Copying {
        what: format!("the root filesystem {}", path.display()),
        files: 1,
        bytes: bytes.len() as u64,
        total: Some(bytes.len() as u64),
    };
    assert_eq!(told.first(), Some(&expected));
}
