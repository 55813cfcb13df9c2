//! `vestal cp`.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use crate::support::ProgramFixture;

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn tree(root: &Path) {
    fs::create_dir_all(root.join("sub/deep")).unwrap();
    fs::write(root.join("plain"), "plain").unwrap();
    fs::write(root.join("sub/run"), "#!/bin/sh\n").unwrap();
    fs::write(root.join("sub/deep/bytes"), [0, 255, 10, 13]).unwrap();
    fs::set_permissions(root.join("sub/run"), fs::Permissions::from_mode(0o750)).unwrap();
    fs::set_permissions(root.join("plain"), fs::Permissions::from_mode(0o640)).unwrap();
    symlink("../plain", root.join("sub/link")).unwrap();
    symlink("/nowhere", root.join("dangling")).unwrap();
}

fn assert_is_tree(root: &Path) {
    assert_eq!(fs::read(root.join("plain")).unwrap(), b"plain");
    assert_eq!(fs::read(root.join("sub/deep/bytes")).unwrap(), [0, 255, 10, 13]);
    assert_eq!(mode(&root.join("sub/run")), 0o750);
    assert_eq!(mode(&root.join("plain")), 0o640);
    assert_eq!(fs::read_link(root.join("sub/link")).unwrap(), Path::new("../plain"));
    assert_eq!(fs::read_link(root.join("dangling")).unwrap(), Path::new("/nowhere"));
    let names = fs::read_dir(root).unwrap().flatten().map(|entry| entry.file_name());
    assert_eq!(names.count(), 3, "nothing else is there");
}

#[test]
fn a_tree_goes_in_and_comes_out_unchanged() {
    let fixture = ProgramFixture::new();
    let work = fixture.work();
    tree(&work.join("tree"));
    fixture.run("mkdir inside").exits(0);
    fixture.vestal(["cp", "tree", "default:inside"]).exits(0);
    assert_is_tree(&work.join("inside/tree"));
    fixture.vestal(["cp", "tree", ":inside/renamed"]).exits(0);
    assert_is_tree(&work.join("inside/renamed"));
    fs::create_dir(work.join("out")).unwrap();
    fixture.vestal(["cp", "default:inside/tree", "out"]).exits(0);
    assert_is_tree(&work.join("out/tree"));
    let copied = fixture.vestal(["cp", "--json", "default:inside/tree", "out/again"]).exits(0);
    assert_is_tree(&work.join("out/again"));
    assert_eq!(copied.json(), serde_json::json!({"files": 5, "bytes": 19}));
    // Over what is there already.
    fixture.vestal(["cp", "tree", "default:inside"]).exits(0);
    fixture.vestal(["cp", "default:inside/tree", "out"]).exits(0);
    assert_is_tree(&work.join("out/tree"));
}

#[test]
fn what_is_in_a_directory_is_copied_into_another() {
    let fixture = ProgramFixture::new();
    let work = fixture.work();
    tree(&work.join("tree"));
    fixture.run("mkdir inside").exits(0);
    fixture.vestal(["cp", "tree/.", ":inside"]).exits(0);
    assert_is_tree(&work.join("inside"));
    fixture.vestal(["cp", "tree/.", ":made"]).exits(0);
    assert_is_tree(&work.join("made"));
    fs::create_dir(work.join("out")).unwrap();
    fixture.vestal(["cp", ":inside/.", "out"]).exits(0);
    assert_is_tree(&work.join("out"));
    fixture.vestal(["cp", ":inside/.", "new"]).exits(0);
    assert_is_tree(&work.join("new"));
}

#[test]
fn a_copy_out_of_a_sandbox_keeps_the_times_of_files_and_directories() {
    let fixture = ProgramFixture::new();
    let text = "mkdir -p d/e && echo 1 > d/e/f && touch -d @1000000000 d/e/f d/e d";
    fixture.run(text).exits(0);
    fixture.vestal(["cp", ":d", "out"]).exits(0);
    fixture.vestal(["cp", ":d/e/f", "file"]).exits(0);
    for copied in ["out", "out/e", "out/e/f", "file"] {
        assert_eq!(fs::metadata(fixture.work().join(copied)).unwrap().mtime(), 1_000_000_000);
    }
}

#[test]
fn a_file_is_not_copied_to_the_name_of_a_directory_that_is_not_there() {
    let fixture = ProgramFixture::new();
    fixture.run("echo 1 > f").exits(0);
    let out = fixture.vestal(["cp", ":f", "nowhere/"]).exits(125);
    assert!(out.stderr.contains("nowhere/ is not a directory that is there"), "{out:?}");
    fixture.vestal(["cp", "f", ":nowhere/"]).exits(125);
    assert!(!fixture.work().join("nowhere").exists());
}

#[test]
fn relative_paths_start_where_the_session_is() {
    let fixture = ProgramFixture::new();
    fixture.run("mkdir here && cd here").exits(0);
    fs::write(fixture.work().join("file"), "text").unwrap();
    fixture.vestal(["cp", "file", ":copy"]).exits(0);
    assert_eq!(fs::read_to_string(fixture.work().join("here/copy")).unwrap(), "text");
    fixture.vestal(["cp", "file", ":~/in-home"]).exits(0);
    assert_eq!(fixture.run("cat ~/in-home").text(), "text");
}

#[test]
fn standard_input_and_output_are_sides_of_a_copy() {
    let fixture = ProgramFixture::new();
    let bytes: Vec<u8> =
        (0..3_000_000_u32).map(|n| n.to_le_bytes()[0] ^ n.to_le_bytes()[1]).collect();
    fixture.vestal_with(["cp", "-", "default:blob"], &bytes).exits(0);
    assert!(fs::read(fixture.work().join("blob")).unwrap() == bytes);
    assert!(fixture.vestal(["cp", "default:blob", "-"]).exits(0).stdout == bytes);
}

#[test]
fn a_planted_link_is_never_written_through() {
    let fixture = ProgramFixture::new();
    let work = fixture.work();
    fixture.run("mkdir -p from/dir; echo new > from/dir/file; echo new > from/file").exits(0);
    fs::create_dir_all(work.join("to/from")).unwrap();
    fs::create_dir(work.join("elsewhere")).unwrap();
    fs::write(work.join("secret"), "untouched").unwrap();
    symlink(work.join("secret"), work.join("to/from/file")).unwrap();
    symlink(work.join("elsewhere"), work.join("to/from/dir")).unwrap();
    fixture.vestal(["cp", "default:from", "to"]).exits(125);
    assert_eq!(fs::read_dir(work.join("elsewhere")).unwrap().count(), 0);
    fs::remove_file(work.join("to/from/dir")).unwrap();
    fixture.vestal(["cp", "default:from", "to"]).exits(0);
    assert_eq!(fs::read_to_string(work.join("secret")).unwrap(), "untouched");
    assert_eq!(fs::read_to_string(work.join("to/from/file")).unwrap(), "new\n");
    assert!(fs::symlink_metadata(work.join("to/from/file")).unwrap().is_file());
}

#[test]
fn mistakes_are_reported_and_make_nothing() {
    let fixture = ProgramFixture::new();
    fixture.vestal(["cp", "a", "b"]).exits(2);
    fixture.vestal(["cp", "x:a", "y:b"]).exits(2);
    fixture.vestal(["cp", "absent:file", "."]).exits(125);
    assert_eq!(fixture.tasks(), [""; 0], "nothing can be had from a sandbox that is not there");
    fixture.run("true").exits(0);
    let missing = fixture.vestal(["cp", "default:nowhere", "."]).exits(125);
    assert!(missing.stderr.contains("nowhere"), "{missing:?}");
    let nameless = fixture.vestal(["cp", "default:~", "."]).exits(2);
    assert!(nameless.stderr.contains("name the copy"), "{nameless:?}");
    let absent = fixture.vestal(["cp", "nowhere", "default:"]).exits(125);
    assert!(absent.stderr.contains("nowhere"), "{absent:?}");
    assert_eq!(fs::read_dir(fixture.work()).unwrap().count(), 0);
}
