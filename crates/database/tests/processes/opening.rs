//! Opening a file: created, found, refused.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use vestal_database::Error;
use vestal_testkit::files::files;
use vestal_testkit::sqlite::execute;

use crate::lines::Lines;

fn place() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lines.db");
    (dir, path)
}

#[tokio::test]
async fn looking_makes_no_file() {
    let (dir, _) = place();
    let path = dir.path().join("home").join("lines.db");
    assert!(Lines::open_existing(&path).await.unwrap().is_none());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    Lines::open(&path).await.unwrap().close().await.unwrap();
    assert!(Lines::open_existing(&path).await.unwrap().is_some());
}

#[tokio::test]
async fn a_file_of_a_newer_version_is_refused_and_not_touched() {
    let (dir, path) = place();
    let mut lines = Lines::open(&path).await.unwrap();
    lines.add("from the future").await.unwrap();
    execute(&path, "PRAGMA user_version = 7").await;
    // As a killed process leaves it, with its last writes in the log only.
    let (killed, closed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let copy = |to: &Path| {
        for name in ["lines.db", "lines.db-wal"] {
            let from = dir.path().join(name);
            if from.exists() {
                std::fs::copy(from, to.join(name)).unwrap();
            }
        }
    };
    copy(killed.path());
    lines.close().await.unwrap();
    copy(closed.path());

    for (dir, log) in [(killed.path(), true), (closed.path(), false)] {
        let path = dir.join("lines.db");
        assert_eq!(dir.join("lines.db-wal").exists(), log);
        let kept = |files: BTreeMap<String, Vec<u8>>| -> Vec<_> {
            let ours = |name: &str| !name.ends_with("-shm") && (log || !name.ends_with("-wal"));
            files.into_iter().filter(|(name, _)| ours(name)).collect()
        };
        let before = kept(files(dir));
        for opened in [Lines::open(&path).await.map(Some), Lines::open_existing(&path).await] {
            match opened {
                Err(error @ Error::Newer { found: 7, supported: 1, .. }) => {
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
async fn a_database_of_another_program_is_refused_and_not_touched() {
    for text in [
        "CREATE TABLE lines (id TEXT)",
        "CREATE TABLE lines (id TEXT); PRAGMA user_version = 22",
        "PRAGMA user_version = 1; PRAGMA application_id = 5",
        "PRAGMA user_version = -1; PRAGMA application_id = 1952805748",
    ] {
        let (dir, path) = place();
        execute(&path, text).await;
        let before = files(dir.path());
        let opened = Lines::open(&path).await;
        assert!(matches!(opened, Err(Error::Foreign { .. })), "{text}: {opened:?}");
        assert_eq!(files(dir.path()), before);
    }
}

#[tokio::test]
async fn what_is_no_database_is_called_damaged_and_not_touched() {
    let (dir, path) = place();
    std::fs::write(&path, "once upon a time ".repeat(1000)).unwrap();
    let before = files(dir.path());
    let opened = Lines::open(&path).await;
    assert!(matches!(opened, Err(Error::Damaged { .. })), "{opened:?}");
    assert_eq!(files(dir.path()), before);
}

#[tokio::test]
async fn a_damaged_page_is_reported_when_it_is_read_or_written() {
    let (_dir, path) = place();
    let mut lines = Lines::open(&path).await.unwrap();
    for number in 0..200 {
        lines.add(&format!("{number} {}", "x".repeat(500))).await.unwrap();
    }
    lines.close().await.unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[4096 * 3..].fill(0xa5);
    std::fs::write(&path, bytes).unwrap();
    let mut lines = Lines::open(&path).await.unwrap();
    let read = lines.numbers().await;
    assert!(matches!(read, Err(Error::Damaged { .. })), "{read:?}");
    let added = lines.add("more").await;
    assert!(matches!(added, Err(Error::Damaged { .. })), "{added:?}");
}

#[tokio::test]
async fn an_empty_file_is_a_new_one() {
    let (_dir, path) = place();
    std::fs::write(&path, "").unwrap();
    assert_eq!(Lines::open(&path).await.unwrap().add("first").await.unwrap(), 1);
}

#[tokio::test]
async fn where_no_file_can_be_created_the_error_names_the_path() {
    let (dir, _) = place();
    std::fs::write(dir.path().join("file"), "").unwrap();
    let error = Lines::open(&dir.path().join("file").join("lines.db")).await.unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error:?}");
    assert!(error.to_string().contains("file/lines.db"), "{error}");
    // A directory in its place.
    let error = Lines::open(dir.path()).await.unwrap_err();
    assert!(matches!(error, Error::Access { .. }), "{error:?}");
}

#[tokio::test]
async fn a_file_without_a_log_gets_one() {
    let (_dir, path) = place();
    Lines::open(&path).await.unwrap().close().await.unwrap();
    execute(&path, "PRAGMA journal_mode = DELETE").await;
    let mut lines = Lines::open(&path).await.unwrap();
    lines.add("logged").await.unwrap();
    assert!(path.with_extension("db-wal").exists());
}
