//! Processes that are killed or stopped, and disks that are full.

use std::collections::BTreeSet;
use std::process::{Child, Stdio};

use vestal_database::{BusyWait, Error};
use vestal_testkit::namespaces::in_namespace;
use vestal_testkit::programs::{kill_after, lines};
use vestal_testkit::random::{Random, soak};

use crate::{PROGRAM, assert_whole, numbers, user};

const WRITERS: usize = 8;
const WRITES: u64 = 200;

#[tokio::test]
async fn soak_no_write_that_a_killed_process_acknowledged_is_lost() {
    let mut random = Random::from_environment();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lines.db");
    let mut acknowledged = BTreeSet::new();
    for _ in 0..soak("VESTAL_SOAK_ROUNDS", 2) {
        let writers: Vec<_> = (0..WRITERS)
            .map(|_| {
                let writer = user(&path, &["write", &WRITES.to_string()]).spawn().unwrap();
                // Some come to their end.
                let most = usize::try_from(random.below(WRITES + WRITES / 4)).unwrap();
                std::thread::spawn(move || kill_after(writer, most))
            })
            .collect();
        for writer in writers {
            let mut printed = writer.join().unwrap();
            // The kill may have cut the last number.
            printed.pop();
            for number in numbers(printed) {
                assert!(acknowledged.insert(number), "number {number} was given twice");
            }
        }
    }
    assert_whole(&path, &acknowledged).await;
}

/// Starts a process that holds the write lock.
fn freeze(path: &std::path::Path) -> Child {
    let mut frozen = user(path, &["freeze"]).stdin(Stdio::piped()).spawn().unwrap();
    assert_eq!(lines(&mut frozen).next().unwrap().unwrap(), "writing");
    frozen
}

#[tokio::test]
async fn a_writer_that_is_stopped_in_its_transaction_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lines.db");
    let mut frozen = freeze(&path);
    let mut wait = BusyWait::new(&path);
    wait.pause().await.unwrap();
    let pid = rustix::process::Pid::from_child(&frozen);
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    vestal_testkit::until("it is stopped", || vestal_process::is_stopped(frozen.id())).await;
    let error = wait.pause().await.unwrap_err();
    assert!(matches!(error, Error::Stopped { pid, .. } if pid == frozen.id()), "{error}");
    frozen.kill().unwrap();
    frozen.wait().unwrap();
    wait.pause().await.unwrap();
}

#[tokio::test]
async fn a_writer_that_is_killed_in_its_transaction_holds_nobody_up() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lines.db");
    let mut frozen = freeze(&path);
    let mut waiting = user(&path, &["write", "1"]).spawn().unwrap();
    frozen.kill().unwrap();
    frozen.wait().unwrap();
    let printed = lines(&mut waiting).map(Result::unwrap);
    let acknowledged: BTreeSet<i64> = numbers(printed).into_iter().collect();
    assert!(waiting.wait().unwrap().success());
    assert_eq!(acknowledged.len(), 1);
    assert_whole(&path, &acknowledged).await;
}

/// Fills a small disk, frees some space, and does so again.
const FILL: &str = "
    mount -t tmpfs -o size=12m none \"$1\"
    head -c 5000000 /dev/zero > \"$1/ballast\"
    \"$2\" \"$1/lines.db\" fill
    rm \"$1/ballast\"
    \"$2\" \"$1/lines.db\" count
    \"$2\" \"$1/lines.db\" fill
    \"$2\" \"$1/lines.db\" count
";

#[test]
fn a_full_disk_is_reported_and_loses_nothing_that_was_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let output = in_namespace(FILL, &[dir.path().as_os_str(), PROGRAM.as_ref()]);
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stdout}{stderr}");
    let lines: Vec<&str> = stdout.lines().collect();
    let [first, counted, second, recounted] = lines.as_slice() else { panic!("{stdout}") };
    let number = |line: &str| line.split(' ').next().unwrap().parse::<u32>().unwrap();
    assert!(first.ends_with(" Full") && number(first) > 3, "{stdout}{stderr}");
    assert_eq!(number(counted), number(first));
    // The freed space is used.
    assert!(second.ends_with(" Full") && number(second) > 3, "{stdout}{stderr}");
    assert_eq!(number(recounted), number(first) + number(second));
}

/// Opens a file and looks for a place for another on a read-only disk.
const READ_ONLY: &str = "
    mount -t tmpfs none \"$1\"
    mkdir \"$1/old\" \"$1/new\"
    \"$2\" \"$1/old/lines.db\" open
    mount -o remount,ro \"$1\"
    \"$2\" \"$1/old/lines.db\" open && exit 1
    \"$2\" \"$1/new/lines.db\" open && exit 1
    exit 0
";

#[test]
fn a_read_only_disk_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let output = in_namespace(READ_ONLY, &[dir.path().as_os_str(), PROGRAM.as_ref()]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "open\n");
    let lines: Vec<&str> = stderr.lines().collect();
    let [old, new] = lines.as_slice() else { panic!("{stderr}") };
    assert!(old.contains("Access") && old.contains("old/lines.db"), "{old}");
    assert!(new.contains("Io") && new.contains("ReadOnlyFilesystem"), "{new}");
}
