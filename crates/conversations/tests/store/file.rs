use std::path::Path;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, Executor as _};
use vestal_conversations::{Error, SCHEMA_VERSION, Store};
use vestal_database::Error as FileError;

use crate::{begin, place, seen, user};

async fn execute(path: &Path, text: &'static str) {
    let options = SqliteConnectOptions::new().filename(path).create_if_missing(true);
    let mut connection = options.connect().await.unwrap();
    connection.execute(text).await.unwrap();
    connection.close().await.unwrap();
}

/// Returns all files of a directory with their bytes.
fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
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
async fn what_was_said_is_there_when_the_file_is_opened_again() {
    let place = place().await;
    let id = begin(&place).await;
    place.append(&id, &[user("a")]).await.unwrap();
    let path = place.path().to_owned();
    place.store.clone().close().await.unwrap();
    // All is in the one file once nobody uses it.
    assert_eq!(files(place.dir.path()).len(), 1);
    let again = Store::open(&path).await.unwrap();
    assert_eq!(seen(&again, &id).await, crate::expected(&[(1, "a")]));
}

#[tokio::test]
async fn looking_makes_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("home").join("state.db");
    assert!(Store::open_existing(&path).await.unwrap().is_none());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    Store::open(&path).await.unwrap();
    assert!(Store::open_existing(&path).await.unwrap().is_some());
}

#[tokio::test]
async fn a_file_of_a_newer_version_is_refused_and_not_touched() {
    let place = place().await;
    let id = begin(&place).await;
    place.append(&id, &[user("from the future")]).await.unwrap();
    execute(place.path(), "PRAGMA user_version = 7").await;
    // As a killed process leaves it, with its last writes in the log only.
    let (killed, closed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let copy = |to: &Path| {
        for name in ["state.db", "state.db-wal"] {
            let from = place.dir.path().join(name);
            if from.exists() {
                std::fs::copy(from, to.join(name)).unwrap();
            }
        }
    };
    copy(killed.path());
    place.store.clone().close().await.unwrap();
    copy(closed.path());

    for (dir, log) in [(killed.path(), true), (closed.path(), false)] {
        let path = dir.join("state.db");
        assert_eq!(dir.join("state.db-wal").exists(), log);
        let kept = |files: Vec<(String, Vec<u8>)>| -> Vec<_> {
            let ours = |name: &str| !name.ends_with("-shm") && (log || !name.ends_with("-wal"));
            files.into_iter().filter(|(name, _)| ours(name)).collect()
        };
        let before = kept(files(dir));
        for opened in [Store::open(&path).await.map(Some), Store::open_existing(&path).await] {
            match opened {
                Err(
                    error @ Error::Database(FileError::Newer {
                        found: 7,
                        supported: SCHEMA_VERSION,
                        ..
                    }),
                ) => {
                    let text = error.to_string();
                    assert!(text.contains("version 7") && text.contains("up to 1"), "{text}");
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
        "CREATE TABLE sessions (id TEXT)",
        "CREATE TABLE sessions (id TEXT); PRAGMA user_version = 22",
        "PRAGMA user_version = 1; PRAGMA application_id = 5",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.db");
        execute(&path, text).await;
        let before = files(dir.path());
        let opened = Store::open(&path).await;
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
    let path = dir.path().join("state.db");
    std::fs::write(&path, "once upon a time ".repeat(1000)).unwrap();
    let before = files(dir.path());
    let opened = Store::open(&path).await;
    assert!(matches!(opened, Err(Error::Database(FileError::Damaged { .. }))), "{opened:?}");
    assert_eq!(files(dir.path()), before);
}

#[tokio::test]
async fn a_damaged_page_is_said_and_does_not_crash() {
    let place = place().await;
    let id = begin(&place).await;
    let many: Vec<_> =
        (0..200).map(|number| user(&format!("{number} {}", "x".repeat(500)))).collect();
    place.append(&id, &many).await.unwrap();
    let path = place.path().to_owned();
    place.store.close().await.unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let length = bytes.len();
    bytes[4096 * 3..length].fill(0xa5);
    std::fs::write(&path, bytes).unwrap();
    let outcome = match Store::open(&path).await {
        Ok(store) => store.messages(&id).await.map(|_| ()),
        Err(error) => Err(error),
    };
    assert!(matches!(outcome, Err(Error::Database(FileError::Damaged { .. }))), "{outcome:?}");
}

#[tokio::test]
async fn an_empty_file_is_a_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.db");
    std::fs::write(&path, "").unwrap();
    let store = Store::open(&path).await.unwrap();
    begin(&store).await;
}

#[tokio::test]
async fn where_no_file_can_be_made_the_error_names_the_place() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    let path = dir.path().join("file").join("state.db");
    let error = Store::open(&path).await.unwrap_err();
    assert!(matches!(error, Error::Database(FileError::Io { .. })), "{error:?}");
    assert!(error.to_string().contains("file/state.db"), "{error}");
    // A directory in its place.
    let error = Store::open(dir.path()).await.unwrap_err();
    assert!(matches!(error, Error::Database(FileError::Access { .. })), "{error:?}");
}

#[tokio::test]
async fn a_file_without_a_log_gets_one() {
    let place = place().await;
    let path = place.path().to_owned();
    place.store.close().await.unwrap();
    execute(&path, "PRAGMA journal_mode = DELETE").await;
    let store = Store::open(&path).await.unwrap();
    begin(&store).await;
    assert!(path.with_extension("db-wal").exists());
}
