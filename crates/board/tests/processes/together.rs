//! Processes that open, close and write beside each other.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::Stdio;

use vestal_board::store::{Options, Query, SqliteStore, Store as _};
use vestal_board::testing;

use crate::{assert_whole, lines, worker};

#[tokio::test]
async fn a_process_that_comes_and_goes_takes_nothing_from_one_that_stays() {
    let dir = tempfile::tempdir().unwrap();
    let mut staying = worker(dir.path(), &["steps"]);
    let mut staying = staying.stdin(Stdio::piped()).spawn().unwrap();
    let (mut asking, mut answers) = (staying.stdin.take().unwrap(), lines(&mut staying));
    let mut acknowledged = BTreeSet::new();
    for _ in 0..3 {
        for number in 0..20 {
            writeln!(asking, "task {number}").unwrap();
            acknowledged.insert(answers.next().unwrap().unwrap());
        }
        let guest = worker(dir.path(), &["create", "20"]).output().unwrap();
        assert!(guest.status.success());
        let said = String::from_utf8(guest.stdout).unwrap();
        acknowledged.extend(said.lines().map(str::to_owned));
        // The log is still the one it writes to.
        let held = std::fs::read_dir(format!("/proc/{}/fd", staying.id())).unwrap();
        let held: Vec<_> =
            held.filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok()).collect();
        let deleted = held.iter().filter(|path| path.to_string_lossy().contains("(deleted)"));
        assert_eq!(deleted.count(), 0, "{held:?}");
    }
    drop(asking);
    assert!(staying.wait().unwrap().success());
    assert_eq!(acknowledged.len(), 120);
    assert_whole(dir.path(), &acknowledged).await;
}

#[tokio::test]
async fn processes_that_open_and_close_without_end_hinder_no_writer() {
    let dir = tempfile::tempdir().unwrap();
    let writers: Vec<_> =
        (0..2).map(|_| worker(dir.path(), &["create", "150"]).spawn().unwrap()).collect();
    let visitors: Vec<_> =
        (0..2).map(|_| worker(dir.path(), &["visit", "60"]).spawn().unwrap()).collect();
    for visitor in visitors {
        let output = visitor.wait_with_output().unwrap();
        assert!(output.status.success());
    }
    let mut acknowledged = BTreeSet::new();
    for writer in writers {
        let output = writer.wait_with_output().unwrap();
        assert!(output.status.success());
        let said = String::from_utf8(output.stdout).unwrap();
        acknowledged.extend(said.lines().map(str::to_owned));
    }
    assert_eq!(acknowledged.len(), 300);
    assert_whole(dir.path(), &acknowledged).await;
}

#[tokio::test]
async fn stores_of_one_process_that_open_and_close_the_same_file_keep_their_locks() {
    let dir = tempfile::tempdir().unwrap();
    let file = testing::file(dir.path());
    let staying = SqliteStore::open(&file, Options::default()).await.unwrap();
    let mut acknowledged = BTreeSet::new();
    for _ in 0..3 {
        let task = testing::task("ours");
        let mut write = staying.write().await.unwrap();
        write.insert_tasks(std::slice::from_ref(&task)).await.unwrap();
        write.commit().await.unwrap();
        // Another store of this process comes and goes, and one that makes
        // sure that the file is there.
        let brief = SqliteStore::open(&file, Options::default()).await.unwrap();
        brief.read().await.unwrap().count(&Query::default()).await.unwrap();
        brief.close().await.unwrap();
        let guest = worker(dir.path(), &["create", "5"]).output().unwrap();
        let said = String::from_utf8(guest.stdout).unwrap();
        acknowledged.extend(said.lines().map(str::to_owned));
        acknowledged.insert(task.id.to_string());
    }
    let counted = staying.read().await.unwrap().count(&Query::default()).await.unwrap();
    assert_eq!(counted, 18);
    assert_eq!(acknowledged.len(), 18);
    staying.close().await.unwrap();
}
