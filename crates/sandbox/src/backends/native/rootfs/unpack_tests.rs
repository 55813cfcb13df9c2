use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use super::testing::{Archive, RootfsFixture};
use crate::backend::BackendError;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn files_come_out_as_they_went_in() {
    let fixture = RootfsFixture::new();
    let archive = Archive::of_a_system()
        .entry(b'5', "./", "", "", 0o755)
        .entry(b'5', "var/closed/", "", "", 0o711)
        .owned(b'0', "var/closed/file", "", "text", 0o640, (33, 42))
        .entry(b'1', "var/hard", "var/closed/file", "", 0o640)
        .link("absolute", "/etc/passwd")
        .entry(b'6', "pipe", "", "", 0o600)
        .file("./deep/er/file", "made", 0o444);
    let root = fixture.unpack(archive).unwrap();
    let found = |name: &str| fs::symlink_metadata(root.join(name)).unwrap();
    let mode = |name: &str| found(name).mode() & 0o7777;
    assert_eq!(fs::read_to_string(root.join("var/closed/file")).unwrap(), "text");
    assert_eq!(mode("var/closed/file"), 0o640);
    assert_eq!(mode("var/closed"), 0o711);
    assert_eq!(mode("deep/er/file"), 0o444);
    assert_eq!(found("var/hard").ino(), found("var/closed/file").ino());
    assert_eq!(fs::read_link(root.join("absolute")).unwrap(), Path::new("/etc/passwd"));
    assert!(found("pipe").file_type().is_fifo());
    for name in ["var/closed", "var/closed/file", "absolute", "usr/bin"] {
        assert_eq!(found(name).mtime(), 1_000_000_000, "{name}");
    }
    // Without root, all files belong to this user.
    let owner = (found("var/closed/file").uid(), found("var/closed/file").gid());
    let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    assert_eq!(owner, if is_root() { (33, 42) } else { own });
}

#[test]
fn names_that_lead_out_are_refused() {
    let fixture = RootfsFixture::new();
    let bad = [
        Archive::of_a_system().file("../out", "x", 0o644),
        Archive::of_a_system().file("usr/../../out", "x", 0o644),
        Archive::of_a_system().entry(b'1', "usr/hard", "../../secret", "", 0o644),
        Archive::of_a_system().entry(b'1', "usr/hard", "usr/missing", "", 0o644),
    ];
    fs::write(fixture.path("secret"), "secret").unwrap();
    for archive in bad {
        match fixture.unpack(archive) {
            Err(BackendError::Advised { problem, .. }) => {
                assert!(problem.contains("it contains "), "{problem}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(!fixture.path("out").exists() && !fixture.path("cache/out").exists());
    assert_eq!(fixture.cached_names(), Vec::<String>::new());
}

#[test]
fn names_from_the_root_are_names_in_it() {
    let fixture = RootfsFixture::new();
    let root = fixture.unpack(Archive::of_a_system().file("/vestal-test", "x", 0o644)).unwrap();
    assert_eq!(fs::read_to_string(root.join("vestal-test")).unwrap(), "x");
    assert!(!Path::new("/vestal-test").exists());
}

#[test]
fn nothing_is_written_through_a_link() {
    let fixture = RootfsFixture::new();
    let outside = fixture.path("outside");
    fs::create_dir(&outside).unwrap();
    let archive = Archive::of_a_system()
        .link("escape", outside.to_str().unwrap())
        .link("up", "../../..")
        .file("escape/file", "x", 0o644)
        .file("up/file", "x", 0o644)
        .link("target", outside.join("planted").to_str().unwrap())
        .file("target", "in place of the link", 0o644)
        .entry(b'1', "hard", "escape/file", "", 0o644);
    let root = fixture.unpack(archive).unwrap();
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    // The link leads nowhere inside of the root, and is replaced by the directory.
    assert!(fs::symlink_metadata(root.join("escape")).unwrap().is_dir());
    assert_eq!(fs::read_to_string(root.join("escape/file")).unwrap(), "x");
    assert_eq!(fs::read_to_string(root.join("file")).unwrap(), "x");
    assert_eq!(fs::read_to_string(root.join("target")).unwrap(), "in place of the link");
}

#[test]
fn a_later_entry_takes_the_place_of_an_earlier_one() {
    let fixture = RootfsFixture::new();
    let archive = Archive::of_a_system()
        .file("a", "first", 0o644)
        .file("a", "second", 0o600)
        .link("b", "a")
        .entry(b'5', "b/", "", "", 0o755)
        .file("b/c", "x", 0o644)
        .entry(b'5', "empty/", "", "", 0o755)
        .file("empty", "file", 0o644);
    let root = fixture.unpack(archive).unwrap();
    let text = |name: &str| fs::read_to_string(root.join(name)).unwrap();
    assert_eq!([text("a"), text("b/c"), text("empty")], ["second", "x", "file"]);
}

#[test]
fn a_link_to_itself_stays_what_it_is() {
    let fixture = RootfsFixture::new();
    let archive = Archive::of_a_system().file("a", "text", 0o644).entry(b'1', "a", "a", "", 0o644);
    let root = fixture.unpack(archive).unwrap();
    assert_eq!(fs::read_to_string(root.join("a")).unwrap(), "text");
}

#[test]
fn devices_are_left_out_and_reported() {
    let fixture = RootfsFixture::new();
    let archive = Archive::of_a_system()
        .entry(b'3', "dev/null", "", "", 0o666)
        .entry(b'4', "dev/sda", "", "", 0o660);
    let path = fixture.file("root.tar", &archive.bytes());
    let made = fixture.provide(&path).unwrap();
    assert_eq!(made.remarks, ["2 devices of the root filesystem were left out"]);
    assert!(!made.dir.join("dev/null").exists() && !made.dir.join("dev/sda").exists());
}

#[test]
fn nothing_gets_rights_by_being_started() {
    let fixture = RootfsFixture::new();
    let archive = Archive::of_a_system()
        .file("su", "", 0o4755)
        .file("wall", "", 0o2755)
        .entry(b'5', "tmp/", "", "", 0o1777)
        .entry(b'5', "mail/", "", "", 0o2775);
    let root = fixture.unpack(archive).unwrap();
    let mode = |name: &str| fs::metadata(root.join(name)).unwrap().mode() & 0o7777;
    assert_eq!(["su", "wall", "tmp", "mail"].map(mode), [0o755, 0o755, 0o1777, 0o775]);
}

#[test]
fn owners_outside_of_the_range_become_nobody() {
    let fixture = RootfsFixture::new();
    let big = (70_000, 2_000_000);
    let archive = Archive::of_a_system().owned(b'0', "file", "", "", 0o644, big);
    let root = fixture.unpack(archive).unwrap();
    if is_root() {
        let found = fs::metadata(root.join("file")).unwrap();
        assert_eq!((found.uid(), found.gid()), (65_534, 65_534));
    }
}
