//! The connections of a process to one file: one that writes, a few that read.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sqlx::{ConnectOptions as _, Connection as _, Executor as _, SqliteConnection};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};

use super::store::{self, Durability, explain};
use crate::{Error, Result};

/// Readers at once; more wait for one of them.
const READERS: u32 = 4;

/// The connections of a process to one file. Each is made when it is first
/// needed, and stays.
pub(super) struct BoardConnections {
    path: PathBuf,
    durability: Durability,
    writer: Arc<AsyncMutex<Option<SqliteConnection>>>,
    seats: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<SqliteConnection>>>,
    closed: AtomicBool,
}

impl BoardConnections {
    pub(super) fn new(path: &Path, durability: Durability) -> Self {
        Self {
            path: path.to_owned(),
            durability,
            writer: Arc::default(),
            seats: Arc::new(Semaphore::new(READERS as usize)),
            idle: Arc::default(),
            closed: AtomicBool::new(false),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the writer, once nobody else in this process has it.
    pub(super) async fn writer(&self) -> Result<ConnectionLease> {
        let mut slot = Arc::clone(&self.writer).lock_owned().await;
        self.check_open()?;
        let connection = match slot.take() {
            Some(connection) => connection,
            None => {
                let options = store::writer(&self.path, self.durability);
                options.connect().await.map_err(|error| explain(&self.path, error))?
            }
        };
        Ok(ConnectionLease { connection: Some(connection), home: Some(ReturnTo::Writer(slot)) })
    }

    /// Returns a reader, once one is free.
    pub(super) async fn reader(&self) -> Result<ConnectionLease> {
        let seat = Arc::clone(&self.seats).acquire_owned().await;
        let seat = seat.map_err(|_| self.is_closed())?;
        self.check_open()?;
        let free = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match free {
            Some(connection) => connection,
            None => self.stranger().await?,
        };
        let home = ReturnTo::Reader(seat, Arc::clone(&self.idle));
        Ok(ConnectionLease { connection: Some(connection), home: Some(home) })
    }

    /// Returns a reader that belongs to the caller.
    pub(super) async fn stranger(&self) -> Result<SqliteConnection> {
        self.check_open()?;
        let connected = store::reader(&self.path).connect().await;
        connected.map_err(|error| explain(&self.path, error))
    }

    fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::SeqCst) { Err(self.is_closed()) } else { Ok(()) }
    }

    fn is_closed(&self) -> Error {
        let reason = "it was closed".to_owned();
        vestal_database::Error::Access { path: self.path.clone(), reason }.into()
    }

    /// Closes all, once those at work are done.
    pub(super) async fn close(&self) -> Result<()> {
        self.closed.store(true, Ordering::SeqCst);
        // Who is at work has a seat, and gives it back with the connection.
        let seats = self.seats.acquire_many(READERS).await;
        let idle = std::mem::take(&mut *self.idle.lock().unwrap_or_else(PoisonError::into_inner));
        let mut outcome = Ok(());
        for reader in idle {
            outcome = outcome.and(reader.close().await);
        }
        drop(seats);
        self.seats.close();
        // The writer is the last: it can put the log into the file.
        if let Some(writer) = self.writer.lock().await.take() {
            outcome = outcome.and(writer.close().await);
        }
        outcome.map_err(|error| explain(&self.path, error))
    }
}

/// Where a connection goes back to.
enum ReturnTo {
    Writer(OwnedMutexGuard<Option<SqliteConnection>>),
    Reader(OwnedSemaphorePermit, Arc<Mutex<Vec<SqliteConnection>>>),
}

impl ReturnTo {
    fn take_back(self, connection: SqliteConnection) {
        match self {
            Self::Writer(mut slot) => *slot = Some(connection),
            Self::Reader(seat, idle) => {
                idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
                drop(seat);
            }
        }
    }
}

/// A connection in use. One that is dropped takes back what was done since its
/// transaction began, whatever it was doing.
pub(super) struct ConnectionLease {
    connection: Option<SqliteConnection>,
    home: Option<ReturnTo>,
}

impl ConnectionLease {
    /// Returns the connection.
    #[expect(clippy::expect_used, reason = "only `drop` and `give_back` take it, at the end")]
    pub(super) fn on(&mut self) -> &mut SqliteConnection {
        self.connection.as_mut().expect("a lease has its connection")
    }

    /// Gives back a connection that is in no transaction.
    pub(super) fn give_back(mut self) {
        if let (Some(connection), Some(home)) = (self.connection.take(), self.home.take()) {
            home.take_back(connection);
        }
    }
}

impl Drop for ConnectionLease {
    fn drop(&mut self) {
        let (Some(mut connection), Some(home)) = (self.connection.take(), self.home.take()) else {
            return;
        };
        // The thread of the connection does one thing after the other, so this
        // comes after whatever was still going on. Where it fails, or nothing
        // is left to run it, closing the connection does the same.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if connection.execute("ROLLBACK").await.is_ok() {
                    home.take_back(connection);
                }
            });
        }
    }
}
