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
use vestal_testkit::namespaces::is_root;

use super::support::{Likeness, TestTrees, exists, set_attribute, tree};

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
    let trees = TestTrees::new();
    let from = trees.from();
    for (name, mode) in
        [("a", 0o644), ("b", 0o600), ("c", 0o4755), ("d", 0o2711), ("e", 0o444), ("f", 0o777)]
    {
        set_mode(&trees.write(name, name), mode);
    }
    for (name, mode) in [("open", 0o777), ("sticky", 0o1777), ("group", 0o2750), ("closed", 0o500)]
    {
        trees.write(format!("{name}/below/file"), "x");
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
    trees.copy();
    assert_eq!(accessed(&trees.to()), accessed_at);
    assert_eq!(tree(&trees.to()), tree(&from));
    // What nobody may write to can still be removed.
    set_mode(&from.join("closed"), 0o700);
    set_mode(&trees.to().join("closed"), 0o700);
}

#[test]
fn owners_are_kept() {
    if !is_root() {
        return;
    }
    let trees = TestTrees::new();
    trees.write("dir/file", "x");
    symlink("file", trees.from().join("dir/link")).unwrap();
    mknodat(CWD, trees.from().join("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    // A program of another user that runs as that user: giving it away comes first.
    set_mode(&trees.write("program", "x"), 0o755);
    for (number, path) in ["", "dir", "dir/file", "dir/link", "pipe", "program"].iter().enumerate()
    {
        let id = 1_879_048_192 + u32::try_from(number).unwrap();
        std::os::unix::fs::lchown(trees.from().join(path), Some(id), Some(id + 100)).unwrap();
    }
    set_mode(&trees.from().join("program"), 0o6755);
    trees.copy();
    let copied = tree(&trees.to());
    assert_eq!(copied, tree(&trees.from()));
    assert_eq!(fs::metadata(trees.to().join("program")).unwrap().mode() & 0o7777, 0o6755);
}

#[test]
fn attributes_of_read_only_files_are_kept() {
    let trees = TestTrees::new();
    let file = trees.write("file", "x");
    set_attribute(&file, "user.empty", b"");
    set_attribute(&file, "user.large", &[7; 1000]);
    set_mode(&file, 0o444);
    trees.write("dir/below", "x");
    set_attribute(&trees.from().join("dir"), "user.of.dir", b"1");
    set_attribute(&trees.from(), "user.of.top", b"2");
    if is_root() {
        // cap_net_bind_service+ep, which a change of owner would take away.
        let capability = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let program = trees.write("program", "x");
        std::os::unix::fs::chown(&program, Some(1234), Some(1234)).unwrap();
        set_attribute(&program, "security.capability", &capability);
    }
    let kept = tree(&trees.from());
    trees.copy();
    assert_eq!(tree(&trees.to()), kept);
}

#[test]
fn an_ordinary_user_copies_read_only_files() {
    let trees = TestTrees::new();
    let file = trees.write("closed/file", "x");
    set_attribute(&file, "user.a", b"1");
    set_attribute(&trees.from().join("closed"), "user.overlay.opaque", b"y");
    symlink("file", trees.from().join("closed/link")).unwrap();
    set_mode(&file, 0o444);
    set_mode(&trees.from().join("closed"), 0o500);
    set_mode(&trees.from(), 0o555);
    let output = trees.command_of_ordinary_user().output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(tree(&trees.to()), tree(&trees.from()));
    for top in [trees.from(), trees.to()] {
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
    let trees = TestTrees::new();
    set_mode(&trees.write("dir/file", "x"), 0o640);
    trees.write("plain/file", "x");
    set_attribute(&trees.from().join("dir/file"), "system.posix_acl_access", &access_rules(4242));
    set_attribute(&trees.from().join("dir"), "system.posix_acl_default", &access_rules(4343));
    // Whatever is made where the copy goes gets these, and this group.
    set_attribute(trees.path(), "system.posix_acl_default", &access_rules(4444));
    set_mode(trees.path(), 0o2755);
    let kept = tree(&trees.from());
    trees.copy();
    assert_eq!(tree(&trees.to()), kept);
}

#[test]
fn files_with_several_names_stay_one_file() {
    let trees = TestTrees::new();
    let first = trees.write("a/first", vec![5; 300_000]);
    trees.write("alone", "x");
    fs::create_dir(trees.from().join("b")).unwrap();
    fs::hard_link(&first, trees.from().join("second")).unwrap();
    fs::hard_link(&first, trees.from().join("b/third")).unwrap();
    symlink("nowhere", trees.from().join("link")).unwrap();
    let flags = AtFlags::empty();
    linkat(CWD, trees.from().join("link"), CWD, trees.from().join("b/link"), flags).unwrap();
    let done = trees.copy();
    assert_eq!(done, r#"{"done":true,"files":8,"bytes":300001,"skipped":0}"#);
    assert_eq!(tree(&trees.to()), tree(&trees.from()));
    let inode = |name: &str| fs::symlink_metadata(trees.to().join(name)).unwrap().ino();
    assert_eq!(inode("a/first"), inode("second"));
    assert_eq!(inode("a/first"), inode("b/third"));
    assert_eq!(inode("link"), inode("b/link"));
    assert_ne!(inode("a/first"), inode("alone"));
}

#[test]
fn holes_stay_holes() {
    let trees = TestTrees::new();
    let sparse = File::create(trees.from().join("sparse")).unwrap();
    sparse.write_all_at(b"beginning", 0).unwrap();
    sparse.write_all_at(&vec![1; 200_000], 300 << 20).unwrap();
    sparse.set_len(1 << 30).unwrap();
    File::create(trees.from().join("hollow")).unwrap().set_len(5 << 20).unwrap();
    trees.copy();
    let stored = |top: &Path, name: &str| fs::metadata(top.join(name)).unwrap().blocks() * 512;
    for name in ["sparse", "hollow"] {
        let (from, to) = (trees.from().join(name), trees.to().join(name));
        assert_eq!(fs::metadata(&to).unwrap().len(), fs::metadata(&from).unwrap().len());
        assert!(stored(&trees.to(), name) <= stored(&trees.from(), name) + 4096, "{name}");
    }
    let copy = File::open(trees.to().join("sparse")).unwrap();
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
fn whiteouts_of_a_layer_are_kept() {
    let trees = TestTrees::new();
    let whiteout = trees.from().join("gone");
    trees.write("opaque/file", "x");
    mknodat(CWD, &whiteout, FileType::CharacterDevice, Mode::empty(), 0).unwrap();
    // The kernel gives one of these several names.
    linkat(CWD, &whiteout, CWD, trees.from().join("opaque/gone"), AtFlags::empty()).unwrap();
    set_attribute(&trees.from().join("opaque"), "user.overlay.opaque", b"y");
    if is_root() {
        set_attribute(&trees.from().join("opaque"), "trusted.overlay.opaque", b"y");
        set_attribute(&trees.from(), "trusted.overlay.impure", b"y");
        set_attribute(&whiteout, "trusted.overlay.origin", b"\0\xfb\x1d");
        let link = trees.from().join("link");
        symlink("x", &link).unwrap();
        set_attribute(&link, "trusted.overlay.origin", b"\0\xfb\x1d");
        // Belongs to the storage below, not to the file.
        set_attribute(&trees.from().join("opaque/file"), "trusted.storage", b"1");
    }
    trees.copy();
    if is_root() {
        rustix::fs::removexattr(trees.from().join("opaque/file"), "trusted.storage").unwrap();
    }
    assert_eq!(tree(&trees.to()), tree(&trees.from()));
}

#[test]
fn devices_are_kept_where_they_can_be_made_and_sockets_are_left_out() {
    let trees = TestTrees::new();
    let _listener = UnixListener::bind(trees.from().join("socket")).unwrap();
    let skipped = if is_root() {
        let null = rustix::fs::makedev(1, 3);
        let path = trees.from().join("null");
        mknodat(CWD, &path, FileType::CharacterDevice, Mode::from_raw_mode(0o666), null).unwrap();
        std::os::unix::fs::chown(&path, Some(7), Some(8)).unwrap();
        assert_eq!(trees.copy(), r#"{"done":true,"files":1,"bytes":0,"skipped":1}"#);
        assert_eq!(Likeness::of(&trees.to().join("null")), Likeness::of(&path));
        trees.to().join("socket")
    } else {
        assert_eq!(trees.copy(), r#"{"done":true,"files":0,"bytes":0,"skipped":1}"#);
        trees.to().join("socket")
    };
    assert!(!exists(&skipped));
}

#[test]
fn names_are_any_bytes() {
    let trees = TestTrees::new();
    for name in [&b"new\nline"[..], b"\xff\xfe", b"\"quoted\\\"", b"-rf", b" ", &[b'n'; 255]] {
        trees.write(OsStr::from_bytes(name), name);
    }
    trees.copy();
    assert_eq!(tree(&trees.to()), tree(&trees.from()));
}

#[test]
fn ten_thousand_small_files_are_all_there() {
    let trees = TestTrees::new();
    for number in 0_u32..10_000 {
        let path = trees.from().join(format!("{}/{}", number % 7, number % 41));
        fs::create_dir_all(&path).unwrap();
        let mut file = File::create(path.join(number.to_string())).unwrap();
        file.write_all(&number.to_le_bytes().repeat(number as usize % 9)).unwrap();
    }
    let bytes: u32 = (0..10_000).map(|number| 4 * (number % 9)).sum();
    let directories = 7 + 7 * 41;
    let done = trees.copy();
    let files = 10_000 + directories;
    assert_eq!(done, format!(r#"{{"done":true,"files":{files},"bytes":{bytes},"skipped":0}}"#));
    assert_eq!(tree(&trees.to()), tree(&trees.from()));
}

#[test]
fn large_files_are_copied_to_the_last_byte() {
    let trees = TestTrees::new();
    for size in [131_071, 131_072, 131_073, 33_554_433_usize] {
        let content: Vec<u8> = (0..=250).cycle().take(size).collect();
        trees.write(size.to_string(), content);
    }
    trees.copy();
    assert_eq!(tree(&trees.to()), tree(&trees.from()));
}

#[test]
fn a_tree_may_be_deeper_than_a_path_is_long() {
    const DEPTH: usize = 700;
    const NAME: &str = "a-directory-in-a-directory";
    let trees = TestTrees::new();
    trees.write("first", "the same file");
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = |top: &Path| openat(CWD, top, flags, Mode::empty()).unwrap();
    let top = open(&trees.from());
    let mut at = open(&trees.from());
    for _ in 0..DEPTH {
        mkdirat(&at, NAME, Mode::RWXU).unwrap();
        mkdirat(&at, "beside", Mode::RWXU).unwrap();
        at = openat(&at, NAME, flags, Mode::empty()).unwrap();
    }
    linkat(&top, "first", &at, "last", AtFlags::empty()).unwrap();
    assert_eq!(trees.copy(), r#"{"done":true,"files":1402,"bytes":13,"skipped":0}"#);
    let mut copy = open(&trees.to());
    for _ in 0..DEPTH {
        openat(&copy, "beside", flags, Mode::empty()).unwrap();
        copy = openat(&copy, NAME, flags, Mode::empty()).unwrap();
    }
    let inode = |at, name| rustix::fs::statat(at, name, AtFlags::empty()).unwrap().st_ino;
    assert_eq!(inode(&copy, "last"), inode(&open(&trees.to()), "first"));
}
