//! Running the program that copies files, to the end or until nobody waits.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::process::{Child, Command};
use vestal_wire::Users;

use super::said::Said;
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

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
