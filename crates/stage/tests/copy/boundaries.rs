//! A copy contains nothing from outside of the tree.

use std::fs;
use std::os::unix::fs::symlink;

use super::support::{TestTrees, exists, in_namespace, tree};

#[test]
fn links_are_never_followed() {
    let trees = TestTrees::new();
    let outside = trees.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "a secret").unwrap();
    symlink(&outside, trees.from().join("to-directory")).unwrap();
    symlink(outside.join("secret"), trees.from().join("to-file")).unwrap();
    symlink("/etc", trees.from().join("to-etc")).unwrap();
    symlink("..", trees.from().join("up")).unwrap();
    symlink("loop", trees.from().join("loop")).unwrap();
    let done = trees.copy();
    assert_eq!(done, r#"{"done":true,"files":5,"bytes":0,"skipped":0}"#);
    assert_eq!(tree(&trees.to()), tree(&trees.from()));
}

#[test]
fn a_link_in_the_place_of_the_tree_is_refused() {
    let trees = TestTrees::new();
    fs::remove_dir(trees.from()).unwrap();
    symlink("/etc", trees.from()).unwrap();
    let failure = trees.fail();
    assert!(failure.contains(r#""action":"open""#) && failure.contains("from"), "{failure}");
}

#[test]
fn mounts_in_a_tree_are_not_copied() {
    let trees = TestTrees::new();
    trees.write("tmpfs/below", "cannot be seen");
    trees.write("bound/below", "cannot be seen");
    trees.write("bound-file", "cannot be seen");
    trees.write("beside", "x");
    let outside = trees.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "a secret").unwrap();
    let output = in_namespace(
        trees.path(),
        r#"mount -t tmpfs -o mode=1777 none "$2/from/tmpfs"
           echo secret > "$2/from/tmpfs/secret"
           mount --bind "$2/outside" "$2/from/bound"
           mount --bind "$2/outside/secret" "$2/from/bound-file"
           exec "$1" copy "$2/from" "$2/to""#,
    );
    assert!(output.status.success(), "{output:?}");
    for directory in ["tmpfs", "bound"] {
        assert_eq!(fs::read_dir(trees.to().join(directory)).unwrap().count(), 0, "{directory}");
    }
    assert_eq!(fs::read(trees.to().join("bound-file")).unwrap(), b"");
    assert_eq!(fs::read(trees.to().join("beside")).unwrap(), b"x");
}

#[test]
fn an_existing_target_is_not_touched() {
    let trees = TestTrees::new();
    trees.write("file", "x");
    fs::create_dir(trees.to()).unwrap();
    fs::write(trees.to().join("precious"), "x").unwrap();
    let output = trees.command().output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        printed.contains(r#""action":"create""#) && printed.contains(r#""errno":17"#),
        "{printed}"
    );
    assert!(exists(&trees.to().join("precious")));
    assert!(!exists(&trees.to().join("file")));
}

#[test]
fn a_tree_is_not_copied_into_itself() {
    let trees = TestTrees::new();
    trees.write("dir/file", "x");
    let target = trees.from().join("dir/copy");
    let mut command = std::process::Command::new(super::support::STAGE);
    let output = command.arg("copy").arg(trees.from()).arg(&target).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("into itself"), "{output:?}");
    assert!(!exists(&target));
    assert!(exists(&trees.from().join("dir/file")));
}
