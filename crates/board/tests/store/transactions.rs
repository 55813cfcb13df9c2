//! Opening the file, and transactions.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use vestal_board::store::{BoardStore as _, SqliteOptions, SqliteStore};
use vestal_board::testing::{BEGINNING, task};
use vestal_board::{Error, Task};
use vestal_database::Error as FileError;
use vestal_testkit::files::files;
use vestal_testkit::sqlite::execute;

use crate::{add, change, get, open, place};

#[tokio::test]
async fn looking_makes_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("boards").join("kanban.db");
    let found = SqliteStore::open_existing(&path, SqliteOptions::default()).await.unwrap();
    assert!(found.is_none());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    open(&path).await.unwrap().close().await.unwrap();
    let found = SqliteStore::open_existing(&path, SqliteOptions::default()).await.unwrap();
    assert!(found.is_some());
}

#[tokio::test]
async fn a_database_of_something_else_is_refused_and_not_touched() {
    for text in [
        "CREATE TABLE tasks (id TEXT)",
        "CREATE TABLE tasks (id TEXT); PRAGMA user_version = 1",
        "PRAGMA user_version = 1; PRAGMA application_id = 5",
        "PRAGMA user_version = -1; PRAGMA application_id = 1450407490",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kanban.db");
        execute(&path, text).await;
        let before = files(dir.path());
        let opened = open(&path).await;
        assert!(
            matches!(opened, Err(Error::Database(FileError::Foreign { .. }))),
            "{text}: {opened:?}"
        );
        assert_eq!(files(dir.path()), before);
    }
}

#[tokio::test]
async fn what_is_not_committed_did_not_happen() {
    let place = place().await;
    let lost = task("lost");
    let mut write = place.write().await.unwrap();
    write.insert_tasks(std::slice::from_ref(&lost)).await.unwrap();
    write.comment(&lost.id, "ada", "well").await.unwrap();
    assert!(write.task(&lost.id).await.unwrap().is_some());
    drop(write);
    assert_eq!(get(&place, &lost.id).await, None);
    assert_eq!(place.read().await.unwrap().lanes().await.unwrap(), []);
    // The next one begins at once, on a clean sheet.
    add(&place, &lost).await;
    assert!(get(&place, &lost.id).await.is_some());
}

#[tokio::test]
async fn a_transaction_that_fails_in_the_middle_leaves_nothing() {
    let place = place().await;
    let (one, two) = (task("one"), task("two"));
    let mut write = place.write().await.unwrap();
    write.insert_tasks(std::slice::from_ref(&one)).await.unwrap();
    assert!(write.link(&one.id, &two.id).await.is_err());
    drop(write);
    assert_eq!(get(&place, &one.id).await, None);
}

#[tokio::test]
async fn a_transaction_in_which_something_failed_cannot_be_committed() {
    let place = place().await;
    let (one, two) = (task("one"), task("two"));
    let mut write = place.write().await.unwrap();
    write.insert_tasks(std::slice::from_ref(&one)).await.unwrap();
    // The database refuses a link to a task that is not there, and alone would
    // continue.
    assert!(write.link(&one.id, &two.id).await.is_err());
    assert!(write.commit().await.is_err());
    assert_eq!(get(&place, &one.id).await, None);
}

#[tokio::test]
async fn what_was_added_before_a_task_that_cannot_be_is_not_forgotten() {
    let place = place().await;
    let path = OsStr::from_bytes(b"/srv/\xff").into();
    let odd = Task { workspace: vestal_board::TaskWorkspace::Dir { path }, ..task("odd") };
    let good = task("good");
    let mut write = place.write().await.unwrap();
    write.insert_tasks(std::slice::from_ref(&good)).await.unwrap();
    assert!(write.insert_tasks(&[odd]).await.is_err());
    write.commit().await.unwrap();
    assert!(get(&place, &good.id).await.is_some());
}

#[tokio::test]
async fn a_call_that_is_abandoned_half_way_leaves_nothing_and_hinders_nobody() {
    let place = place().await;
    let many: Vec<Task> = (0..2_000).map(|number| task(&number.to_string())).collect();
    let mut write = place.write().await.unwrap();
    // Polled once, and dropped while the database is at it.
    let inserting = write.insert_tasks(&many);
    assert!(tokio::time::timeout(Duration::ZERO, inserting).await.is_err());
    drop(write);
    let next = task("next");
    add(&place, &next).await;
    let query = vestal_board::store::TaskQuery::default();
    assert_eq!(place.read().await.unwrap().count(&query).await.unwrap(), 1);
}

#[tokio::test]
async fn a_reader_sees_the_board_at_one_moment() {
    let place = place().await;
    let first = task("before");
    add(&place, &first).await;
    let mut read = place.read().await.unwrap();
    assert_eq!(read.task(&first.id).await.unwrap().unwrap().title, "before");
    place.advance(Duration::from_secs(5));
    change(&place, &first, &Task { title: "after".to_owned(), ..first.clone() }).await;
    assert_eq!(read.task(&first.id).await.unwrap().unwrap().title, "before");
    assert_eq!(read.now(), BEGINNING);
    drop(read);
    let mut read = place.read().await.unwrap();
    assert_eq!(read.task(&first.id).await.unwrap().unwrap().title, "after");
    assert_eq!(read.now(), BEGINNING.after(Duration::from_secs(5)));
}

#[tokio::test]
async fn more_readers_than_there_are_connections_all_get_their_turn() {
    let place = place().await;
    add(&place, &task("one")).await;
    let mut reading = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let board = place.board().clone();
        reading.spawn(async move {
            let mut read = board.read().await.unwrap();
            read.count(&vestal_board::store::TaskQuery::default()).await.unwrap()
        });
    }
    assert_eq!(reading.join_all().await, [1; 50]);
}

#[tokio::test]
async fn writers_of_one_process_take_turns() {
    let place = place().await;
    let counter = task("0");
    add(&place, &counter).await;
    let other = place.from_host("other").await.unwrap();
    let mut counting = tokio::task::JoinSet::new();
    for number in 0..40 {
        // Half of them through another store of the same file.
        let board = if number % 2 == 0 { place.board().clone() } else { other.clone() };
        let id = counter.id.clone();
        counting.spawn(async move {
            let mut write = board.write().await.unwrap();
            let before = write.task(&id).await.unwrap().unwrap();
            let next = before.title.parse::<u32>().unwrap() + 1;
            let after = Task { title: next.to_string(), ..before.clone() };
            write.update_task(&before, &after).await.unwrap();
            write.commit().await.unwrap();
        });
    }
    counting.join_all().await;
    assert_eq!(get(&place, &counter.id).await.unwrap().title, "40");
}

#[tokio::test]
async fn a_closed_board_says_so() {
    let place = place().await;
    let kept = task("kept");
    add(&place, &kept).await;
    place.close().await.unwrap();
    place.close().await.unwrap();
    assert!(matches!(
        place.read().await.map(|_| ()),
        Err(Error::Database(FileError::Access { .. }))
    ));
    assert!(matches!(
        place.write().await.map(|_| ()),
        Err(Error::Database(FileError::Access { .. }))
    ));
    // All is in the one file once nobody uses it.
    let files = std::fs::read_dir(place.path()).unwrap().count();
    assert_eq!(files, 1);
    let again = place.from_host("here").await.unwrap();
    assert!(get(&again, &kept.id).await.is_some());
}
