//! Hearing of changes.

use std::time::Duration;

use vestal_board::store::{Changes, Clock};
use vestal_board::testing::{self, task};
use vestal_board::{Board, Error};
use vestal_database::Error as FileError;
use vestal_testkit::TEST_TIMEOUT;

use crate::{add, place};

/// Waits until a task is there, looking only when there is word of a change.
async fn hear(changes: &mut dyn Changes, board: &Board, id: &vestal_board::TaskId) {
    let heard = async {
        while crate::get(board, id).await.is_none() {
            changes.next().await.unwrap();
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, heard).await.unwrap();
}

/// Waits until there is no more word of earlier changes.
async fn settle(changes: &mut dyn Changes) {
    while tokio::time::timeout(Duration::from_millis(50), changes.next()).await.is_ok() {}
}

#[tokio::test]
async fn a_commit_of_any_process_is_noticed() {
    let place = place().await;
    let other = place.from_host("other").await.unwrap();
    let mut changes = place.changes().unwrap();
    for writer in [place.board(), &other] {
        settle(&mut *changes).await;
        let new = task("news");
        add(writer, &new).await;
        tokio::time::timeout(TEST_TIMEOUT, changes.next()).await.unwrap().unwrap();
        hear(&mut *changes, &place, &new.id).await;
    }
}

#[tokio::test]
async fn a_commit_between_two_calls_is_not_missed() {
    let place = place().await;
    let mut changes = place.changes().unwrap();
    for _ in 0..50 {
        let new = task("news");
        add(&place, &new).await;
        hear(&mut *changes, &place, &new.id).await;
    }
    // Nobody is listening while these come.
    for number in 0..50 {
        add(&place, &task(&number.to_string())).await;
    }
    tokio::time::timeout(TEST_TIMEOUT, changes.next()).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_listener_that_was_abandoned_while_it_waited_misses_nothing() {
    let place = place().await;
    let mut changes = place.changes().unwrap();
    settle(&mut *changes).await;
    let new = task("news");
    let adding = tokio::spawn({
        let (board, new) = (place.board().clone(), new.clone());
        async move { add(&board, &new).await }
    });
    // Abandoned again and again, at every possible moment.
    let heard = async {
        loop {
            let next = tokio::time::timeout(Duration::from_micros(50), changes.next()).await;
            if next.is_ok() && crate::get(&place, &new.id).await.is_some() {
                break;
            }
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, heard).await.unwrap();
    adding.await.unwrap();
}

#[tokio::test]
async fn reading_and_other_files_are_no_news() {
    let place = place().await;
    let known = task("known");
    add(&place, &known).await;
    let mut changes = place.changes().unwrap();
    settle(&mut *changes).await;
    let noise = async {
        for number in 0..20 {
            crate::get(&place, &known.id).await.unwrap();
            drop(place.write().await.unwrap());
            std::fs::write(place.path().join(format!("log {number}")), "noise").unwrap();
            tokio::task::yield_now().await;
        }
    };
    let heard = tokio::select! {
        _ = changes.next() => true,
        () = async { noise.await; tokio::time::sleep(Duration::from_millis(300)).await } => false,
    };
    assert!(!heard);
}

#[tokio::test]
async fn changes_are_heard_of_while_writers_come_and_go() {
    let place = place().await;
    let log = place.file().with_extension("db-wal");
    let mut changes = place.changes().unwrap();
    for _ in 0..3 {
        let writer = place.from_host("writer").await.unwrap();
        let new = task("news");
        add(&writer, &new).await;
        hear(&mut *changes, &place, &new.id).await;
        writer.close().await.unwrap();
        assert!(log.exists(), "it is removed by the last who uses it");
    }
}

#[tokio::test]
async fn a_listener_to_a_closed_board_is_notified() {
    let place = place().await;
    let mut changes = place.changes().unwrap();
    place.close().await.unwrap();
    let heard = tokio::time::timeout(TEST_TIMEOUT, changes.next()).await.unwrap();
    assert!(matches!(heard, Err(Error::Database(FileError::Access { .. }))), "{heard:?}");
}

#[tokio::test]
async fn a_listener_gets_an_error_when_the_board_is_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let board = testing::open(&dir.path().join("board"), "here", Clock::system()).await.unwrap();
    let mut changes = board.changes().unwrap();
    settle(&mut *changes).await;
    std::fs::remove_dir_all(dir.path().join("board")).unwrap();
    // The files go one by one, and each of them may be news of its own.
    let reported = async {
        loop {
            if let Err(error) = changes.next().await {
                return error;
            }
        }
    };
    let reported = tokio::time::timeout(TEST_TIMEOUT, reported).await.unwrap();
    assert!(matches!(reported, Error::Io { .. }), "{reported:?}");
}
