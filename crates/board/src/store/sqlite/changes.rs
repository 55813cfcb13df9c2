//! Notifications of changes made by any process.
//!
//! A commit by anybody writes to the log beside the file, which the system
//! reports. It does so before the commit can be seen; so then the database is
//! asked, a few times if need be, whether there is something new. While nobody
//! writes, nothing is asked.

use std::ffi::{CStr, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use rustix::fs::inotify::{Event, ReadFlags, WatchFlags};
use sqlx::{Executor as _, Row as _, SqliteConnection};
use vestal_process::FileChanges;

use super::store::explain;
use super::transaction::BoardConnections;
use crate::store::Changes;
use crate::{Error, Result};

/// How long after the last sign of a writer its commit is looked for. A disk
/// that takes longer to sync leaves it to the next sign.
const SETTLES: Duration = Duration::from_secs(30);
/// The first pause between two looks, which doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// The longest pause between two looks.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// Hears of changes.
pub(super) struct ChangeWatch {
    connections: Arc<BoardConnections>,
    signs: FileChanges,
    /// Names of the files that a commit writes to.
    names: [OsString; 2],
    reader: Option<SqliteConnection>,
    /// The version that the reader last saw; it is another one after every commit.
    seen: Option<i64>,
    /// When a writer last gave a sign that was not followed by a commit.
    stirred: Option<Instant>,
    pause: Duration,
}

impl ChangeWatch {
    pub(super) fn new(connections: Arc<BoardConnections>) -> Result<Self> {
        let path = connections.path().to_owned();
        let failed =
            |source: std::io::Error| Error::Io { action: "watch", path: path.clone(), source };
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        let dir = dir.unwrap_or_else(|| Path::new("."));
        let name = path.file_name().unwrap_or_default().to_owned();
        let mut log = name.clone();
        log.push("-wal");
        let signs = FileChanges::new().map_err(failed)?;
        // The directory is watched, not the log: that comes and goes.
        let what = WatchFlags::MODIFY
            | WatchFlags::CREATE
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::ONLYDIR;
        signs.watch(dir, what).map_err(failed)?;
        Ok(Self {
            connections,
            signs,
            names: [name, log],
            reader: None,
            seen: None,
            stirred: None,
            pause: FIRST_PAUSE,
        })
    }

    /// Asks the database whether there was a commit since it was last asked.
    async fn has_news(&mut self) -> Result<bool> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            None => self.reader.insert(self.connections.stranger().await?),
        };
        let row = reader.fetch_one("PRAGMA data_version").await;
        let version = row.and_then(|row| row.try_get::<i64, _>(0));
        let version = version.map_err(|error| explain(self.connections.path(), error))?;
        Ok(self.seen.replace(version) != Some(version))
    }

    /// Waits for a sign of a writer.
    async fn sign(&mut self) -> Result<()> {
        loop {
            let failed = |source| Error::Io {
                action: "watch",
                path: self.connections.path().to_owned(),
                source,
            };
            let (mut is_gone, mut ours) = (false, false);
            let note = |event: &Event<'_>| {
                let flags = event.events();
                let name = event.file_name().map(CStr::to_bytes);
                let [file, log] = self.names.each_ref().map(|own| Some(own.as_bytes()) == name);
                is_gone |= file && flags.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM);
                ours |= file || log || flags.contains(ReadFlags::QUEUE_OVERFLOW);
            };
            self.signs.next(Duration::ZERO, note).await.map_err(failed)?;
            if is_gone {
                return Err(failed(ErrorKind::NotFound.into()));
            }
            if ours {
                return Ok(());
            }
        }
    }
}

#[async_trait]
impl Changes for ChangeWatch {
    async fn next(&mut self) -> Result<()> {
        loop {
            if self.has_news().await? {
                // The sign may be of another commit that cannot be seen yet, so
                // it stands for the next time.
                self.pause = FIRST_PAUSE;
                return Ok(());
            }
            match self.stirred.filter(|since| since.elapsed() < SETTLES) {
                None => {
                    self.stirred = None;
                    self.sign().await?;
                    self.stirred = Some(Instant::now());
                    self.pause = FIRST_PAUSE;
                }
                Some(_) => {
                    let pause = self.pause;
                    self.pause = (pause * 2).min(LONGEST_PAUSE);
                    if let Ok(sign) = tokio::time::timeout(pause, self.sign()).await {
                        sign?;
                        self.stirred = Some(Instant::now());
                        self.pause = FIRST_PAUSE;
                    }
                }
            }
        }
    }
}
