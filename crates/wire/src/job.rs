//! Jobs: commands that run in a sandbox.

use std::fmt;
use std::str::FromStr;

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

/// Id of a job, chosen by the caller and never used again.
///
/// The caller chooses it so that it can ask, after a lost connection, what became
/// of exactly this command.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Encode)]
#[cbor(transparent)]
pub struct JobId(#[n(0)] String);

/// A text that is not a valid job id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("job ids are 1 to 64 of a-z, 0-9 and '-'")]
pub struct InvalidJobId;

impl JobId {
    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for JobId {
    type Err = InvalidJobId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // The id becomes a file name in the guest, so only these characters are
        // allowed.
        let fits = (1..=64).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if fits { Ok(Self(text.to_owned())) } else { Err(InvalidJobId) }
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'b, C> Decode<'b, C> for JobId {
    fn decode(
        decoder: &mut minicbor::Decoder<'b>,
        _: &mut C,
    ) -> Result<Self, minicbor::decode::Error> {
        decoder.str()?.parse().map_err(minicbor::decode::Error::custom)
    }
}

/// One environment variable, byte-exact.
#[derive(Clone, PartialEq, Eq, Encode, Decode)]
pub struct EnvVar {
    /// The name, without `=` and NUL.
    #[n(0)]
    pub name: ByteVec,
    /// The value, without NUL.
    #[n(1)]
    pub value: ByteVec,
}

/// Shows only the name: values may be secret.
impl fmt::Debug for EnvVar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EnvVar({})", String::from_utf8_lossy(&self.name))
    }
}

/// Where the text of a shell command is.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum ShellText {
    /// In the message.
    #[n(0)]
    Inline(#[n(0)] ByteVec),
    /// On [`crate::Stream::Text`], up to its end.
    #[n(1)]
    Streamed,
}

/// What a job runs.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum JobCommand {
    /// Text for the sandbox's shell.
    #[n(0)]
    Shell(#[n(0)] ShellText),
    /// A program or builtin with its arguments.
    #[n(1)]
    Argv(#[n(0)] Vec<ByteVec>),
}

/// What a job reads as standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Stdin {
    /// Nothing.
    #[n(0)]
    Null,
    /// A pipe. The channel that starts the job may send
    /// [`crate::Stream::Input`]; later ones use [`crate::CallRequest::Input`].
    #[n(1)]
    Piped,
}

/// Size of a terminal in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct WindowSize {
    /// Rows.
    #[n(0)]
    pub rows: u16,
    /// Columns.
    #[n(1)]
    pub cols: u16,
}

/// How a job's output is delivered to the channel that started or attached to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum OutputDelivery {
    /// Not at all: the reply is sent as soon as the command has started.
    #[n(0)]
    Detached,
    /// As it is produced, every byte: a slow reader slows the job down.
    #[n(1)]
    EveryByte,
    /// As it is produced; a slow reader gets gaps and never slows the job down.
    #[n(2)]
    Lossy,
    /// When the shell has ended: the first `head` and last `tail` bytes of each
    /// stream, with a gap event if bytes are omitted.
    #[n(3)]
    Captured {
        /// Bytes of the start.
        #[n(0)]
        head: u32,
        /// Bytes of the end.
        #[n(1)]
        tail: u32,
    },
}

/// Request to run a command.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct StartJob {
    /// The job's id. If it is already known, the command is not run again, and
    /// the request acts like [`AttachJob`] from the start.
    #[n(0)]
    pub id: JobId,
    /// What to run.
    #[n(1)]
    pub command: JobCommand,
    /// The shell session it starts from and, unless in the background, saves to.
    /// Absent: a new one that saves nothing.
    #[n(2)]
    pub session: Option<String>,
    /// Directory for this command only.
    #[n(3)]
    pub workdir: Option<ByteVec>,
    /// Directory for a session without a saved one.
    #[n(4)]
    pub start_dir: Option<ByteVec>,
    /// Environment to which the session's changes are applied. Absent: the
    /// guest's own.
    #[n(5)]
    pub env: Option<Vec<EnvVar>>,
    /// Environment of this job only. It overrides everything else and is never
    /// saved: use it for secrets.
    #[n(6)]
    pub job_env: Vec<EnvVar>,
    /// Standard input.
    #[n(7)]
    pub stdin: Stdin,
    /// Run on a terminal of this size; standard error is then merged into
    /// standard output.
    #[n(8)]
    pub pty: Option<WindowSize>,
    /// Merges standard error into standard output.
    #[n(9)]
    pub merge: bool,
    /// Milliseconds until all processes are killed.
    #[n(10)]
    pub timeout_ms: Option<u64>,
    /// A background job never saves its session.
    #[n(11)]
    pub background: bool,
    /// How output is delivered.
    #[n(12)]
    pub delivery: OutputDelivery,
}

/// Request to follow a job, which may have ended.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct AttachJob {
    /// The job.
    #[n(0)]
    pub id: JobId,
    /// Start offset in standard output.
    #[n(1)]
    pub stdout_from: u64,
    /// Start offset in standard error.
    #[n(2)]
    pub stderr_from: u64,
    /// Follow until the job ends, instead of to the current end of the output.
    #[n(3)]
    pub follow: bool,
    /// How output is delivered.
    #[n(4)]
    pub delivery: OutputDelivery,
}

/// Why a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Cause {
    /// Its shell exited.
    #[n(0)]
    Exited,
    /// Its shell died of a signal that the guest did not send.
    #[n(1)]
    Signaled(#[n(0)] i32),
    /// Its timeout expired.
    #[n(2)]
    TimedOut,
    /// A caller killed it.
    #[n(3)]
    Killed,
    /// The guest or the instance ended while it ran.
    #[n(4)]
    Lost,
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct JobExit {
    /// The exit code as a shell reports it: 124 for a timeout, 128 + n for signal
    /// n, 137 if killed. Absent if unknown.
    #[n(0)]
    pub code: Option<u8>,
    /// Why it ended.
    #[n(1)]
    pub cause: Cause,
}

/// State of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum JobState {
    /// Recorded; the command has not started.
    #[n(0)]
    Starting,
    /// The shell runs.
    #[n(1)]
    Running,
    /// The shell has ended. Remaining processes are counted in
    /// [`JobInfo::processes`].
    #[n(2)]
    Ended(#[n(0)] JobExit),
}

/// What happened to the session's state when a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum SessionState {
    /// Nothing was saved: no session, a background job, a killed or `exec`ed
    /// command. The session is unchanged.
    #[n(0)]
    None,
    /// The next command of the session starts from the state of this one.
    #[n(1)]
    Saved,
    /// A command started later in the same session supersedes it.
    #[n(2)]
    Superseded,
}

/// Description of a job.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct JobInfo {
    /// The job.
    #[n(0)]
    pub id: JobId,
    /// Its state.
    #[n(1)]
    pub state: JobState,
    /// The start of the command, for listings.
    #[n(2)]
    pub summary: String,
    /// The session it started from.
    #[n(3)]
    pub session: Option<String>,
    /// The directory it started in or, after a foreground job ended, the one its
    /// shell ended in.
    #[n(4)]
    pub cwd: ByteVec,
    /// Whether it was started in the background.
    #[n(5)]
    pub background: bool,
    /// Whether it runs on a terminal.
    #[n(6)]
    pub pty: bool,
    /// The shell's process id as the guest sees it.
    #[n(7)]
    pub pid: Option<u32>,
    /// The shell's start time in clock ticks since boot; with the pid and the
    /// boot id it identifies one process.
    #[n(8)]
    pub pid_start: Option<u64>,
    /// Start, in milliseconds of Unix time.
    #[n(9)]
    pub started_ms: u64,
    /// End, in milliseconds of Unix time.
    #[n(10)]
    pub ended_ms: Option<u64>,
    /// Bytes written to standard output so far.
    #[n(11)]
    pub stdout_bytes: u64,
    /// Bytes written to standard error so far.
    #[n(12)]
    pub stderr_bytes: u64,
    /// Bytes of standard output that are no longer in the log.
    #[n(13)]
    pub stdout_omitted: u64,
    /// Bytes of standard error that are no longer in the log.
    #[n(14)]
    pub stderr_omitted: u64,
    /// Number of living processes of the job.
    #[n(15)]
    pub processes: u32,
    /// Whether standard input can still be written.
    #[n(16)]
    pub stdin_open: bool,
    /// What happened to the session's state.
    #[n(17)]
    pub session_state: SessionState,
    /// How long the command ran, on the monotonic clock, in microseconds.
    #[n(18)]
    pub duration_us: Option<u64>,
    /// Why the session's state could not be saved, such as a full disk. The
    /// session is unchanged.
    #[n(19)]
    pub session_error: Option<String>,
}

/// What became of a command whose caller lost the connection.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum CommandOutcome {
    /// It was started; this is its state.
    #[n(0)]
    Known(#[n(0)] Box<JobInfo>),
    /// It was never started and never will be.
    #[n(1)]
    NeverStarted,
    /// It may have run: the records are gone.
    #[n(2)]
    Unknown,
}
