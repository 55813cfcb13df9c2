//! A copy that cannot be completed is removed.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use vestal_testkit::namespaces::is_root;

use super::support::{TestTrees, exists, in_namespace, last_line, tree};

#[test]
fn a_file_that_cannot_be_read_is_named_and_nothing_is_left() {
    let trees = TestTrees::new();
    trees.write("dir/readable", "x");
    let path = trees.write("dir/a \"closed\" file", "x");
    fs::set_permissions(&path, Permissions::from_mode(0o000)).unwrap();
    let output = trees.command_of_ordinary_user().output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let line = last_line(&output);
    let named = format!(r#""path":"{}""#, path.display().to_string().replace('"', "\\\""));
    let why = r#""errno":13,"#;
    assert!(line.contains(&named) && line.contains(why), "{line}");
    assert!(line.contains(r#""left":null"#), "{line}");
    assert!(!exists(&trees.to()));
}

#[test]
fn files_of_another_user_are_not_copied_with_a_wrong_owner() {
    if !is_root() {
        return;
    }
    let trees = TestTrees::new();
    let path = trees.write("file", "x");
    let mut command = trees.command_of_ordinary_user();
    std::os::unix::fs::chown(&path, Some(0), Some(0)).unwrap();
    let output = command.output().unwrap();
    let line = last_line(&output);
    assert!(line.contains("to/file") && line.contains(r#""errno":1,"#), "{line}");
    assert!(!exists(&trees.to()));
}

#[test]
fn a_full_disk_is_reported_and_nothing_is_left() {
    let trees = TestTrees::new();
    for number in 0..40 {
        trees.write(format!("{}/{number}", number % 4), vec![1; 100_000]);
    }
    let output = in_namespace(
        trees.path(),
        r#"mkdir "$2/disk"
           mount -t tmpfs -o size=2m none "$2/disk"
           echo other > "$2/disk/other"
           code=0
           "$1" copy "$2/from" "$2/disk/to" || code=$?
           ls -A "$2/disk"
           exit $code"#,
    );
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let printed = String::from_utf8_lossy(&output.stdout);
    let (line, left) = printed.trim_end().rsplit_once('\n').unwrap();
    assert_eq!(left, "other");
    assert!(line.contains(r#""errno":28"#) && line.contains("/disk/to/"), "{line}");
}

#[test]
fn a_disk_without_free_inodes_is_reported() {
    let trees = TestTrees::new();
    for number in 0..100 {
        trees.write(format!("{number}"), "");
    }
    let output = in_namespace(
        trees.path(),
        r#"mkdir "$2/disk"
           mount -t tmpfs -o nr_inodes=50 none "$2/disk"
           code=0
           "$1" copy "$2/from" "$2/disk/to" || code=$?
           ls -A "$2/disk"
           exit $code"#,
    );
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let line = last_line(&output);
    assert!(line.contains(r#""action":"create""#) && line.contains(r#""errno":28"#), "{line}");
}

/// Starts a copy, ends it as soon as its target is there, and returns how it
/// ended; or nothing, if it was faster.
fn interrupted(files: u32, signal: Signal) -> Option<i32> {
    let trees = TestTrees::new();
    for number in 0..files {
        trees.write(format!("{}/{number}", number % 20), "x");
    }
    fs::set_permissions(trees.from(), Permissions::from_mode(0o555)).unwrap();
    let mut child = trees.command().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !exists(&trees.to()) && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    let pid = Pid::from_child(&child);
    kill_process(pid, signal).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), None);
    if status.success() {
        return None;
    }
    assert!(!exists(&trees.to()), "the target is left");
    status.code()
}

#[test]
fn a_copy_that_is_signalled_leaves_nothing() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        // However fast the machine is.
        let ended = [1_000, 10_000, 100_000].into_iter().find_map(|n| interrupted(n, signal));
        assert_eq!(ended, Some(code));
    }
}

#[test]
fn a_copy_that_nobody_waits_for_leaves_nothing() {
    let trees = TestTrees::new();
    trees.write("file", "x");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut child = trees.command().stdout(writer).stderr(Stdio::null()).spawn().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(141));
    assert!(!exists(&trees.to()));
}

/// Large enough for a copy of it to take longer than a tick of the clock that
/// tells when a file was changed.
const BLOCKS: usize = 512;
const BLOCK: usize = 64 << 10;

/// Ends a thread, also when the test fails.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_file_that_changes_meanwhile_is_copied_in_one_version_or_not_at_all() {
    let trees = TestTrees::new();
    let path = trees.write("changing", vec![0; BLOCKS * BLOCK]);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Block by block, so that at each moment the file begins with blocks of
        // this round and continues with those of the one before.
        scope.spawn(|| {
            let file = File::options().write(true).open(&path).unwrap();
            for round in (1_u8..=u8::MAX).cycle() {
                let content = vec![round; BLOCK];
                for block in 0..BLOCKS {
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                    file.write_all_at(&content, (block * BLOCK) as u64).unwrap();
                }
            }
        });
        let _over = StopOnDrop(&over);
        for _ in 0..8 {
            let output = trees.command().output().unwrap();
            if output.status.success() {
                let copy = fs::read(trees.to().join("changing")).unwrap();
                assert_eq!(copy.len(), BLOCKS * BLOCK);
                let mut rounds: Vec<u8> = copy.iter().step_by(BLOCK).copied().collect();
                rounds.dedup();
                let first = rounds[0];
                let before = if first <= 1 { u8::MAX } else { first - 1 };
                let one = rounds == [first] || rounds == [first, before] || rounds == [first, 0];
                assert!(one, "two versions in one file: {rounds:?}");
                fs::remove_dir_all(trees.to()).unwrap();
            } else {
                let line = last_line(&output);
                assert!(line.contains("changing keeps changing"), "{line}");
                assert!(!exists(&trees.to()));
            }
        }
    });
    trees.copy();
    assert_eq!(tree(&trees.to()), tree(&trees.from()));
}

#[test]
fn any_number_of_paths_but_two_is_a_usage_error() {
    for arguments in [&["copy"][..], &["copy", "a"], &["copy", "a", "b", "c"]] {
        let output =
            std::process::Command::new(super::support::STAGE).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
    }
    let trees = TestTrees::new();
    fs::remove_dir(trees.from()).unwrap();
    assert!(trees.fail().contains(r#""errno":2,"#));
    fs::write(trees.from(), "a file").unwrap();
    assert!(trees.fail().contains(r#""errno":20,"#));
}
