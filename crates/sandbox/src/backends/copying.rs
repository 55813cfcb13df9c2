//! Copying trees of files with the copy program (`stage copy`): running it, and its
//! reports.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use serde::Deserialize;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::process::{Child, Command};
use vestal_wire::UserMapping;

use crate::backend::{BackendError, CopyTotals};
use crate::backends::guest_process::{nameless_file, spawn_retrying};
use crate::{Progress, ProgressSink};

/// Longest time for a cancelled copy to remove what it has made. Then it is killed,
/// and the caller removes the rest.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// Longest time without a report. There are many per second; the rest is for slow
/// disks.
const STALL_TIMEOUT: Duration = Duration::from_mins(5);

/// Time between two checks whether a process has exited.
const PAUSE: Duration = Duration::from_millis(2);

/// Longest line, and most of standard error, that is read.
const MAX_LINE: u64 = 64 << 10;

/// The user that copies.
#[derive(Debug, Clone)]
pub(crate) enum CopyingUser {
    /// This user.
    AsSelf,
    /// Root of a user namespace with these users, which may read the files of all of
    /// them and keep their owners.
    Among(UserMapping),
}

/// Copies the tree `from` to `to`, which does not exist yet. Messages call it `what`.
///
/// A failure leaves nothing behind. Dropping the future stops the copy before the
/// drop returns, and removes what was made unless that takes long; the caller removes
/// the rest. If this process dies, the copy ends by itself:
/// [`copies_ended`](crate::store::copies_ended) waits for that.
pub(crate) async fn copy(
    stage: &Path,
    how: &CopyingUser,
    from: &Path,
    to: &Path,
    what: &str,
    progress: &ProgressSink,
) -> Result<CopyTotals, BackendError> {
    let failed = || format!("copy {what}");
    let mut command = command(stage, how, from, to)?;
    let child = spawn_retrying(&mut command).await.map_err(BackendError::io(failed()))?;
    // Closes this process's copies of the descriptors.
    drop(command);
    let mut process = CopyProcess::new(child);
    let mut last = None;
    if let Some(stdout) = process.child.stdout.take() {
        let mut lines = BufReader::new(stdout);
        loop {
            let next = tokio::time::timeout(STALL_TIMEOUT, next_line(&mut lines)).await;
            let next = next.unwrap_or_else(|_| Err(stalled()));
            let Some(line) = next.map_err(BackendError::io(failed()))? else { break };
            match CopyReport::parse(&line) {
                Some(CopyReport::Progress { files, bytes, total }) => {
                    let what = what.to_owned();
                    progress.report(Progress::Copying { what, files, bytes, total });
                }
                Some(end) => last = Some(end),
                None => {}
            }
        }
    }
    let stderr = match process.child.stderr.take() {
        Some(stderr) => stderr_text(stderr).await,
        None => String::new(),
    };
    let status = process.end().await.map_err(BackendError::io(failed()))?;
    match last {
        Some(CopyReport::Done(copied)) if status.success() => {
            progress.report(copied.as_progress(what));
            Ok(copied)
        }
        Some(CopyReport::Failed(failure)) => Err(failure.explain(what, to)),
        _ => {
            let reason = if stderr.is_empty() { status.to_string() } else { stderr };
            Err(BackendError::Io { action: failed(), source: std::io::Error::other(reason) })
        }
    }
}

fn command(
    stage: &Path,
    how: &CopyingUser,
    from: &Path,
    to: &Path,
) -> Result<Command, BackendError> {
    let mut command = Command::new(stage);
    match how {
        CopyingUser::AsSelf => {
            command.stdin(Stdio::null());
        }
        CopyingUser::Among(users) => {
            let users = vestal_wire::encode(users)
                .map_err(std::io::Error::other)
                .and_then(|bytes| nameless_file("vestal-users", &bytes))
                .map_err(BackendError::io("prepare the users of the sandbox"))?;
            command.args(["within", "--plan-fd", "0", "--"]).arg(stage).stdin(users);
        }
    }
    // In a process group of its own it does not get signals of the terminal.
    command
        .args(["copy", "--with-caller"])
        .args([from, to])
        .env_clear()
        .current_dir("/")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    Ok(command)
}

fn stalled() -> std::io::Error {
    let message = format!("no progress for {} s", STALL_TIMEOUT.as_secs());
    std::io::Error::new(std::io::ErrorKind::TimedOut, message)
}

/// Returns the next line. A line that is too long comes in pieces, which are not
/// reports.
async fn next_line(lines: &mut (impl AsyncBufRead + Unpin)) -> std::io::Result<Option<String>> {
    let mut line = Vec::new();
    let count = lines.take(MAX_LINE).read_until(b'\n', &mut line).await?;
    Ok((count > 0).then(|| String::from_utf8_lossy(&line).into_owned()))
}

async fn stderr_text(stderr: impl AsyncRead + Unpin) -> String {
    let mut text = Vec::new();
    // An error here would hide the one that is reported.
    stderr.take(MAX_LINE).read_to_end(&mut text).await.ok();
    String::from_utf8_lossy(&text).trim().replace('\n', "; ")
}

/// The running copy program, which is stopped when it is dropped.
#[derive(Debug)]
struct CopyProcess {
    child: Child,
    /// Its process group, until it has exited.
    group: Option<Pid>,
}

impl CopyProcess {
    fn new(child: Child) -> Self {
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        Self { group: pid.and_then(Pid::from_raw), child }
    }

    async fn end(&mut self) -> std::io::Result<ExitStatus> {
        let status = self.child.wait().await;
        self.group = None;
        status
    }
}

impl Drop for CopyProcess {
    fn drop(&mut self) {
        let Some(group) = self.group else {
            return;
        };
        // The child has not been waited for, so its pid is still its own.
        kill_process_group(group, Signal::TERM).ok();
        if !wait_for_exit(group, STOP_TIMEOUT) {
            kill_process_group(group, Signal::KILL).ok();
            wait_for_exit(group, STOP_TIMEOUT);
        }
    }
}

/// Waits until a child has exited. The runtime reaps it.
fn wait_for_exit(child: Pid, within: Duration) -> bool {
    let deadline = Instant::now() + within;
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    loop {
        match waitid(WaitId::Pid(child), options) {
            Ok(None) => {}
            Ok(Some(_)) | Err(_) => return true,
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
}

const EPERM: i32 = 1;
const EACCES: i32 = 13;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
const EDQUOT: i32 = 122;

/// A line that the copy program prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CopyReport {
    /// Progress.
    Progress {
        /// Files copied so far.
        files: u64,
        /// Bytes copied so far.
        bytes: u64,
        /// Bytes in total, once known.
        total: Option<u64>,
    },
    /// The copy is complete.
    Done(CopyTotals),
    /// The copy failed.
    Failed(CopyFailure),
}

/// Why a copy failed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct CopyFailure {
    /// The failed action.
    action: String,
    /// The file concerned.
    path: Option<String>,
    /// The error number of the system.
    errno: Option<i32>,
    /// The whole message.
    message: String,
    /// What could not be removed afterwards.
    left: Option<String>,
}

#[derive(Debug, Deserialize)]
struct ProgressLine {
    #[serde(default)]
    done: bool,
    #[serde(default)]
    files: u64,
    #[serde(default)]
    bytes: u64,
    total: Option<u64>,
    error: Option<CopyFailure>,
}

impl CopyReport {
    /// Parses a line; `None` if it is not a report.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let ProgressLine { done, files, bytes, total, error } = serde_json::from_str(line).ok()?;
        Some(match error {
            Some(failure) => Self::Failed(failure),
            None if done => Self::Done(CopyTotals { files, bytes }),
            None => Self::Progress { files, bytes, total },
        })
    }
}

impl CopyFailure {
    /// Replaces paths inside a container with those of the host.
    pub(crate) fn with_host_paths(mut self, inside: &str, outside: &Path) -> Self {
        let outside = outside.to_string_lossy();
        let texts = [Some(&mut self.message), self.path.as_mut(), self.left.as_mut()];
        for text in texts.into_iter().flatten() {
            *text = text.replace(inside, &outside);
        }
        self
    }

    /// Returns the error for a copy of `what` to `to`, with advice.
    pub(crate) fn explain(self, what: &str, to: &Path) -> BackendError {
        let place = to.parent().unwrap_or(to).display();
        let path = self.path.as_deref().unwrap_or(what);
        let (problem, advice) = match self.errno {
            Some(ENOSPC) => (
                format!("there is no space for a copy of {what} in {place}"),
                format!(
                    "free space on that filesystem (`df -h {place}` and `df -i {place}` show how \
                     much there is; `vestal snapshots` lists what can be removed), then try again"
                ),
            ),
            Some(EDQUOT) => (
                format!("a copy of {what} in {place} exceeds this user's quota"),
                "remove files on that filesystem (`vestal snapshots` lists some that can be \
                 removed), or ask for a larger quota, then try again"
                    .to_owned(),
            ),
            Some(EROFS) => (
                format!("{what} cannot be copied to {place}: the filesystem is read-only"),
                "mount that filesystem writable, or use a home on another one".to_owned(),
            ),
            Some(EACCES) => (
                format!("{what} cannot be copied: this user has no permission for {path}"),
                format!(
                    "grant access (`chmod u+rwX` by its owner or root) or remove it; \
                     `ls -ld {path}` shows its owner"
                ),
            ),
            Some(EPERM) => (
                format!("{what} cannot be copied with its owners: {}", self.message),
                format!(
                    "only root can copy files of other users: take ownership of {path} (`chown`), \
                     remove it, or run this as root"
                ),
            ),
            Some(_) => {
                return BackendError::Io {
                    action: format!("copy {what}"),
                    source: std::io::Error::other(self.full_message()),
                };
            }
            // The files keep changing, so another attempt would fail as well.
            None => (
                format!("{what} cannot be copied: {}", self.message),
                format!(
                    "end the program outside the sandbox that writes to {path}, then try again"
                ),
            ),
        };
        let problem = match &self.left {
            Some(left) => format!("{problem}; {left} could not be removed"),
            None => problem,
        };
        BackendError::Advised { problem, advice }
    }

    fn full_message(&self) -> String {
        match &self.left {
            Some(left) => format!("{}; {left} could not be removed", self.message),
            None => self.message.clone(),
        }
    }
}

#[cfg(test)]
#[path = "copying_tests.rs"]
mod tests;
