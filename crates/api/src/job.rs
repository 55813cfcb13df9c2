//! Jobs: what `run`, `jobs`, `wait`, `kill` and `inspect` show.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vestal_sandbox::{
    Captured, CapturedOutput, Cause, JobId, JobInfo, JobState, Sandbox, SessionState, StateBefore,
};

/// How far a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobPhase {
    /// It is on record and its shell is being started.
    Starting,
    /// Its shell runs.
    Running,
    /// Its shell has ended.
    Ended,
}

impl JobPhase {
    /// Returns the word for it, as JSON has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Ended => "ended",
        }
    }
}

impl From<&JobState> for JobPhase {
    fn from(state: &JobState) -> Self {
        match state {
            JobState::Starting => Self::Starting,
            JobState::Running => Self::Running,
            JobState::Ended(_) => Self::Ended,
        }
    }
}

/// Why a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EndCause {
    /// Its shell ended by itself.
    Exited,
    /// A signal ended its shell.
    Signaled,
    /// Its time was up.
    TimedOut,
    /// It was killed on request.
    Killed,
    /// The sandbox ended while it ran.
    Lost,
}

impl From<Cause> for EndCause {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Exited => Self::Exited,
            Cause::Signaled(_) => Self::Signaled,
            Cause::TimedOut => Self::TimedOut,
            Cause::Killed => Self::Killed,
            Cause::Lost => Self::Lost,
        }
    }
}

/// What became of the state of a job's session: directory, variables, functions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionResult {
    /// There was none to keep.
    #[default]
    None,
    /// It is the session's from now on.
    Saved,
    /// A command that was started later had the last word.
    Superseded,
}

impl From<SessionState> for SessionResult {
    fn from(state: SessionState) -> Self {
        match state {
            SessionState::None => Self::None,
            SessionState::Saved => Self::Saved,
            SessionState::Superseded => Self::Superseded,
        }
    }
}

/// One job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobView {
    /// Its id: 1–64 of `a-z`, `0-9` and `-`, beginning with `j-`; ids sort by the time they were made.
    pub id: String,
    /// The task whose sandbox it is in.
    pub task: String,
    /// How far it is.
    pub state: JobPhase,
    /// Its exit code, once it has ended and that is known.
    pub exit_code: Option<u8>,
    /// Why it ended; a signal's number is in `signal`.
    pub cause: Option<EndCause>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The beginning of its command.
    pub command: String,
    /// The session it runs in.
    pub session: Option<String>,
    /// The directory its shell started or ended in.
    pub cwd: String,
    /// Whether it runs in the background.
    pub background: bool,
    /// Whether it has a terminal.
    pub pty: bool,
    /// Its shell's process, as the sandbox numbers it.
    pub pid: Option<u32>,
    /// When that process started, in the kernel's ticks: with `pid` it names the process for good.
    pub pid_start: Option<u64>,
    /// When it was started.
    pub started_at: Option<String>,
    /// When it ended.
    pub ended_at: Option<String>,
    /// How long it ran.
    pub duration_ms: Option<u64>,
    /// What it wrote to standard output.
    pub stdout_bytes: u64,
    /// What it wrote to standard error.
    pub stderr_bytes: u64,
    /// How much of its standard output is not kept.
    pub stdout_omitted: u64,
    /// How much of its standard error is not kept.
    pub stderr_omitted: u64,
    /// Processes of it that live.
    pub processes: u32,
    /// Whether it can be written to.
    pub stdin_open: bool,
    /// What became of its session's state.
    pub session_state: SessionResult,
}

impl JobView {
    /// Returns the view of a job in the sandbox of a task.
    pub fn new(task: &str, info: &JobInfo) -> Self {
        let exit = match info.state {
            JobState::Ended(exit) => Some(exit),
            JobState::Starting | JobState::Running => None,
        };
        Self {
            id: info.id.to_string(),
            task: task.to_owned(),
            state: (&info.state).into(),
            exit_code: exit.and_then(|exit| exit.code),
            cause: exit.map(|exit| exit.cause.into()),
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
            session_state: info.session_state.into(),
        }
    }
}

/// Returns milliseconds of Unix time as a time; nothing when it cannot be one.
pub fn timestamp(millis: u64) -> Option<Timestamp> {
    Timestamp::from_millisecond(i64::try_from(millis).ok()?).ok()
}

/// One command and what became of it, as `run --json` prints it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunView {
    /// The sandbox it ran in; null where there was none.
    pub sandbox: Option<RunSandboxView>,
    /// The job it was.
    pub job: Option<String>,
    /// The exit code of `run`.
    pub exit_code: Option<u8>,
    /// What it wrote to standard output: text, with a line that says what was left out.
    pub stdout: String,
    /// What it wrote to standard error, in the same form.
    pub stderr: String,
    /// How many bytes of its standard output were left out.
    pub stdout_omitted: u64,
    /// How many bytes of its standard error were left out.
    pub stderr_omitted: u64,
    /// The directory its shell ended in.
    pub cwd: Option<String>,
    /// What became of its session's state.
    pub session_state: SessionResult,
    /// Why the session's state could not be saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_error: Option<String>,
    /// How long it ran.
    pub duration_ms: Option<u64>,
    /// What went wrong with running it.
    pub error: Option<String>,
    /// What to do about the error.
    pub advice: Vec<String>,
    /// The exact bytes kept of standard output, where they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_base64: Option<String>,
    /// The exact bytes kept of standard error, where they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_base64: Option<String>,
}

/// What a sandbox was before a command used it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SandboxBefore {
    /// It was made for the command.
    Absent,
    /// It was started for the command.
    Stopped,
    /// It ran.
    Running,
}

/// The sandbox that a command ran in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunSandboxView {
    /// The profile.
    pub profile: String,
    /// The task.
    pub task: String,
    /// The backend.
    pub backend: String,
    /// The instance.
    pub id: String,
    /// What it was before.
    pub state_before: SandboxBefore,
    /// Whether the instance was there before.
    pub attached: bool,
}

impl RunSandboxView {
    /// Returns the view of a sandbox that was just attached to, and of its instance.
    pub fn new(sandbox: &Sandbox, instance: String) -> Self {
        Self {
            profile: sandbox.key().profile().to_owned(),
            task: sandbox.task().to_string(),
            backend: sandbox.backend().to_owned(),
            id: instance,
            state_before: match sandbox.state_before() {
                StateBefore::Absent => SandboxBefore::Absent,
                StateBefore::Stopped => SandboxBefore::Stopped,
                StateBefore::Running => SandboxBefore::Running,
            },
            attached: sandbox.was_attached(),
        }
    }
}

impl RunView {
    /// Takes over what is known of a job that was started and is not waited for.
    pub fn set_started(&mut self, info: &JobInfo) {
        self.job = Some(info.id.to_string());
        self.cwd = Some(String::from_utf8_lossy(&info.cwd).into_owned());
    }

    /// Takes over what a command wrote and how long it ran.
    pub fn set_output(&mut self, output: &CapturedOutput) {
        self.job = Some(output.job.to_string());
        self.stdout = output.stdout.text();
        self.stderr = output.stderr.text();
        self.stdout_omitted = output.stdout.omitted;
        self.stderr_omitted = output.stderr.omitted;
        self.stdout_base64 = binary(&output.stdout);
        self.stderr_base64 = binary(&output.stderr);
        self.cwd = Some(String::from_utf8_lossy(&output.cwd).into_owned());
        self.session_state = output.session_state.into();
        self.session_error.clone_from(&output.session_error);
        self.duration_ms =
            output.duration.map(|duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX));
    }
}

/// A command whose exit code is not known, because its sandbox ended while it ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExitLost {
    job: JobId,
}

impl fmt::Display for ExitLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the sandbox ended while job {} ran; its exit code is not known", self.job)
    }
}

impl std::error::Error for ExitLost {}

impl RunView {
    /// Takes over how a command ended: with its own code, or with 124 after its time limit.
    pub fn set_exit(
        &mut self,
        output: &CapturedOutput,
        limit: Option<Duration>,
    ) -> Result<(), ExitLost> {
        match (output.exit.cause, output.exit.code) {
            (Cause::TimedOut, _) => {
                let seconds = limit.map_or(0, |limit| limit.as_secs());
                self.exit_code = Some(TIMED_OUT);
                self.error = Some(format!(
                    "timed out after {seconds} s; everything the command started was killed"
                ));
            }
            (Cause::Lost, _) | (_, None) => return Err(ExitLost { job: output.job.clone() }),
            (Cause::Exited | Cause::Signaled(_) | Cause::Killed, Some(code)) => {
                self.exit_code = Some(code);
            }
        }
        Ok(())
    }
}

/// The exit code of a command that took too long.
const TIMED_OUT: u8 = 124;

/// Returns the bytes in a form JSON can carry, unless they are text.
fn binary(captured: &Captured) -> Option<String> {
    let is_text = |bytes: &[u8]| std::str::from_utf8(bytes).is_ok();
    (!is_text(&captured.head) || !is_text(&captured.tail))
        .then(|| STANDARD.encode(captured.bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_no_text_is_given_as_bytes_too() {
        let text = Captured { head: "ä\n".as_bytes().to_vec(), ..Captured::default() };
        assert_eq!(binary(&text), None);
        let bytes = Captured { head: vec![0xff, 0], ..Captured::default() };
        assert_eq!(binary(&bytes), Some("/wA=".to_owned()));
    }

    #[test]
    fn a_client_reads_what_a_run_printed() {
        let run = RunView { exit_code: Some(3), stdout: "out\n".to_owned(), ..RunView::default() };
        let json = serde_json::to_string(&run).unwrap();
        assert_eq!(
            json,
            r#"{"sandbox":null,"job":null,"exit_code":3,"stdout":"out\n","stderr":"","stdout_omitted":0,"stderr_omitted":0,"cwd":null,"session_state":"none","duration_ms":null,"error":null,"advice":[]}"#
        );
        assert_eq!(serde_json::from_str::<RunView>(&json).unwrap(), run);
    }
}
