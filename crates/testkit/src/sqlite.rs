//! Database files, looked at and changed behind the program's back.

use std::path::Path;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, Executor as _, Row as _, SqliteConnection};

/// Carries out statements on a file, which is made if it is missing.
pub async fn execute(path: &Path, statements: &'static str) {
    let options = SqliteConnectOptions::new().filename(path).create_if_missing(true);
    let mut connection = options.connect().await.unwrap();
    connection.execute(statements).await.unwrap();
    connection.close().await.unwrap();
}

/// Asserts that a file is intact, and returns a connection to it.
pub async fn assert_intact(path: &Path) -> SqliteConnection {
    let mut connection = SqliteConnectOptions::new().filename(path).connect().await.unwrap();
    for pragma in ["PRAGMA integrity_check", "PRAGMA foreign_key_check"] {
        let rows = sqlx::query(pragma).fetch_all(&mut connection).await.unwrap();
        let found: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        assert!(found.is_empty() || found == ["ok"], "{pragma}: {found:?}");
    }
    connection
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    #[should_panic(expected = "PRAGMA foreign_key_check")]
    async fn a_row_without_its_parent_is_no_intact_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file.db");
        let statements = "CREATE TABLE a (id INTEGER PRIMARY KEY);
            CREATE TABLE b (a INTEGER REFERENCES a); INSERT INTO b VALUES (1)";
        let options = SqliteConnectOptions::new().filename(&path).create_if_missing(true);
        let mut careless = options.foreign_keys(false).connect().await.unwrap();
        careless.execute(statements).await.unwrap();
        assert_intact(&path).await;
    }
}
