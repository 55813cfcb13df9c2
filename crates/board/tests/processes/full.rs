//! Disks that take no more.

use std::process::{Command, Output};

/// Runs shell text as root of a namespace of its own, with a directory as `$1`
/// and the worker as `$2`.
fn in_namespace(text: &str) -> Output {
    let dir = tempfile::tempdir().unwrap();
    Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-euc", text, "sh"])
        .arg(dir.path())
        .arg(env!("CARGO_BIN_EXE_board-user"))
        .output()
        .unwrap()
}

/// Fills a small disk, makes room, and looks again.
const FILL: &str = "
    mount -t tmpfs -o size=12m none \"$1\"
    head -c 5000000 /dev/zero > \"$1/ballast\"
    \"$2\" \"$1\" fill
    rm \"$1/ballast\"
    \"$2\" \"$1\" count
    \"$2\" \"$1\" fill
    \"$2\" \"$1\" count
";

#[test]
fn a_full_disk_is_said_and_takes_nothing_that_was_acknowledged() {
    let output = in_namespace(FILL);
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stdout}{stderr}");
    let lines: Vec<&str> = stdout.lines().collect();
    let [first, counted, second, recounted] = lines.as_slice() else { panic!("{stdout}") };
    let number = |line: &str| line.split(' ').next().unwrap().parse::<u32>().unwrap();
    assert!(first.ends_with(" Full") && number(first) > 3, "{stdout}{stderr}");
    assert_eq!(number(counted), number(first));
    // The room that was made is used.
    assert!(second.ends_with(" Full") && number(second) > 3, "{stdout}{stderr}");
    assert_eq!(number(recounted), number(first) + number(second));
}

/// Reads a board, writes to it, and looks for a place to make one, on a disk that
/// cannot be written.
const READ_ONLY: &str = "
    mount -t tmpfs none \"$1\"
    mkdir \"$1/old\" \"$1/new\"
    \"$2\" \"$1/old\" create 3 > \"$1/made\"
    mount -o remount,ro \"$1\"
    \"$2\" \"$1/old\" count
    \"$2\" \"$1/old\" create 1 && exit 1
    \"$2\" \"$1/new\" open && exit 1
    exit 0
";

#[test]
fn a_board_on_a_disk_that_cannot_be_written_can_be_read_and_a_write_says_so() {
    let output = in_namespace(READ_ONLY);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "3\n");
    let lines: Vec<&str> = stderr.lines().collect();
    let [old, new] = lines.as_slice() else { panic!("{stderr}") };
    assert!(old.contains("Access") && old.contains("old/kanban.db"), "{old}");
    assert!(new.contains("Io") && new.contains("ReadOnlyFilesystem"), "{new}");
}
