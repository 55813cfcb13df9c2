//! Files, in one round trip and byte-exact.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use vestal_sandbox::Command;
use vestal_sandbox::files::{Depth, Links, Overwrite, Parents, WriteOptions};
use vestal_wire::{FileEdit, FileKind, SearchQuery};

use crate::support::BackendFixture;

pub(crate) async fn tilde_means_the_sandboxes_home_for_reading_and_writing(
    fixture: &BackendFixture,
) {
    let sandbox = fixture.sandbox().await;
    let files = sandbox.files(None).await.unwrap();
    files.write("~/x", b"content", WriteOptions::default()).await.unwrap();
    assert_eq!(files.read("~/x", 100).await.unwrap(), b"content");
    let output = sandbox.run(Command::shell("cat ~/x")).await.unwrap();
    assert_eq!(output.stdout.bytes(), b"content");
}

pub(crate) async fn relative_paths_start_where_the_session_is(fixture: &BackendFixture) {
    let sandbox = fixture.sandbox().await;
    sandbox.run(Command::shell("mkdir -p ~/deep/er; cd ~/deep/er").session("main")).await.unwrap();
    let files = sandbox.files(Some("main")).await.unwrap();
    files.write("here", b"1", WriteOptions::default()).await.unwrap();
    assert_eq!(std::fs::read(fixture.home_files().join("deep/er/here")).unwrap(), b"1");
    let elsewhere = sandbox.files(None).await.unwrap();
    elsewhere.write("there", b"2", WriteOptions::default()).await.unwrap();
    assert_eq!(std::fs::read(fixture.start_files().join("there")).unwrap(), b"2");
}

pub(crate) async fn writing_through_a_symlink_keeps_the_link_and_the_mode(
    fixture: &BackendFixture,
) {
    let files = fixture.sandbox().await.files(None).await.unwrap();
    let home = fixture.home_files();
    std::fs::write(home.join("target"), "old").unwrap();
    std::fs::set_permissions(home.join("target"), std::fs::Permissions::from_mode(0o640)).unwrap();
    symlink("target", home.join("link")).unwrap();
    fixture.hand_over(&home.join("target"));
    fixture.hand_over(&home.join("link"));
    files.write("~/link", b"new", WriteOptions::default()).await.unwrap();
    assert!(home.join("link").symlink_metadata().unwrap().is_symlink());
    assert_eq!(std::fs::read(home.join("target")).unwrap(), b"new");
    let mode = std::fs::metadata(home.join("target")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
}

pub(crate) async fn bytes_that_are_no_text_survive_a_patch(fixture: &BackendFixture) {
    let files = fixture.sandbox().await.files(None).await.unwrap();
    let path = fixture.home_files().join("latin1");
    std::fs::write(&path, b"caf\xe9\r\nna\xefve\0end").unwrap();
    fixture.hand_over(&path);
    let edit =
        FileEdit { old: b"na\xefve".to_vec().into(), new: b"wise".to_vec().into(), all: false };
    let written = files.patch("~/latin1", vec![edit], None).await.unwrap();
    assert_eq!(written.replaced, 1);
    assert_eq!(std::fs::read(path).unwrap(), b"caf\xe9\r\nwise\0end");
    let ambiguous = FileEdit { old: b"e".to_vec().into(), new: b"x".to_vec().into(), all: false };
    assert!(files.patch("~/latin1", vec![ambiguous], None).await.is_err());
}

pub(crate) async fn a_search_finds_lines_by_pattern(fixture: &BackendFixture) {
    let files = fixture.sandbox().await.files(None).await.unwrap();
    let home = fixture.home_files();
    std::fs::create_dir_all(home.join("src")).unwrap();
    std::fs::write(home.join("src/a.rs"), "fn main() {}\n// needle here\n").unwrap();
    std::fs::write(home.join("src/b.txt"), "needle too\n").unwrap();
    fixture.hand_over(&home.join("src"));
    let query = SearchQuery {
        root: b"~/src".to_vec().into(),
        glob: Some("*.rs".into()),
        regex: Some("need.e".into()),
        ignore_case: false,
        hidden: false,
        ignored: false,
        skip: 0,
        limit: 100,
        context: 0,
    };
    let found = files.search(query).await.unwrap();
    assert_eq!(found.matches.len(), 1);
    assert_eq!((&**found.matches[0].path, found.matches[0].line), (&b"a.rs"[..], 2));
}

pub(crate) async fn directories_are_made_listed_moved_and_deleted(fixture: &BackendFixture) {
    let files = fixture.sandbox().await.files(None).await.unwrap();
    files.mkdir("~/a/b/c", Parents::Make, None).await.unwrap();
    files.write("~/a/b/c/f", b"x", WriteOptions::default()).await.unwrap();
    files.rename("~/a/b", "~/a/moved", Overwrite::Never).await.unwrap();
    let page = files.list("~/a", 10).await.unwrap();
    let names: Vec<&[u8]> = page.entries.iter().map(|entry| &**entry.name).collect();
    assert_eq!(names, [b"moved"]);
    let kind = files.stat("~/a/moved/c", Links::Follow).await.unwrap().kind;
    assert_eq!(kind, FileKind::Directory);
    assert!(files.delete("~/a", Depth::One).await.is_err(), "it is not empty");
    files.delete("~/a", Depth::Recursive).await.unwrap();
    assert!(!fixture.home_files().join("a").exists());
}

pub(crate) async fn a_large_file_goes_both_ways_unharmed(fixture: &BackendFixture) {
    let bytes: Vec<u8> =
        (0..20_000_000_u32).map(|n| n.wrapping_mul(2_246_822_519).to_be_bytes()[1]).collect();
    let files = fixture.sandbox().await.files(None).await.unwrap();
    files.write("~/large", &bytes, WriteOptions::default()).await.unwrap();
    assert!(files.read("~/large", 30_000_000).await.unwrap() == bytes);
    let range = files.read_range("~/large", 10_000_000, 1000).await.unwrap();
    assert_eq!(range.bytes, bytes[10_000_000..10_001_000]);
}
