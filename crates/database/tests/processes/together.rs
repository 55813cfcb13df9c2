//! Processes that create, open, close and write one file at the same time.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use vestal_testkit::files::modes;
use vestal_testkit::programs::lines;

use crate::lines::Lines;
use crate::{PROGRAM, assert_whole, numbers, user};

fn acknowledged(output: &Output) -> Vec<i64> {
    assert!(output.status.success(), "{output:?}");
    numbers(String::from_utf8_lossy(&output.stdout).lines())
}

#[tokio::test]
async fn stampede_many_processes_create_the_file_at_once_and_all_can_use_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("home").join("lines.db");
    let racing: Vec<_> = (0..20).map(|_| user(&path, &["write", "2"]).spawn().unwrap()).collect();
    let mut all = BTreeSet::new();
    for child in racing {
        all.extend(acknowledged(&child.wait_with_output().unwrap()));
    }
    assert_eq!(all.len(), 40);
    assert_whole(&path, &all).await;
}

#[test]
fn no_file_is_open_to_others_whatever_the_mask() {
    for mask in ["000", "077", "777"] {
        let dir = tempfile::tempdir().unwrap();
        let text = format!("umask {mask}; exec \"$0\" \"$@\"");
        let mut child = Command::new("sh")
            .args(["-c", &text, PROGRAM])
            .arg(dir.path().join("lines.db"))
            .arg("freeze")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        assert_eq!(lines(&mut child).next().unwrap().unwrap(), "writing");
        let expected = ["lines.db", "lines.db-shm", "lines.db-wal"];
        let expected = expected.map(|name| (name.to_owned(), 0o600)).into();
        assert_eq!(modes(dir.path()), expected, "umask {mask}");
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
}

#[tokio::test]
async fn a_process_that_comes_and_goes_takes_nothing_from_one_that_stays() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lines.db");
    let mut staying = user(&path, &["steps"]).stdin(Stdio::piped()).spawn().unwrap();
    let (mut asking, mut answers) = (staying.stdin.take().unwrap(), lines(&mut staying));
    let mut all = BTreeSet::new();
    for _ in 0..3 {
        for number in 0..20 {
            writeln!(asking, "line {number}").unwrap();
            all.extend(numbers([answers.next().unwrap().unwrap()]));
        }
        all.extend(acknowledged(&user(&path, &["write", "20"]).output().unwrap()));
        // The log is still the one it writes to.
        let held = std::fs::read_dir(format!("/proc/{}/fd", staying.id())).unwrap();
        let held: Vec<_> =
            held.filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok()).collect();
        let deleted = held.iter().filter(|path| path.to_string_lossy().contains("(deleted)"));
        assert_eq!(deleted.count(), 0, "{held:?}");
    }
    drop(asking);
    assert!(staying.wait().unwrap().success());
    assert_eq!(all.len(), 120);
    assert_whole(&path, &all).await;
}

#[tokio::test]
async fn processes_that_open_and_close_without_end_hinder_no_writer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lines.db");
    let writers: Vec<_> = (0..2).map(|_| user(&path, &["write", "150"]).spawn().unwrap()).collect();
    let visitors: Vec<_> = (0..2).map(|_| user(&path, &["visit", "60"]).spawn().unwrap()).collect();
    for visitor in visitors {
        assert!(visitor.wait_with_output().unwrap().status.success());
    }
    let mut all = BTreeSet::new();
    for writer in writers {
        all.extend(acknowledged(&writer.wait_with_output().unwrap()));
    }
    assert_eq!(all.len(), 300);
    assert_whole(&path, &all).await;
}

#[tokio::test]
async fn a_file_that_one_process_opens_and_closes_several_times_keeps_its_locks() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lines.db");
    let mut staying = Lines::open(&path).await.unwrap();
    let mut all = BTreeSet::new();
    for _ in 0..3 {
        all.insert(staying.add("ours").await.unwrap());
        let mut brief = Lines::open(&path).await.unwrap();
        brief.numbers().await.unwrap();
        brief.close().await.unwrap();
        all.extend(acknowledged(&user(&path, &["write", "5"]).output().unwrap()));
    }
    assert_eq!(staying.numbers().await.unwrap().len(), 18);
    assert_eq!(all.len(), 18);
    staying.close().await.unwrap();
}
