//! One dashboard per home: the right to be it, where it is, and how it is ended.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use jiff::Timestamp;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use vestal_process::ProcessId;

/// The version of the file.
const VERSION: u32 = 1;

/// What a dashboard says about itself, in `run/dashboard.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DashboardState {
    version: u32,
    /// Its process.
    pub process: ProcessId,
    /// The address it listens on.
    pub address: SocketAddr,
    /// Where browsers find it.
    pub url: String,
    /// Since when.
    pub started_at: String,
    /// Whether everybody who reaches it may do everything.
    pub insecure: bool,
}

/// Why there is no dashboard.
#[derive(Debug, thiserror::Error)]
pub enum InstanceError {
    /// Another process is it.
    #[error("the dashboard of this home runs already{}", .0.as_ref().map(|state| format!(" at {}", state.url)).unwrap_or_default())]
    AlreadyRunning(Option<Box<DashboardState>>),
    /// A file of the home cannot be used.
    #[error("use {}: {source}", path.display())]
    Home {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
}

/// The right to be the dashboard of a home. It ends with the process, whatever ends that.
#[derive(Debug)]
pub struct DashboardInstance {
    run: PathBuf,
    /// The file is never removed, since a lock on a removed file would let a second one in.
    _lock: File,
}

impl DashboardInstance {
    /// Becomes the dashboard of a home, whose directory for running things this is.
    pub fn claim(run: &Path) -> Result<Self, InstanceError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| InstanceError::Home { path, source }
        };
        DirBuilder::new().recursive(true).mode(0o700).create(run).map_err(failed(run))?;
        let path = lock_path(run);
        let lock = open_lock(&path).map_err(failed(&path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(InstanceError::AlreadyRunning(find_instance(run).map(Box::new)));
            }
            Err(TryLockError::Error(source)) => return Err(failed(&path)(source)),
        }
        Ok(Self { run: run.to_owned(), _lock: lock })
    }

    /// Records where it listens.
    pub(crate) fn announce(
        &self,
        address: SocketAddr,
        url: &str,
        insecure: bool,
    ) -> Result<(), InstanceError> {
        let path = state_path(&self.run);
        let write = || -> io::Result<()> {
            let state = DashboardState {
                version: VERSION,
                process: ProcessId::current()?,
                address,
                url: url.to_owned(),
                started_at: Timestamp::now().to_string(),
                insecure,
            };
            let next = path.with_extension("json.next");
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&next)?;
            file.write_all(&serde_json::to_vec(&state)?)?;
            std::fs::rename(&next, &path)
        };
        write().map_err(|source| InstanceError::Home { path: path.clone(), source })
    }
}

impl Drop for DashboardInstance {
    fn drop(&mut self) {
        let path = state_path(&self.run);
        if let Err(error) = std::fs::remove_file(&path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::debug!(%error, "the state of the dashboard stays behind");
        }
    }
}

/// Finds the dashboard of a home that runs. What a dead one left behind is not found.
pub fn find_instance(run: &Path) -> Option<DashboardState> {
    let state = std::fs::read(state_path(run)).ok()?;
    let state: DashboardState = serde_json::from_slice(&state).ok()?;
    (state.version == VERSION && state.process.is_alive()).then_some(state)
}

/// What became of a dashboard that was to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopOutcome {
    /// There was none.
    NotRunning,
    /// It has ended.
    Stopped,
    /// It was told, and still runs.
    StillRunning,
}

/// Ends the dashboard of a home and waits for that.
#[boxed]
pub async fn stop_instance(run: &Path, timeout: Duration) -> io::Result<StopOutcome> {
    let Some(state) = find_instance(run) else { return Ok(StopOutcome::NotRunning) };
    let raw = i32::try_from(state.process.pid).ok().and_then(Pid::from_raw);
    let Some(pid) = raw else { return Ok(StopOutcome::NotRunning) };
    let fd = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(fd) => fd,
        Err(rustix::io::Errno::SRCH) => return Ok(StopOutcome::NotRunning),
        Err(error) => return Err(error.into()),
    };
    // The descriptor is bound to the process that had the number when it was opened; only now it is
    // known that this is the dashboard.
    let Some(handle) = state.process.handle()? else { return Ok(StopOutcome::NotRunning) };
    pidfd_send_signal(&fd, Signal::INT)?;
    let ended = handle.ended_within(timeout).await?;
    Ok(if ended { StopOutcome::Stopped } else { StopOutcome::StillRunning })
}

fn lock_path(run: &Path) -> PathBuf {
    run.join("dashboard.lock")
}

fn state_path(run: &Path) -> PathBuf {
    run.join("dashboard.json")
}

fn open_lock(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_has_one_dashboard_and_what_a_dead_one_left_is_not_found() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(find_instance(dir.path()), None);
        let first = DashboardInstance::claim(dir.path()).unwrap();
        first.announce("127.0.0.1:9119".parse().unwrap(), "http://127.0.0.1:9119", false).unwrap();
        let found = find_instance(dir.path()).unwrap();
        assert_eq!(found.process, ProcessId::current().unwrap());
        let second = DashboardInstance::claim(dir.path());
        let Err(InstanceError::AlreadyRunning(Some(state))) = second else {
            panic!("{second:?}");
        };
        assert_eq!(*state, found);
        drop(first);
        assert_eq!(find_instance(dir.path()), None);
        let process = ProcessId { start: found.process.start - 1, ..found.process.clone() };
        let left = serde_json::to_vec(&DashboardState { process, ..found }).unwrap();
        std::fs::write(state_path(dir.path()), left).unwrap();
        assert_eq!(find_instance(dir.path()), None, "its number is another process's now");
        DashboardInstance::claim(dir.path()).unwrap();
    }
}
