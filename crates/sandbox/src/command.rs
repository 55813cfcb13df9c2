//! What to run in a sandbox, and how.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use minicbor::bytes::ByteVec;
use tokio::io::AsyncRead;
use vestal_wire::limits::{MAX_INLINE_TEXT, MAX_SESSION_NAME};
use vestal_wire::{EnvVar, JobId, OutputDelivery, ShellText, StartJob, Stdin, WindowSize};

use crate::client::millis;

/// Bytes of each end of an output stream that a captured run keeps by default.
const DEFAULT_CAPTURE: u32 = 512 << 10;

/// The digits of a job id: their order is the order of their codes, so ids sort
/// by time as text. Letters that are easily misread are left out.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Returns a job id that nobody has used and nobody can guess.
///
/// It is `j-` and twenty digits to the base of 32: 48 bits of Unix time in
/// milliseconds, so that ids sort by the time they were made, and 48 random bits.
pub fn new_job_id() -> JobId {
    let millis = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, crate::client::millis);
    let number = (u128::from(millis & 0xffff_ffff_ffff) << 48) | u128::from(random_48());
    let mut text = String::from("j-");
    for shift in (0..20).rev() {
        let digit = (number >> (5 * shift)) & 31;
        text.push(char::from(DIGITS[digit as usize]));
    }
    #[expect(clippy::expect_used, reason = "prefix, digits and length are those of a job id")]
    text.parse().expect("a job id")
}

fn random_48() -> u64 {
    let random = getrandom::u64().unwrap_or_else(|_| {
        // The kernel refuses randomness only in broken environments. The keys
        // of the standard library's maps are random as well.
        use std::hash::{BuildHasher, RandomState};
        RandomState::new().hash_one(std::process::id())
    });
    random >> 16
}

/// Where a command's standard input comes from.
#[derive(Default)]
pub enum CommandInput {
    /// Nothing: end of file at once.
    #[default]
    Null,
    /// These bytes, then end of file.
    Bytes(Vec<u8>),
    /// All that the reader gives, then end of file.
    Reader(Box<dyn AsyncRead + Send + Unpin>),
    /// The caller, who writes through [`crate::job::RunningJob`] or
    /// [`crate::job::write`]. A captured run sees end of file at once.
    Piped,
}

/// Shows where the input comes from, never what it is.
impl fmt::Debug for CommandInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("Null"),
            Self::Bytes(bytes) => write!(f, "Bytes({} bytes)", bytes.len()),
            Self::Reader(_) => f.write_str("Reader"),
            Self::Piped => f.write_str("Piped"),
        }
    }
}

/// A command that no guest would take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCommand {
    /// There is no program to run.
    #[error("a command needs at least the name of a program")]
    EmptyArgv,
    /// A NUL byte cannot be passed to a program.
    #[error("{0} contains a NUL byte")]
    Nul(&'static str),
    /// A session's name is empty or too long.
    #[error("session names are 1 to {MAX_SESSION_NAME} bytes long and contain no NUL byte")]
    SessionName,
    /// An environment variable's name is empty or contains `=`.
    #[error("{0:?} cannot be the name of an environment variable")]
    EnvName(String),
}

#[derive(Clone)]
enum CommandBody {
    Shell(Vec<u8>),
    Argv(Vec<ByteVec>),
}

/// A command, to be run by [`crate::job::run`] and its siblings.
///
/// By default it is run in a clean session that saves nothing, reads
/// nothing and has no time limit.
pub struct Command {
    what: CommandBody,
    id: Option<JobId>,
    session: Option<String>,
    workdir: Option<ByteVec>,
    start_dir: Option<ByteVec>,
    env: Option<Vec<EnvVar>>,
    secret_env: Vec<EnvVar>,
    stdin: CommandInput,
    pty: Option<WindowSize>,
    merge: bool,
    timeout: Option<Duration>,
    background: bool,
    kill_on_drop: bool,
    head: u32,
    tail: u32,
}

/// A command in the form of the protocol, with what is sent beside the message.
pub(crate) struct PreparedCommand {
    pub(crate) start: StartJob,
    pub(crate) text: Option<Vec<u8>>,
    pub(crate) input: CommandInput,
}

impl Command {
    /// Returns a command of text for the sandbox's shell, of any length.
    pub fn shell(text: impl Into<Vec<u8>>) -> Self {
        Self::new(CommandBody::Shell(text.into()))
    }

    /// Returns a command of a program or builtin and its arguments.
    pub fn argv<A: AsRef<OsStr>>(argv: impl IntoIterator<Item = A>) -> Self {
        Self::new(CommandBody::Argv(argv.into_iter().map(|arg| bytes(arg.as_ref())).collect()))
    }

    fn new(what: CommandBody) -> Self {
        Self {
            what,
            id: None,
            session: None,
            workdir: None,
            start_dir: None,
            env: None,
            secret_env: Vec::new(),
            stdin: CommandInput::Null,
            pty: None,
            merge: false,
            timeout: None,
            background: false,
            kill_on_drop: false,
            head: DEFAULT_CAPTURE,
            tail: DEFAULT_CAPTURE,
        }
    }

    /// Starts from this session's saved state and, unless in the background,
    /// saves to it.
    #[must_use]
    pub fn session(mut self, name: impl Into<String>) -> Self {
        self.session = Some(name.into());
        self
    }

    /// Starts from a clean state and saves nothing.
    #[must_use]
    pub fn stateless(mut self) -> Self {
        self.session = None;
        self
    }

    /// Runs in this directory, for this command only.
    #[must_use]
    pub fn workdir(mut self, dir: impl AsRef<Path>) -> Self {
        self.workdir = Some(bytes(dir.as_ref().as_os_str()));
        self
    }

    /// Runs in this directory if the session has none saved.
    #[must_use]
    pub fn start_dir(mut self, dir: impl AsRef<Path>) -> Self {
        self.start_dir = Some(bytes(dir.as_ref().as_os_str()));
        self
    }

    /// Takes this environment as the base, in the place of the sandbox's own.
    #[must_use]
    pub fn env<N: AsRef<OsStr>, V: AsRef<OsStr>>(
        mut self,
        base: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        self.env = Some(base.into_iter().map(|(name, value)| variable(&name, &value)).collect());
        self
    }

    /// Sets a variable for this command alone. It wins over everything else and
    /// is never saved.
    #[must_use]
    pub fn secret_env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.secret_env.push(variable(&name, &value));
        self
    }

    /// Sets where standard input comes from.
    #[must_use]
    pub fn stdin(mut self, input: CommandInput) -> Self {
        self.stdin = input;
        self
    }

    /// Runs on a terminal of this size.
    #[must_use]
    pub fn pty(mut self, size: WindowSize) -> Self {
        self.pty = Some(size);
        self
    }

    /// Joins standard error to standard output.
    #[must_use]
    pub fn merge(mut self) -> Self {
        self.merge = true;
        self
    }

    /// Kills the whole tree after this time; kept by the guest.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// Makes it a background job, which never writes its session back.
    #[must_use]
    pub fn background(mut self) -> Self {
        self.background = true;
        self
    }

    /// Kills the job with all its processes when the caller that runs or follows
    /// it is dropped before the job has ended. A background job is killed only
    /// if its caller is dropped before the start is confirmed.
    #[must_use]
    pub fn kill_on_drop(mut self) -> Self {
        self.kill_on_drop = true;
        self
    }

    pub(crate) const fn has_id(&self) -> bool {
        self.id.is_some()
    }

    pub(crate) const fn kills_on_drop(&self) -> bool {
        self.kill_on_drop
    }

    /// Returns the job's id, chosen now unless the caller has chosen it.
    pub(crate) fn ensure_id(&mut self) -> JobId {
        self.id.get_or_insert_with(new_job_id).clone()
    }

    /// Chooses the job's id; otherwise it gets a new one.
    #[must_use]
    pub fn job_id(mut self, id: JobId) -> Self {
        self.id = Some(id);
        self
    }

    /// Keeps this many bytes of the beginning and of the end of each output
    /// stream in a captured run.
    #[must_use]
    pub fn capture(mut self, head: u32, tail: u32) -> Self {
        self.head = head;
        self.tail = tail;
        self
    }

    /// Takes this environment as the base unless the caller named one.
    pub(crate) fn or_env<E>(
        mut self,
        base: impl FnOnce() -> Result<Vec<EnvVar>, E>,
    ) -> Result<Self, E> {
        if self.env.is_none() {
            self.env = Some(base()?);
        }
        Ok(self)
    }

    /// Adds variables for this command alone; those the caller added win.
    #[must_use]
    pub(crate) fn with_secret_env(mut self, mut variables: Vec<EnvVar>) -> Self {
        variables.append(&mut self.secret_env);
        self.secret_env = variables;
        self
    }

    /// Starts here, if the session has no directory saved and the caller named
    /// none.
    pub(crate) fn or_start_dir<E>(
        mut self,
        dir: impl FnOnce() -> Result<std::path::PathBuf, E>,
    ) -> Result<Self, E> {
        if self.start_dir.is_none() {
            self.start_dir = Some(bytes(dir()?.as_os_str()));
        }
        Ok(self)
    }

    /// Returns the command once more, for the case that it never started; `None`
    /// for input that can be read only once. An id that the caller chose stays.
    pub(crate) fn try_clone(&self) -> Option<Self> {
        let stdin = match &self.stdin {
            CommandInput::Null => CommandInput::Null,
            CommandInput::Piped => CommandInput::Piped,
            CommandInput::Bytes(bytes) => CommandInput::Bytes(bytes.clone()),
            CommandInput::Reader(_) => return None,
        };
        Some(Self {
            what: self.what.clone(),
            id: self.id.clone(),
            session: self.session.clone(),
            workdir: self.workdir.clone(),
            start_dir: self.start_dir.clone(),
            env: self.env.clone(),
            secret_env: self.secret_env.clone(),
            stdin,
            pty: self.pty,
            merge: self.merge,
            timeout: self.timeout,
            background: self.background,
            kill_on_drop: self.kill_on_drop,
            head: self.head,
            tail: self.tail,
        })
    }

    /// Returns how many bytes of the beginning and of the end to keep.
    pub(crate) fn capture_limits(&self) -> (u32, u32) {
        (self.head, self.tail)
    }

    /// Checks the command and puts it into the form of the protocol.
    pub(crate) fn prepare(
        self,
        delivery: OutputDelivery,
    ) -> Result<PreparedCommand, InvalidCommand> {
        self.check()?;
        let (command, text) = match self.what {
            CommandBody::Shell(text) if text.len() > MAX_INLINE_TEXT => {
                (vestal_wire::JobCommand::Shell(ShellText::Streamed), Some(text))
            }
            CommandBody::Shell(text) => {
                (vestal_wire::JobCommand::Shell(ShellText::Inline(text.into())), None)
            }
            CommandBody::Argv(argv) => (vestal_wire::JobCommand::Argv(argv), None),
        };
        let stdin = match self.stdin {
            CommandInput::Null => Stdin::Null,
            CommandInput::Bytes(_) | CommandInput::Reader(_) | CommandInput::Piped => Stdin::Piped,
        };
        let start = StartJob {
            id: self.id.unwrap_or_else(new_job_id),
            command,
            session: self.session,
            workdir: self.workdir,
            start_dir: self.start_dir,
            env: self.env,
            job_env: self.secret_env,
            stdin,
            pty: self.pty,
            merge: self.merge,
            timeout_ms: self.timeout.map(millis),
            background: self.background,
            delivery,
        };
        Ok(PreparedCommand { start, text, input: self.stdin })
    }

    fn check(&self) -> Result<(), InvalidCommand> {
        if let CommandBody::Argv(argv) = &self.what {
            if argv.first().is_none_or(|program| program.is_empty()) {
                return Err(InvalidCommand::EmptyArgv);
            }
            if argv.iter().any(|arg| has_nul(arg)) {
                return Err(InvalidCommand::Nul("an argument"));
            }
        }
        if let Some(name) = &self.session {
            let fits = (1..=MAX_SESSION_NAME).contains(&name.len()) && !has_nul(name.as_bytes());
            if !fits {
                return Err(InvalidCommand::SessionName);
            }
        }
        if self.workdir.iter().chain(&self.start_dir).any(|dir| has_nul(dir)) {
            return Err(InvalidCommand::Nul("a directory"));
        }
        self.env.iter().flatten().chain(&self.secret_env).try_for_each(check_variable)
    }
}

/// Shows what is run and how, but no value of a variable and no input.
impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command")
            .field("what", &self.what)
            .field("id", &self.id)
            .field("session", &self.session)
            .field("workdir", &self.workdir.as_ref().map(|dir| text(dir)))
            .field("start_dir", &self.start_dir.as_ref().map(|dir| text(dir)))
            .field("env", &self.env)
            .field("secret_env", &self.secret_env)
            .field("stdin", &self.stdin)
            .field("pty", &self.pty)
            .field("merge", &self.merge)
            .field("timeout", &self.timeout)
            .field("background", &self.background)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for CommandBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shell(script) => f.debug_tuple("Shell").field(&text(script)).finish(),
            Self::Argv(argv) => f.debug_list().entries(argv.iter().map(|arg| text(arg))).finish(),
        }
    }
}

fn check_variable(variable: &EnvVar) -> Result<(), InvalidCommand> {
    if variable.name.is_empty() || variable.name.contains(&b'=') || has_nul(&variable.name) {
        return Err(InvalidCommand::EnvName(text(&variable.name)));
    }
    if has_nul(&variable.value) {
        return Err(InvalidCommand::Nul("an environment variable"));
    }
    Ok(())
}

fn variable(name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> EnvVar {
    EnvVar { name: bytes(name.as_ref()), value: bytes(value.as_ref()) }
}

fn bytes(text: &OsStr) -> ByteVec {
    text.as_bytes().to_vec().into()
}

fn has_nul(bytes: &[u8]) -> bool {
    bytes.contains(&0)
}

/// Returns the beginning of a text for people, lossily.
fn text(bytes: &[u8]) -> String {
    const SHOWN: usize = 200;
    let mut text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]).into_owned();
    if bytes.len() > SHOWN {
        text.push('…');
    }
    text
}

#[cfg(test)]
#[path = "command_tests.rs"]
mod tests;
