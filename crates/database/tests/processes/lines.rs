//! A small store on this crate: numbered lines in one table.

use std::path::{Path, PathBuf};

use sqlx::{ConnectOptions as _, Connection as _, Executor as _, SqliteConnection};
use vestal_database::{
    Durability, Layout, Result, begin_write, explain, is_there, make, reader_options,
    writer_options,
};

/// The layout of the file, marked with `test`.
pub(crate) const LAYOUT: Layout = Layout {
    application: 0x7465_7374,
    steps: &["CREATE TABLE lines (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT NOT NULL)"],
};

/// A file of lines.
#[derive(Debug)]
pub(crate) struct Lines {
    path: PathBuf,
    writer: SqliteConnection,
}

impl Lines {
    /// Opens a file, creating it if needed.
    pub(crate) async fn open(path: &Path) -> Result<Self> {
        make(path)?;
        Self::prepare(path).await
    }

    /// Opens a file if it exists.
    pub(crate) async fn open_existing(path: &Path) -> Result<Option<Self>> {
        if !is_there(path)? {
            return Ok(None);
        }
        Self::prepare(path).await.map(Some)
    }

    async fn prepare(path: &Path) -> Result<Self> {
        let failed = |error| explain(path, error);
        let mut reader = reader_options(path).connect().await.map_err(failed)?;
        let is_current = LAYOUT.is_current(path, &mut reader).await?;
        reader.close().await.map_err(failed)?;
        let options = writer_options(path, Durability::Full);
        if !is_current {
            LAYOUT.upgrade(path, &options).await?;
        }
        let writer = options.connect().await.map_err(failed)?;
        Ok(Self { path: path.to_owned(), writer })
    }

    /// Begins to write; nobody else can until this is dropped.
    pub(crate) async fn begin(&mut self) -> Result<()> {
        begin_write(&mut self.writer, &self.path).await
    }

    /// Adds a line and returns its number, once it is stored.
    pub(crate) async fn add(&mut self, text: &str) -> Result<i64> {
        self.begin().await?;
        let adding = async {
            let insert = sqlx::query_scalar("INSERT INTO lines (text) VALUES (?) RETURNING id");
            let number = insert.bind(text.to_owned()).fetch_one(&mut self.writer).await?;
            self.writer.execute("COMMIT").await?;
            Ok(number)
        };
        adding.await.map_err(|error| explain(&self.path, error))
    }

    /// Returns the numbers of all lines.
    pub(crate) async fn numbers(&mut self) -> Result<Vec<i64>> {
        let read = sqlx::query_scalar("SELECT id FROM lines WHERE text <> '' ORDER BY id");
        read.fetch_all(&mut self.writer).await.map_err(|error| explain(&self.path, error))
    }

    /// Closes the file.
    pub(crate) async fn close(self) -> Result<()> {
        self.writer.close().await.map_err(|error| explain(&self.path, error))
    }
}
