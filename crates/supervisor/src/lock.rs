//! One supervisor per home: the lock it holds for life, and the record of who holds it.
//!
//! Nobody takes the lock to find out whether it is held: the holder is asked over its socket.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use vestal_process::ProcessId;

use crate::files;
use crate::state::{self, StateFileError, VERSION};

/// How long a supervisor waits for the lock. A command that writes a desired state while no
/// supervisor runs holds it for a moment.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
const AGAIN: Duration = Duration::from_millis(20);

/// Who keeps a supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Manager {
    /// Nobody: it was started by hand or by a command.
    None,
    /// Systemd, as a service.
    Systemd,
    /// A container, whose first process it is.
    Container,
    /// It is not a supervisor but a command that holds the lock for a moment.
    Command,
}

/// Who supervises a home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    version: u64,
    /// The process. In another container its pid is another one.
    pub process: ProcessId,
    /// The name of the machine or container.
    pub host: String,
    /// Since when, in RFC 3339.
    pub since: String,
    /// Who keeps it.
    pub manager: Manager,
}

impl Holder {
    /// Returns who holds, or last held, the lock.
    pub fn read(run_dir: &Path) -> Result<Option<Self>, StateFileError> {
        state::read(&record_path(run_dir))
    }

    fn current(manager: Manager) -> io::Result<Self> {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let (process, since) = (ProcessId::current()?, state::now());
        Ok(Self { version: VERSION, process, host, since, manager })
    }
}

/// Why the lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorLockError {
    /// Somebody else holds it.
    #[error("{} is supervised already{}", dir.display(), named(holder.as_deref()))]
    Held {
        /// The directory of the home's running processes.
        dir: PathBuf,
        /// Who holds it, if that is known.
        holder: Option<Box<Holder>>,
    },
    /// The file cannot be used.
    #[error("cannot lock {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The record cannot be written.
    #[error(transparent)]
    State(#[from] StateFileError),
}

fn named(holder: Option<&Holder>) -> String {
    match holder {
        Some(Holder { process, host, since, .. }) => {
            format!(" by process {} on {host}, since {since}", process.pid)
        }
        None => String::new(),
    }
}

/// The lock of a home. The system releases it when the process dies; the file stays for ever.
#[derive(Debug)]
pub(crate) struct HomeLock {
    _file: File,
    pub(crate) holder: Holder,
}

impl HomeLock {
    /// Takes the lock and records this process as its holder.
    pub(crate) async fn take(
        run_dir: &Path,
        manager: Manager,
    ) -> Result<Self, SupervisorLockError> {
        let path = run_dir.join("supervisor.lock");
        let failed = |source| SupervisorLockError::Io { path: path.clone(), source };
        files::make_dir(run_dir).map_err(failed)?;
        let mut options = files::private();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(&path).map_err(failed)?;
        let deadline = tokio::time::Instant::now() + LOCK_TIMEOUT;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(error)) => return Err(failed(error)),
                Err(TryLockError::WouldBlock) => {}
            }
            if tokio::time::Instant::now() >= deadline {
                // Its name helps people; that it is held is known without it.
                let holder = Holder::read(run_dir).ok().flatten().map(Box::new);
                return Err(SupervisorLockError::Held { dir: run_dir.into(), holder });
            }
            tokio::time::sleep(AGAIN).await;
        }
        let holder = Holder::current(manager).map_err(failed)?;
        state::write(&record_path(run_dir), &holder)?;
        Ok(Self { _file: file, holder })
    }
}

fn record_path(run_dir: &Path) -> PathBuf {
    run_dir.join("supervisor.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_second_holder_is_refused_with_the_name_of_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let first = HomeLock::take(dir.path(), Manager::None).await.unwrap();
        let refused = HomeLock::take(dir.path(), Manager::None).await.unwrap_err().to_string();
        let pid = std::process::id();
        assert!(refused.contains(&format!("by process {pid} on ")), "{refused}");
        drop(first);
        HomeLock::take(dir.path(), Manager::None).await.unwrap();
    }
}
