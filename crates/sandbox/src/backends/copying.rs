//! Copying trees of files with the program that does so: running it, to the end or
//! until nobody waits; what it says, and what that means for people.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use serde::Deserialize;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::process::{Child, Command};
use vestal_wire::Users;

use crate::backend::{BackendError, CopyTotals};
use crate::backends::spawn::{nameless_file, spawn_retrying};
use crate::{Progress, ProgressSink};

/// How long a copy that nobody waits for may take to remove what it has made,
/// before it is killed and the rest is the caller's to remove.
const GRACE: Duration = Duration::from_secs(3);

/// How long a copy may say nothing. It tells how far it is many times a second;
/// the rest is for disks that are slow and busy.
const MOVES_WITHIN: Duration = Duration::from_mins(5);

/// Time between two looks at it meanwhile.
const PAUSE: Duration = Duration::from_millis(2);

/// Longest line that is read, and most of what is read of an error.
const MAX_LINE: u64 = 64 << 10;

/// As whom files are copied.
#[derive(Debug, Clone)]
pub(crate) enum How {
    /// As this user.
    AsSelf,
    /// As the root of these users, who may read what belongs to any of them and
    /// give it to whom it belongs.
    Among(Users),
}

/// Copies the tree `from` to `to`, where nothing is yet. People know it as `what`.
///
/// If it fails nothing is left. If the future is dropped, nothing writes to `to`
/// any more when that returns, and what was made is removed unless that takes
/// long; what is left then is the caller's to remove.
pub(crate) async fn copy(
    stage: &Path,
    how: &How,
    from: &Path,
    to: &Path,
    what: &str,
    progress: &ProgressSink,
) -> Result<CopyTotals, BackendError> {
    let failed = || format!("copy {what}");
    let mut command = command(stage, how, from, to)?;
    let child = spawn_retrying(&mut command).await.map_err(BackendError::io(failed()))?;
    // This process's copies of the descriptors close with the command.
    drop(command);
    let mut running = Running::new(child);
    let mut last = None;
    if let Some(stdout) = running.child.stdout.take() {
        let mut lines = BufReader::new(stdout);
        loop {
            let next = tokio::time::timeout(MOVES_WITHIN, next_line(&mut lines)).await;
            let next = next.unwrap_or_else(|_| Err(stalled()));
            let Some(line) = next.map_err(BackendError::io(failed()))? else { break };
            match Said::parse(&line) {
                Some(Said::Progress { files, bytes, total }) => {
                    let what = what.to_owned();
                    progress.tell(Progress::Copying { what, files, bytes, total });
                }
                Some(end) => last = Some(end),
                None => {}
            }
        }
    }
    let words = match running.child.stderr.take() {
        Some(stderr) => last_words(stderr).await,
        None => String::new(),
    };
    let status = running.end().await.map_err(BackendError::io(failed()))?;
    match last {
        Some(Said::Done(copied)) if status.success() => {
            progress.tell(copied.told(what));
            Ok(copied)
        }
        Some(Said::Refused(refusal)) => Err(refusal.explain(what, to)),
        _ => {
            let reason = if words.is_empty() { status.to_string() } else { words };
            Err(BackendError::Io { action: failed(), source: std::io::Error::other(reason) })
        }
    }
}

fn command(stage: &Path, how: &How, from: &Path, to: &Path) -> Result<Command, BackendError> {
    let mut command = Command::new(stage);
    match how {
        How::AsSelf => {
            command.stdin(Stdio::null());
        }
        How::Among(users) => {
            let users = vestal_wire::encode(users)
                .map_err(std::io::Error::other)
                .and_then(|bytes| nameless_file("vestal-users", &bytes))
                .map_err(BackendError::io("prepare the users of the sandbox"))?;
            command.args(["within", "--plan-fd", "0", "--"]).arg(stage).stdin(users);
        }
    }
    // Signals that a terminal sends to this process are not for it: it is told
    // by whoever waits for it.
    command
        .arg("copy")
        .args([from, to])
        .env_clear()
        .current_dir("/")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    Ok(command)
}

fn stalled() -> std::io::Error {
    let words = format!("it has not moved for {} s", MOVES_WITHIN.as_secs());
    std::io::Error::new(std::io::ErrorKind::TimedOut, words)
}

/// Returns the next line; what is too long to be one comes in pieces, which
/// mean nothing.
async fn next_line(lines: &mut (impl AsyncBufRead + Unpin)) -> std::io::Result<Option<String>> {
    let mut line = Vec::new();
    let count = lines.take(MAX_LINE).read_until(b'\n', &mut line).await?;
    Ok((count > 0).then(|| String::from_utf8_lossy(&line).into_owned()))
}

async fn last_words(stderr: impl AsyncRead + Unpin) -> String {
    let mut words = Vec::new();
    // What cannot be read is not worth another error.
    stderr.take(MAX_LINE).read_to_end(&mut words).await.ok();
    String::from_utf8_lossy(&words).trim().replace('\n', "; ")
}

/// The program while it runs, which is ended when nobody waits for it.
#[derive(Debug)]
struct Running {
    child: Child,
    /// Its process group, until it is known to have ended.
    group: Option<Pid>,
}

impl Running {
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

impl Drop for Running {
    fn drop(&mut self) {
        let Some(group) = self.group else {
            return;
        };
        // It is a child that nobody has waited for, so its number is its own.
        kill_process_group(group, Signal::TERM).ok();
        if !ends(group, GRACE) {
            kill_process_group(group, Signal::KILL).ok();
            ends(group, GRACE);
        }
    }
}

/// Waits until a child has ended, and leaves it to the runtime to collect it.
fn ends(child: Pid, within: Duration) -> bool {
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

/// A line that the program says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Said {
    /// How far it is.
    Progress {
        /// Files that are there.
        files: u64,
        /// Bytes that are there.
        bytes: u64,
        /// Bytes in all, once that is known.
        total: Option<u64>,
    },
    /// The copy is whole.
    Done(CopyTotals),
    /// There is no copy.
    Refused(Refusal),
}

/// Why there is no copy.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Refusal {
    /// What was tried.
    action: String,
    /// The file that it is about.
    path: Option<String>,
    /// What the system said.
    errno: Option<i32>,
    /// All of it in words.
    message: String,
    /// What could not be removed again.
    left: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Line {
    #[serde(default)]
    done: bool,
    #[serde(default)]
    files: u64,
    #[serde(default)]
    bytes: u64,
    total: Option<u64>,
    error: Option<Refusal>,
}

impl Said {
    /// Reads a line; nothing, if it is none of these.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let Line { done, files, bytes, total, error } = serde_json::from_str(line).ok()?;
        Some(match error {
            Some(refusal) => Self::Refused(refusal),
            None if done => Self::Done(CopyTotals { files, bytes }),
            None => Self::Progress { files, bytes, total },
        })
    }
}

impl Refusal {
    /// Puts the paths of the host in the place of those that the program saw.
    pub(crate) fn seen_as(mut self, inside: &str, outside: &Path) -> Self {
        let outside = outside.to_string_lossy();
        let texts = [Some(&mut self.message), self.path.as_mut(), self.left.as_mut()];
        for text in texts.into_iter().flatten() {
            *text = text.replace(inside, &outside);
        }
        self
    }

    /// Returns what a copy of `what` to `to` failed for, and what to do about it.
    pub(crate) fn explain(self, what: &str, to: &Path) -> BackendError {
        let place = to.parent().unwrap_or(to).display();
        let path = self.path.as_deref().unwrap_or(what);
        let (problem, advice) = match self.errno {
            Some(ENOSPC) => (
                format!("there is no room for a copy of {what} in {place}"),
                format!(
                    "make room on that filesystem (`df -h {place}` and `df -i {place}` say how \
                     much there is; `vestal snapshots` lists what can go), then try again"
                ),
            ),
            Some(EDQUOT) => (
                format!("a copy of {what} in {place} does not fit into this user's quota"),
                "remove files of yours on that filesystem (`vestal snapshots` lists some that \
                 can go), or ask for a larger quota, then try again"
                    .to_owned(),
            ),
            Some(EROFS) => (
                format!("{place} can only be read, so that {what} cannot be copied there"),
                "mount that filesystem for writing, or use a home on another one".to_owned(),
            ),
            Some(EACCES) => (
                format!("{what} cannot be copied: {path} is closed to this user"),
                format!(
                    "open it (`chmod u+rwX` by whom it belongs to, or by root) or remove it; \
                     `ls -ld {path}` says whose it is"
                ),
            ),
            Some(EPERM) => (
                format!("{what} cannot be copied as it is: {}", self.message),
                format!(
                    "what belongs to other users is copied by root only: give {path} to \
                     yourself (`chown`), remove it, or do this as root"
                ),
            ),
            Some(_) => {
                return BackendError::Io {
                    action: format!("copy {what}"),
                    source: std::io::Error::other(self.whole()),
                };
            }
            // Something about the files, which no second attempt changes.
            None => (
                format!("{what} cannot be copied: {}", self.message),
                format!("end what writes to {path} from outside of the sandbox, then try again"),
            ),
        };
        let problem = match &self.left {
            Some(left) => format!("{problem}; {left} could not be removed again"),
            None => problem,
        };
        BackendError::Advised { problem, advice }
    }

    fn whole(&self) -> String {
        match &self.left {
            Some(left) => format!("{}; {left} could not be removed again", self.message),
            None => self.message.clone(),
        }
    }
}

#[cfg(test)]
#[path = "copying_tests.rs"]
mod tests;
