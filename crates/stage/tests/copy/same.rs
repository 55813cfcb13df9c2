//! A copy is the same as the original.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, Timespec, Timestamps, linkat, mkdirat, mknodat, openat,
    utimensat,
};

use super::support::{Likeness, Place, exists, is_root, set_attribute, tree};

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn set_times(path: &Path, accessed: (i64, i64), modified: (i64, i64)) {
    let time = |(tv_sec, tv_nsec)| Timespec { tv_sec, tv_nsec };
    let times = Timestamps { last_access: time(accessed), last_modification: time(modified) };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

#[test]
fn permissions_and_times_of_everything_are_kept_to_the_nanosecond() {
    let place = Place::new();
    let from = place.from();
    for (name, mode) in
        [("a", 0o644), ("b", 0o600), ("c", 0o4755), ("d", 0o2711), ("e", 0o444), ("f", 0o777)]
    {
        set_mode(&place.write(name, name), mode);
    }
    for (name, mode) in [("open", 0o777), ("sticky", 0o1777), ("group", 0o2750), ("closed", 0o500)]
    {
        place.write(format!("{name}/below/file"), "x");
        set_mode(&from.join(name), mode);
    }
    symlink("a", from.join("link")).unwrap();
    mknodat(CWD, from.join("pipe"), FileType::Fifo, Mode::from_raw_mode(0o640), 0).unwrap();
    set_mode(&from, 0o751);
    for (number, path) in tree(&from).keys().rev().enumerate() {
        let number = i64::try_from(number).unwrap();
        let modified = (981_173_106 + number, 123_456_789 + number);
        set_times(&from.join(path), (981_173_000, 1 + number), modified);
    }
    let accessed = |top: &Path| fs::symlink_metadata(top.join("a")).unwrap().atime_nsec();
    let accessed_at = accessed(&from);
    place.copy();
    assert_eq!(accessed(&place.to()), accessed_at);
    assert_eq!(tree(&place.to()), tree(&from));
    // What nobody may write to can still be removed.
    set_mode(&from.join("closed"), 0o700);
    set_mode(&place.to().join("closed"), 0o700);
}

#[test]
fn owners_are_kept() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    place.write("dir/file", "x");
    symlink("file", place.from().join("dir/link")).unwrap();
    mknodat(CWD, place.from().join("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    // A program of another user that runs as that user: giving it away comes first.
    set_mode(&place.write("program", "x"), 0o755);
    for (number, path) in ["", "dir", "dir/file", "dir/link", "pipe", "program"].iter().enumerate()
    {
        let id = 1_879_048_192 + u32::try_from(number).unwrap();
        std::os::unix::fs::lchown(place.from().join(path), Some(id), Some(id + 100)).unwrap();
    }
    set_mode(&place.from().join("program"), 0o6755);
    place.copy();
    let copied = tree(&place.to());
    assert_eq!(copied, tree(&place.from()));
    assert_eq!(fs::metadata(place.to().join("program")).unwrap().mode() & 0o7777, 0o6755);
}

#[test]
fn attributes_are_kept_also_of_what_nobody_may_write_to() {
    let place = Place::new();
    let file = place.write("file", "x");
    set_attribute(&file, "user.empty", b"");
    set_attribute(&file, "user.large", &[7; 1000]);
    set_mode(&file, 0o444);
    place.write("dir/below", "x");
    set_attribute(&place.from().join("dir"), "user.of.dir", b"1");
    set_attribute(&place.from(), "user.of.top", b"2");
    if is_root() {
        // cap_net_bind_service+ep, which a change of owner would take away.
        let capability = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let program = place.write("program", "x");
        std::os::unix::fs::chown(&program, Some(1234), Some(1234)).unwrap();
        set_attribute(&program, "security.capability", &capability);
    }
    let kept = tree(&place.from());
    place.copy();
    assert_eq!(tree(&place.to()), kept);
}

#[test]
fn an_ordinary_user_copies_what_they_may_not_write_to() {
    let place = Place::new();
    let file = place.write("closed/file", "x");
    set_attribute(&file, "user.a", b"1");
    set_attribute(&place.from().join("closed"), "user.overlay.opaque", b"y");
    symlink("file", place.from().join("closed/link")).unwrap();
    set_mode(&file, 0o444);
    set_mode(&place.from().join("closed"), 0o500);
    set_mode(&place.from(), 0o555);
    let output = place.command_of_ordinary_user().output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(tree(&place.to()), tree(&place.from()));
    for top in [place.from(), place.to()] {
        set_mode(&top, 0o700);
        set_mode(&top.join("closed"), 0o700);
    }
}

/// Access rules as the kernel keeps them: owner, one more user, group, mask, others.
fn access_rules(user: u32) -> Vec<u8> {
    let nobody = u32::MAX;
    let rules = [(1, 7, nobody), (2, 5, user), (4, 5, nobody), (16, 5, nobody), (32, 0, nobody)];
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in rules {
        bytes.extend(u16::to_le_bytes(tag));
        bytes.extend(u16::to_le_bytes(permissions));
        bytes.extend(u32::to_le_bytes(id));
    }
    bytes
}

#[test]
fn access_rules_are_kept_and_none_are_inherited() {
    let place = Place::new();
    set_mode(&place.write("dir/file", "x"), 0o640);
    place.write("plain/file", "x");
    set_attribute(&place.from().join("dir/file"), "system.posix_acl_access", &access_rules(4242));
    set_attribute(&place.from().join("dir"), "system.posix_acl_default", &access_rules(4343));
    // Whatever is made where the copy goes gets these, and this group.
    set_attribute(place.path(), "system.posix_acl_default", &access_rules(4444));
    set_mode(place.path(), 0o2755);
    let kept = tree(&place.from());
    place.copy();
    assert_eq!(tree(&place.to()), kept);
}

#[test]
fn files_with_several_names_stay_one_file() {
    let place = Place::new();
    let first = place.write("a/first", vec![5; 300_000]);
    place.write("alone", "x");
    fs::create_dir(place.from().join("b")).unwrap();
    fs::hard_link(&first, place.from().join("second")).unwrap();
    fs::hard_link(&first, place.from().join("b/third")).unwrap();
    symlink("nowhere", place.from().join("link")).unwrap();
    let flags = AtFlags::empty();
    linkat(CWD, place.from().join("link"), CWD, place.from().join("b/link"), flags).unwrap();
    let done = place.copy();
    assert_eq!(done, r#"{"done":true,"files":8,"bytes":300001,"skipped":0}"#);
    assert_eq!(tree(&place.to()), tree(&place.from()));
    let inode = |name: &str| fs::symlink_metadata(place.to().join(name)).unwrap().ino();
    assert_eq!(inode("a/first"), inode("second"));
    assert_eq!(inode("a/first"), inode("b/third"));
    assert_eq!(inode("link"), inode("b/link"));
    assert_ne!(inode("a/first"), inode("alone"));
}

#[test]
fn holes_stay_holes() {
    let place = Place::new();
    let sparse = File::create(place.from().join("sparse")).unwrap();
    sparse.write_all_at(b"beginning", 0).unwrap();
    sparse.write_all_at(&vec![1; 200_000], 300 << 20).unwrap();
    sparse.set_len(1 << 30).unwrap();
    File::create(place.from().join("hollow")).unwrap().set_len(5 << 20).unwrap();
    place.copy();
    let stored = |top: &Path, name: &str| fs::metadata(top.join(name)).unwrap().blocks() * 512;
    for name in ["sparse", "hollow"] {
        let (from, to) = (place.from().join(name), place.to().join(name));
        assert_eq!(fs::metadata(&to).unwrap().len(), fs::metadata(&from).unwrap().len());
        assert!(stored(&place.to(), name) <= stored(&place.from(), name) + 4096, "{name}");
    }
    let copy = File::open(place.to().join("sparse")).unwrap();
    let read = |offset: u64, length: usize| {
        let mut bytes = vec![9; length];
        copy.read_exact_at(&mut bytes, offset).unwrap();
        bytes
    };
    assert_eq!(read(0, 12), b"beginning\0\0\0");
    assert_eq!(read((300 << 20) - 2, 4), [0, 0, 1, 1]);
    assert_eq!(read((300 << 20) + 199_998, 4), [1, 1, 0, 0]);
    assert_eq!(read((1 << 30) - 4, 4), [0; 4]);
}

#[test]
fn what_stands_for_removed_files_in_a_layer_is_kept() {
    let place = Place::new();
    let whiteout = place.from().join("gone");
    place.write("opaque/file", "x");
    mknodat(CWD, &whiteout, FileType::CharacterDevice, Mode::empty(), 0).unwrap();
    // The kernel gives one of these several names.
    linkat(CWD, &whiteout, CWD, place.from().join("opaque/gone"), AtFlags::empty()).unwrap();
    set_attribute(&place.from().join("opaque"), "user.overlay.opaque", b"y");
    if is_root() {
        set_attribute(&place.from().join("opaque"), "trusted.overlay.opaque", b"y");
        set_attribute(&place.from(), "trusted.overlay.impure", b"y");
        set_attribute(&whiteout, "trusted.overlay.origin", b"\0\xfb\x1d");
        let link = place.from().join("link");
        symlink("x", &link).unwrap();
        set_attribute(&link, "trusted.overlay.origin", b"\0\xfb\x1d");
        // Belongs to the storage below, not to the file.
        set_attribute(&place.from().join("opaque/file"), "trusted.storage", b"1");
    }
    place.copy();
    if is_root() {
        rustix::fs::removexattr(place.from().join("opaque/file"), "trusted.storage").unwrap();
    }
    assert_eq!(tree(&place.to()), tree(&place.from()));
}

#[test]
fn devices_are_kept_where_they_can_be_made_and_sockets_are_left_out() {
    let place = Place::new();
    let _listener = UnixListener::bind(place.from().join("socket")).unwrap();
    let skipped = if is_root() {
        let null = rustix::fs::makedev(1, 3);
        let path = place.from().join("null");
        mknodat(CWD, &path, FileType::CharacterDevice, Mode::from_raw_mode(0o666), null).unwrap();
        std::os::unix::fs::chown(&path, Some(7), Some(8)).unwrap();
        assert_eq!(place.copy(), r#"{"done":true,"files":1,"bytes":0,"skipped":1}"#);
        assert_eq!(Likeness::of(&place.to().join("null")), Likeness::of(&path));
        place.to().join("socket")
    } else {
        assert_eq!(place.copy(), r#"{"done":true,"files":0,"bytes":0,"skipped":1}"#);
        place.to().join("socket")
    };
    assert!(!exists(&skipped));
}

#[test]
fn names_are_any_bytes() {
    let place = Place::new();
    for name in [&b"new\nline"[..], b"\xff\xfe", b"\"quoted\\\"", b"-rf", b" ", &[b'n'; 255]] {
        place.write(OsStr::from_bytes(name), name);
    }
    place.copy();
    assert_eq!(tree(&place.to()), tree(&place.from()));
}

#[test]
fn ten_thousand_small_files_are_all_there() {
    let place = Place::new();
    for number in 0_u32..10_000 {
        let path = place.from().join(format!("{}/{}", number % 7, number % 41));
        fs::create_dir_all(&path).unwrap();
        let mut file = File::create(path.join(number.to_string())).unwrap();
        file.write_all(&number.to_le_bytes().repeat(number as usize % 9)).unwrap();
    }
    let bytes: u32 = (0..10_000).map(|number| 4 * (number % 9)).sum();
    let directories = 7 + 7 * 41;
    let done = place.copy();
    let files = 10_000 + directories;
    assert_eq!(done, format!(r#"{{"done":true,"files":{files},"bytes":{bytes},"skipped":0}}"#));
    assert_eq!(tree(&place.to()), tree(&place.from()));
}

#[test]
fn large_files_are_copied_to_the_last_byte() {
    let place = Place::new();
    for size in [131_071, 131_072, 131_073, 33_554_433_usize] {
        let content: Vec<u8> = (0..=250).cycle().take(size).collect();
        place.write(size.to_string(), content);
    }
    place.copy();
    assert_eq!(tree(&place.to()), tree(&place.from()));
}

#[test]
fn a_tree_may_be_deeper_than_a_path_is_long() {
    const DEPTH: usize = 700;
    const NAME: &str = "a-directory-in-a-directory";
    let place = Place::new();
    place.write("first", "the same file");
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = |top: &Path| openat(CWD, top, flags, Mode::empty()).unwrap();
    let top = open(&place.from());
    let mut at = open(&place.from());
    for _ in 0..DEPTH {
        mkdirat(&at, NAME, Mode::RWXU).unwrap();
        mkdirat(&at, "beside", Mode::RWXU).unwrap();
        at = openat(&at, NAME, flags, Mode::empty()).unwrap();
    }
    linkat(&top, "first", &at, "last", AtFlags::empty()).unwrap();
    assert_eq!(place.copy(), r#"{"done":true,"files":1402,"bytes":13,"skipped":0}"#);
    let mut copy = open(&place.to());
    for _ in 0..DEPTH {
        openat(&copy, "beside", flags, Mode::empty()).unwrap();
        copy = openat(&copy, NAME, flags, Mode::empty()).unwrap();
    }
    let inode = |at, name| rustix::fs::statat(at, name, AtFlags::empty()).unwrap().st_ino;
    assert_eq!(inode(&copy, "last"), inode(&open(&place.to()), "first"));
}
