//! Reading a database of the other home: always a copy of it, made without opening the original as a
//! database, so that nothing appears beside it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use futures_util::TryStreamExt as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteRow};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Row as _, SqliteConnection};

use crate::source::{SourceHome, Unreadable};

/// How often a copy is made again because a checkpoint ran meanwhile.
const ATTEMPTS: u32 = 5;
/// The longest text that is taken over; of longer ones the beginning is.
pub(crate) const LONGEST: i64 = 8 << 20;

/// Why a database cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DatabaseProblem {
    #[error(transparent)]
    File(#[from] Unreadable),
    #[error("it is not a database")]
    NotADatabase,
    #[error("it is changed all the time; stop the program that uses it")]
    Busy,
    #[error("it has no table {0}")]
    NoTable(&'static str),
    #[error("{}", words(.0))]
    Sql(#[from] sqlx::Error),
}

impl From<io::Error> for DatabaseProblem {
    fn from(error: io::Error) -> Self {
        Self::File(error.into())
    }
}

/// Returns what the database says, without the path of the copy.
fn words(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::Database(error) => error.message().to_owned(),
        other => other.to_string(),
    }
}

/// A database as it was at one moment.
pub(crate) struct SourceDatabase {
    connection: SqliteConnection,
}

impl SourceDatabase {
    /// Copies a database and its log, and opens the copy; none where there is no such file.
    pub(crate) async fn open(
        home: &SourceHome,
        name: &str,
    ) -> Result<Option<Self>, DatabaseProblem> {
        let dir = home.copies()?;
        let copy = dir.path().join("copy.db");
        let mut copied = false;
        for _ in 0..ATTEMPTS {
            match copy_once(home, name, &copy)? {
                Copied::Whole => {
                    copied = true;
                    break;
                }
                Copied::Missing => return Ok(None),
                Copied::Overtaken => {}
            }
        }
        if !copied {
            return Err(DatabaseProblem::Busy);
        }
        let options = SqliteConnectOptions::new()
            .filename(&copy)
            .pragma("trusted_schema", "OFF")
            .disable_statement_logging();
        let mut connection = SqliteConnection::connect_with(&options).await?;
        // Into one file, which then needs no name any more: a process that dies leaves nothing.
        sqlx::query("PRAGMA locking_mode = EXCLUSIVE").execute(&mut connection).await?;
        sqlx::query("PRAGMA journal_mode = DELETE").execute(&mut connection).await?;
        drop(dir);
        Ok(Some(Self { connection }))
    }

    /// Returns the columns of a table.
    pub(crate) async fn columns(
        &mut self,
        table: &'static str,
    ) -> Result<BTreeSet<String>, DatabaseProblem> {
        let rows = sqlx::query("SELECT name FROM pragma_table_info(?)")
            .bind(table)
            .fetch_all(&mut self.connection)
            .await?;
        let names = rows.iter().map(|row| row.try_get::<String, _>(0));
        let names: BTreeSet<String> = names.collect::<Result<_, _>>()?;
        if names.is_empty() { Err(DatabaseProblem::NoTable(table)) } else { Ok(names) }
    }

    /// Returns the version of the layout that the file says it has.
    pub(crate) async fn schema_version(&mut self) -> Option<i64> {
        let text = "SELECT max(version) FROM schema_version";
        sqlx::query_scalar(text).fetch_one(&mut self.connection).await.ok()
    }

    /// Reads rows until the end or until something is damaged, and says which.
    pub(crate) async fn rows<T>(
        &mut self,
        query: String,
        binds: &[SqlParameter<'_>],
        mut read: impl FnMut(&SourceRow<'_>) -> Option<T>,
    ) -> (Vec<T>, Option<DatabaseProblem>) {
        let mut found = Vec::new();
        // Made of constants and of names of columns that were compared with constants.
        let mut query = sqlx::query::<sqlx::Sqlite>(AssertSqlSafe(query));
        for bind in binds {
            query = match bind {
                SqlParameter::Text(text) => query.bind((*text).to_owned()),
                SqlParameter::Number(number) => query.bind(*number),
            };
        }
        let mut rows = query.fetch(&mut self.connection);
        loop {
            match rows.try_next().await {
                Ok(Some(row)) => found.extend(read(&SourceRow(&row))),
                Ok(None) => return (found, None),
                Err(error) => return (found, Some(error.into())),
            }
        }
    }
}

/// A value of a query.
pub(crate) enum SqlParameter<'a> {
    Text(&'a str),
    Number(i64),
}

/// A row of which nothing is believed.
pub(crate) struct SourceRow<'r>(&'r SqliteRow);

impl SourceRow<'_> {
    /// Returns a text column that was selected by [`text`]; what is not UTF-8 is replaced.
    pub(crate) fn text(&self, column: &str) -> Option<String> {
        let bytes: Option<Vec<u8>> = self.0.try_get(column).ok()?;
        bytes.map(|bytes| match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        })
    }

    /// Returns a text that is not blank.
    pub(crate) fn filled(&self, column: &str) -> Option<String> {
        self.text(column).filter(|text| !text.trim().is_empty())
    }

    /// Returns a number that was selected by [`number`].
    pub(crate) fn number(&self, column: &str) -> Option<f64> {
        self.0.try_get::<Option<f64>, _>(column).ok().flatten().filter(|number| number.is_finite())
    }

    /// Returns a whole number.
    #[expect(clippy::cast_possible_truncation, reason = "it saturates")]
    pub(crate) fn int(&self, column: &str) -> Option<i64> {
        self.number(column).map(|number| number as i64)
    }
}

/// Returns what selects a column as a text, cut if it is too long; null where there is no such column.
pub(crate) fn text(columns: &BTreeSet<String>, name: &str) -> String {
    if columns.contains(name) {
        format!("substr(CAST(\"{name}\" AS BLOB), 1, {LONGEST}) AS \"{name}\"")
    } else {
        format!("NULL AS \"{name}\"")
    }
}

/// Returns what selects a column as a number; null where there is no such column.
pub(crate) fn number(columns: &BTreeSet<String>, name: &str) -> String {
    if columns.contains(name) {
        format!("CAST(\"{name}\" AS REAL) AS \"{name}\"")
    } else {
        format!("NULL AS \"{name}\"")
    }
}

enum Copied {
    Whole,
    Missing,
    Overtaken,
}

/// Copies the file, then its log. Both are of one moment unless the log was begun anew in between: until
/// then whatever a checkpoint writes into the file is in the log as well.
fn copy_once(home: &SourceHome, name: &str, copy: &Path) -> Result<Copied, DatabaseProblem> {
    let before = log_header(home, name)?;
    let Some(mut file) = home.open(name)? else { return Ok(Copied::Missing) };
    let mut head = [0_u8; 16];
    let empty = file.metadata()?.len() == 0;
    if !empty && (file.read_exact(&mut head).is_err() || &head != b"SQLite format 3\0") {
        return Err(DatabaseProblem::NotADatabase);
    }
    file.seek(SeekFrom::Start(0))?;
    let stamp = file.metadata()?.modified().ok();
    let size = io::copy(&mut file, &mut File::create(copy)?)?;
    for ending in ["-wal", "-journal"] {
        let beside = beside(copy, ending);
        match home.open(&format!("{name}{ending}")) {
            Ok(Some(mut file)) => drop(io::copy(&mut file, &mut File::create(&beside)?)?),
            Ok(None) => drop(std::fs::remove_file(&beside)),
            Err(error) => return Err(error.into()),
        }
    }
    let changed = file.metadata()?;
    let same_file = changed.len() == size && changed.modified().ok() == stamp;
    let same_log = before.is_some() && before == log_header(home, name)?;
    Ok(if same_file || same_log { Copied::Whole } else { Copied::Overtaken })
}

fn beside(path: &Path, ending: &str) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Returns the beginning of the log, which changes when the log is begun anew.
fn log_header(home: &SourceHome, name: &str) -> Result<Option<Vec<u8>>, DatabaseProblem> {
    let Some(file) = home.open(&format!("{name}-wal"))? else { return Ok(None) };
    let mut header = Vec::new();
    file.take(32).read_to_end(&mut header)?;
    Ok((!header.is_empty()).then_some(header))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use sqlx::Executor as _;

    use super::*;

    async fn writer(dir: &Path) -> SqliteConnection {
        let options = SqliteConnectOptions::new()
            .filename(dir.join("state.db"))
            .create_if_missing(true)
            .pragma("journal_mode", "WAL")
            .pragma("wal_autocheckpoint", "0");
        let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
        connection.execute("CREATE TABLE a (b TEXT)").await.unwrap();
        connection
    }

    fn names(dir: &Path) -> Vec<(PathBuf, u64)> {
        let entries = std::fs::read_dir(dir).unwrap().map(Result::unwrap);
        let mut names: Vec<_> =
            entries.map(|own| (own.path(), own.metadata().unwrap().len())).collect();
        names.sort();
        names
    }

    async fn values(database: &mut SourceDatabase) -> Vec<String> {
        let query = "SELECT CAST(b AS BLOB) AS b FROM a".to_owned();
        let (rows, problem) = database.rows(query, &[], |row| row.text("b")).await;
        assert!(problem.is_none(), "{problem:?}");
        rows
    }

    #[tokio::test]
    async fn what_is_only_in_the_log_of_a_running_program_is_read_and_nothing_appears_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let mut program = writer(dir.path()).await;
        program.execute("INSERT INTO a VALUES ('lamp')").await.unwrap();
        let before = names(dir.path());
        assert!(before.len() == 3, "{before:?}");
        let home = SourceHome { dir: dir.path().to_owned(), scratch: None };
        let mut database = SourceDatabase::open(&home, "state.db").await.unwrap().unwrap();
        assert_eq!(values(&mut database).await, ["lamp"]);
        // What is written later is another moment's.
        program.execute("INSERT INTO a VALUES ('horn')").await.unwrap();
        assert_eq!(values(&mut database).await, ["lamp"]);
        let after: Vec<PathBuf> = names(dir.path()).into_iter().map(|(name, _)| name).collect();
        assert_eq!(after, before.into_iter().map(|(name, _)| name).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_log_that_a_program_left_is_read_and_neither_removed_nor_put_into_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let left = tempfile::tempdir().unwrap();
        let mut program = writer(dir.path()).await;
        program.execute("INSERT INTO a VALUES ('lamp')").await.unwrap();
        for name in ["state.db", "state.db-wal"] {
            std::fs::copy(dir.path().join(name), left.path().join(name)).unwrap();
        }
        let before = names(left.path());
        let home = SourceHome { dir: left.path().to_owned(), scratch: None };
        let mut database = SourceDatabase::open(&home, "state.db").await.unwrap().unwrap();
        assert_eq!(values(&mut database).await, ["lamp"]);
        drop(database);
        assert_eq!(names(left.path()), before);
    }

    #[tokio::test]
    async fn a_file_that_is_no_database_is_reported_as_such() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("state.db"), "a text that is longer than a header").unwrap();
        let home = SourceHome { dir: dir.path().to_owned(), scratch: None };
        let opened = SourceDatabase::open(&home, "state.db").await;
        assert!(matches!(opened, Err(DatabaseProblem::NotADatabase)));
        assert!(SourceDatabase::open(&home, "kanban.db").await.unwrap().is_none());
    }
}
