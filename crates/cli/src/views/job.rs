//! A job as JSON.

use serde::Serialize;
use vestal_wire::{Cause, JobInfo, JobState, SessionState};

use crate::console::text::timestamp;

/// One job, as `jobs`, `wait`, `kill` and `inspect` print it.
#[derive(Debug, Serialize)]
pub(crate) struct JobView {
    id: String,
    task: String,
    state: &'static str,
    exit_code: Option<u8>,
    /// Why it ended; a signal's number is in `signal`.
    cause: Option<&'static str>,
    signal: Option<i32>,
    command: String,
    session: Option<String>,
    cwd: String,
    background: bool,
    pty: bool,
    pid: Option<u32>,
    pid_start: Option<u64>,
    started_at: Option<String>,
    ended_at: Option<String>,
    duration_ms: Option<u64>,
    stdout_bytes: u64,
    stderr_bytes: u64,
    stdout_omitted: u64,
    stderr_omitted: u64,
    processes: u32,
    stdin_open: bool,
    session_state: &'static str,
}

impl JobView {
    pub(crate) fn new(task: &str, info: &JobInfo) -> Self {
        let exit = match info.state {
            JobState::Ended(exit) => Some(exit),
            JobState::Starting | JobState::Running => None,
        };
        Self {
            id: info.id.to_string(),
            task: task.to_owned(),
            state: state_word(&info.state),
            exit_code: exit.and_then(|exit| exit.code),
            cause: exit.map(|exit| cause_word(exit.cause)),
            signal: exit.and_then(|exit| match exit.cause {
                Cause::Signaled(signal) => Some(signal),
                _ => None,
            }),
            command: info.summary.clone(),
            session: info.session.clone(),
            cwd: String::from_utf8_lossy(&info.cwd).into_owned(),
            background: info.background,
            pty: info.pty,
            pid: info.pid,
            pid_start: info.pid_start,
            started_at: timestamp(info.started_ms).map(|time| time.to_string()),
            ended_at: info.ended_ms.and_then(timestamp).map(|time| time.to_string()),
            duration_ms: info.duration_us.map(|micros| micros / 1000),
            stdout_bytes: info.stdout_bytes,
            stderr_bytes: info.stderr_bytes,
            stdout_omitted: info.stdout_omitted,
            stderr_omitted: info.stderr_omitted,
            processes: info.processes,
            stdin_open: info.stdin_open,
            session_state: session_word(info.session_state),
        }
    }
}

/// Returns the word for a job's state.
pub(crate) fn state_word(state: &JobState) -> &'static str {
    match state {
        JobState::Starting => "starting",
        JobState::Running => "running",
        JobState::Ended(_) => "ended",
    }
}

pub(super) fn session_word(state: SessionState) -> &'static str {
    match state {
        SessionState::None => "none",
        SessionState::Saved => "saved",
        SessionState::Superseded => "superseded",
    }
}

fn cause_word(cause: Cause) -> &'static str {
    match cause {
        Cause::Exited => "exited",
        Cause::Signaled(_) => "signaled",
        Cause::TimedOut => "timed_out",
        Cause::Killed => "killed",
        Cause::Lost => "lost",
    }
}
