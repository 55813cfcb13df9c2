//! A copy has nothing that is not in the tree.

use std::fs;
use std::os::unix::fs::symlink;

use super::support::{Place, exists, in_namespace, tree};

#[test]
fn links_are_never_followed() {
    let place = Place::new();
    let outside = place.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "a secret").unwrap();
    symlink(&outside, place.from().join("to-directory")).unwrap();
    symlink(outside.join("secret"), place.from().join("to-file")).unwrap();
    symlink("/etc", place.from().join("to-etc")).unwrap();
    symlink("..", place.from().join("up")).unwrap();
    symlink("loop", place.from().join("loop")).unwrap();
    let done = place.copy();
    assert_eq!(done, r#"{"done":true,"files":5,"bytes":0,"skipped":0}"#);
    assert_eq!(tree(&place.to()), tree(&place.from()));
}

#[test]
fn a_link_in_the_place_of_the_tree_is_refused() {
    let place = Place::new();
    fs::remove_dir(place.from()).unwrap();
    symlink("/etc", place.from()).unwrap();
    let failure = place.fail();
    assert!(failure.contains(r#""action":"open""#) && failure.contains("from"), "{failure}");
}

#[test]
fn what_is_mounted_in_a_tree_stays_out() {
    let place = Place::new();
    place.write("tmpfs/below", "cannot be seen");
    place.write("bound/below", "cannot be seen");
    place.write("bound-file", "cannot be seen");
    place.write("beside", "x");
    let outside = place.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "a secret").unwrap();
    let output = in_namespace(
        place.path(),
        r#"mount -t tmpfs -o mode=1777 none "$2/from/tmpfs"
           echo secret > "$2/from/tmpfs/secret"
           mount --bind "$2/outside" "$2/from/bound"
           mount --bind "$2/outside/secret" "$2/from/bound-file"
           exec "$1" copy "$2/from" "$2/to""#,
    );
    assert!(output.status.success(), "{output:?}");
    for directory in ["tmpfs", "bound"] {
        assert_eq!(fs::read_dir(place.to().join(directory)).unwrap().count(), 0, "{directory}");
    }
    assert_eq!(fs::read(place.to().join("bound-file")).unwrap(), b"");
    assert_eq!(fs::read(place.to().join("beside")).unwrap(), b"x");
}

#[test]
fn what_is_there_is_not_touched() {
    let place = Place::new();
    place.write("file", "x");
    fs::create_dir(place.to()).unwrap();
    fs::write(place.to().join("precious"), "x").unwrap();
    let output = place.command().output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains(r#""action":"create""#) && said.contains(r#""errno":17"#), "{said}");
    assert!(exists(&place.to().join("precious")));
    assert!(!exists(&place.to().join("file")));
}

#[test]
fn a_tree_is_not_copied_into_itself() {
    let place = Place::new();
    place.write("dir/file", "x");
    let target = place.from().join("dir/copy");
    let mut command = std::process::Command::new(super::support::STAGE);
    let output = command.arg("copy").arg(place.from()).arg(&target).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("into itself"), "{output:?}");
    assert!(!exists(&target));
    assert!(exists(&place.from().join("dir/file")));
}
