//! Starts a supervisor that outlives its parent, and the interface to its children.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use tokio::time::timeout;
use vestal_logs::{LogEntry, LogFiles};

use crate::files;

/// Size at which the log of detached supervisors is moved to `.1`.
const MAX_LOG: u64 = 1_000_000;
/// How much of the end of that log is shown after a failure.
const SHOWN: usize = 2000;

/// Returns the log of supervisors that were started detached, in the directory of logs.
pub fn detached_log_files(logs_dir: &Path) -> LogFiles {
    LogFiles::new(logs_dir.join("supervisor.log"), MAX_LOG, 1)
}

/// Why no supervisor was started.
#[derive(Debug, thiserror::Error)]
pub enum DetachError {
    /// It could not be started.
    #[error("cannot start a supervisor: {0}")]
    Io(#[from] io::Error),
    /// It ended before it was ready.
    #[error("the supervisor has ended at once{}", if .output.is_empty() { String::new() } else { format!(": {}", .output) })]
    Ended {
        /// Its output.
        output: String,
    },
    /// It takes too long.
    #[error("the supervisor is not ready after {} s; its log is {}", .after.as_secs(), .log.display())]
    Slow {
        /// How long it was waited for.
        after: Duration,
        /// Its log.
        log: PathBuf,
    },
}

/// Starts a program detached: in a group of its own, without a terminal, its messages in a log. It
/// must print one byte on standard output when it is ready, and is waited for until then.
#[boxed]
pub async fn start_detached(
    argv: &[OsString],
    env: &BTreeMap<OsString, OsString>,
    dir: &Path,
    log: &Path,
    limit: Duration,
) -> Result<(), DetachError> {
    let (program, arguments) =
        argv.split_first().ok_or_else(|| io::Error::other("there is no command"))?;
    if let Some(parent) = log.parent() {
        files::make_dir(parent)?;
    }
    if log.metadata().is_ok_and(|metadata| metadata.len() > MAX_LOG) {
        let mut full = log.as_os_str().to_owned();
        full.push(".1");
        std::fs::rename(log, full)?;
    }
    let messages = files::private().append(true).create(true).open(log)?;
    let before = messages.metadata()?.len();
    let (ready, to_ready) = io::pipe()?;
    let child = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(env)
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(to_ready)
        .stderr(messages)
        .process_group(0)
        .spawn()?;
    // It is the system's from now on.
    drop(child);
    let mut ready = Receiver::from_owned_fd(ready.into())?;
    match timeout(limit, ready.read(&mut [0])).await {
        Ok(Ok(1)) => Ok(()),
        Ok(Ok(_)) => Err(DetachError::Ended { output: output_since(log, before) }),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(DetachError::Slow { after: limit, log: log.into() }),
    }
}

fn output_since(log: &Path, before: u64) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    let begin = usize::try_from(before).unwrap_or(usize::MAX).min(bytes.len());
    let begin = begin.max(bytes.len().saturating_sub(SHOWN));
    let output = String::from_utf8_lossy(&bytes[begin..]);
    let message = |line: &str| match LogEntry::of_line(line) {
        Some(entry) => entry.message,
        None => line.to_owned(),
    };
    output.trim().lines().map(message).collect::<Vec<_>>().join("; ")
}

/// Announces that this process is ready, on the descriptor that `VESTAL_READY_FD` names.
pub fn announce_ready(descriptor: &str) -> io::Result<()> {
    let number: u32 = descriptor.parse().map_err(io::Error::other)?;
    let path = format!("/proc/self/fd/{number}");
    std::fs::OpenOptions::new().write(true).open(path)?.write_all(b"1")
}
