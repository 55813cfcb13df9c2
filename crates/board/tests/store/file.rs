//! The file: made, found, refused.

use std::path::Path;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, Executor as _};
use vestal_board::Error;
use vestal_board::store::{Options, SCHEMA_VERSION, SqliteStore, Store as _};
use vestal_board::testing::task;
use vestal_database::Error as FileError;

use crate::{add, get, open, place};

async fn execute(path: &Path, text: &'static str) {
    let options = SqliteConnectOptions::new().filename(path).create_if_missing(true);
    let mut connection = options.connect().await.unwrap();
    connection.execute(text).await.unwrap();
    connection.close().await.unwrap();
}

/// Returns all files of a directory with their bytes.
fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let paths = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = paths
        .filter(|path| path.is_file())
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read(&path).unwrap())
        })
        .collect();
    files.sort();
    files
}

#[tokio::test]
async fn looking_makes_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("boards").join("kanban.db");
    let found = SqliteStore::open_existing(&path, Options::default()).await.unwrap();
    assert!(found.is_none());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    open(&path).await.unwrap().close().await.unwrap();
    let found = SqliteStore::open_existing(&path, Options::default()).await.unwrap();
    assert!(found.is_some());
}

#[tokio::test]
async fn a_file_of_a_newer_version_is_refused_and_not_touched() {
    let place = place().await;
    add(&place, &task("from the future")).await;
    execute(&place.file(), "PRAGMA user_version = 7").await;
    // As a killed process leaves it, with its last writes in the log only.
    let (killed, closed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let copy = |to: &Path| {
        for name in ["kanban.db", "kanban.db-wal"] {
            let from = place.path().join(name);
            if from.exists() {
                std::fs::copy(from, to.join(name)).unwrap();
            }
        }
    };
    copy(killed.path());
    place.close().await.unwrap();
    copy(closed.path());

    for (dir, log) in [(killed.path(), true), (closed.path(), false)] {
        let path = dir.join("kanban.db");
        assert_eq!(dir.join("kanban.db-wal").exists(), log);
        let kept = |files: Vec<(String, Vec<u8>)>| -> Vec<_> {
            let ours = |name: &str| !name.ends_with("-shm") && (log || !name.ends_with("-wal"));
            files.into_iter().filter(|(name, _)| ours(name)).collect()
        };
        let before = kept(files(dir));
        let existing = SqliteStore::open_existing(&path, Options::default()).await;
        for opened in [open(&path).await.map(Some), existing] {
            match opened {
                Err(
                    error @ Error::Database(FileError::Newer {
                        found: 7,
                        supported: SCHEMA_VERSION,
                        ..
                    }),
                ) => {
                    let text = error.to_string();
                    assert!(text.contains("version 7") && text.contains("newer vestal"), "{text}");
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(kept(files(dir)) == before, "a file was changed");
    }
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
async fn what_is_no_database_is_called_damaged_and_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kanban.db");
    std::fs::write(&path, "once upon a time ".repeat(1000)).unwrap();
    let before = files(dir.path());
    let opened = open(&path).await;
    assert!(matches!(opened, Err(Error::Database(FileError::Damaged { .. }))), "{opened:?}");
    assert_eq!(files(dir.path()), before);
}

#[tokio::test]
async fn a_damaged_page_is_said_and_does_not_crash() {
    let place = place().await;
    let tasks: Vec<_> = (0..300).map(|number| task(&"x".repeat(200 + number))).collect();
    crate::add_all(&place, &tasks).await;
    place.close().await.unwrap();
    let mut bytes = std::fs::read(place.file()).unwrap();
    let length = bytes.len();
    bytes[4096 * 25..length].fill(0xa5);
    std::fs::write(place.file(), bytes).unwrap();
    let board = place.from_host("here").await.unwrap();
    let mut read = board.read().await.unwrap();
    let listed = read.list(&vestal_board::store::Query::default()).await;
    assert!(
        matches!(listed, Err(Error::Database(FileError::Damaged { .. }))),
        "{:?}",
        listed.map(|list| list.len())
    );
    drop(read);
    let mut write = board.write().await.unwrap();
    let added = write.insert_tasks(&tasks).await;
    assert!(matches!(added, Err(Error::Database(FileError::Damaged { .. }))), "{added:?}");
}

#[tokio::test]
async fn an_empty_file_is_a_new_board() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("kanban.db"), "").unwrap();
    let place = vestal_board::testing::Place::new(dir).await.unwrap();
    let new = task("first");
    add(&place, &new).await;
    assert!(get(&place, &new.id).await.is_some());
}

#[tokio::test]
async fn where_no_file_can_be_made_the_error_names_the_place() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    let path = dir.path().join("file").join("kanban.db");
    let error = open(&path).await.unwrap_err();
    assert!(matches!(error, Error::Database(FileError::Io { .. })), "{error:?}");
    assert!(error.to_string().contains("file/kanban.db"), "{error}");
    // A directory in its place.
    let error = open(dir.path()).await.unwrap_err();
    assert!(matches!(error, Error::Database(FileError::Access { .. })), "{error:?}");
}

#[tokio::test]
async fn a_file_without_a_log_gets_one() {
    let place = place().await;
    place.close().await.unwrap();
    execute(&place.file(), "PRAGMA journal_mode = DELETE").await;
    let board = place.from_host("here").await.unwrap();
    add(&board, &task("logged")).await;
    assert!(place.file().with_extension("db-wal").exists());
}
