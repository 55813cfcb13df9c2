//! From the libraries' errors to what a person reads: what happened, and what to do next.

use std::io;

use vestal_agent::OpenError;
use vestal_agent::settings::EndpointError;
use vestal_api::{ErrorView, closest_name};
use vestal_board::boards::BoardsError;
use vestal_board::settings::HostError;
use vestal_board::{Error as BoardError, Refusal};
use vestal_config::{ConfigError, ProfileName, SetError};
use vestal_conversations::Error as ConversationError;
use vestal_database::Error as DatabaseError;
use vestal_model::SetupError;
use vestal_profiles::ProfileError;
use vestal_runtime::RuntimeError;
use vestal_sandbox::backend::BackendError;
use vestal_sandbox::client::CallError;
use vestal_sandbox::files::FileError;
use vestal_sandbox::job::JobError;
use vestal_sandbox::{Error, Fault, FaultCode, HomeError, LockError, StoreError};

use crate::exit::Exit;
use crate::values::quoted;

const DOCTOR: &str = "run `vestal doctor` to see what works on this machine";
const LIST: &str = "`vestal ps` lists the sandboxes";
const SOURCES: &str = "`vestal config show` shows where each value comes from";

/// Why a command did not do what it was asked to.
#[derive(Debug)]
pub(crate) struct Failure {
    message: Option<String>,
    advice: Vec<String>,
    exit: Exit,
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: Some(message.into()), advice: Vec::new(), exit: Exit::Failed }
    }

    /// Returns the failure of a call of the system.
    pub(crate) fn io(action: &str, error: &io::Error) -> Self {
        let failure = Self::new(format!("cannot {action}: {error}"));
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                failure.advise("free some space and try again")
            }
            _ => failure,
        }
    }

    /// Returns the failure of a write to our own output. A reader that is gone
    /// wants to hear nothing.
    pub(crate) fn output(error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self { message: None, advice: Vec::new(), exit: Exit::BrokenPipe };
        }
        Self::io("write the output", error)
    }

    /// Returns a mistake on the command line that only showed later.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, ..Self::new(message) }
    }

    /// Adds what to do next.
    #[must_use]
    pub(crate) fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice.push(advice.into());
        self
    }

    /// Says what the failure is about.
    #[must_use]
    pub(crate) fn about(mut self, what: &str) -> Self {
        self.message = self.message.map(|message| format!("{what}: {message}"));
        self
    }

    #[must_use]
    pub(crate) fn with_exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    pub(crate) fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    pub(crate) fn advice(&self) -> &[String] {
        &self.advice
    }

    /// Returns the failure for `--json`; nothing if the reader of the output is gone.
    pub(crate) fn view(&self) -> Option<ErrorView> {
        let error = self.message.clone()?;
        Some(ErrorView { error, advice: self.advice.clone() })
    }

    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let failure = Self::new(error.to_string());
        match error {
            Error::Config(error)
            | Error::Backend { source: BackendError::Config(error), .. } => error.into(),
            Error::Home(error) => error.into(),
            Error::Store(error) => error.into(),
            Error::Job(error) => error.into(),
            Error::Call(error) => error.into(),
            Error::Lock(LockError::Busy { holder: Some(pid), .. }) => failure.advise(format!(
                "wait for it, or look at it with `ps`; `kill {pid}` ends it and releases the lock"
            )),
            Error::Lock(LockError::Busy { holder: None, .. }) => failure
                .advise("wait for it, or look at it with `ps`; the lock is released when it ends"),
            Error::Lock(LockError::Io { .. }) | Error::Publish(_) => failure,
            Error::Backend { source, .. } => failure.advise(source.advice().unwrap_or(DOCTOR)),
            Error::StartFailed { task, source, .. } => failure
                .advise(source.advice().unwrap_or("try again when the cause is fixed"))
                .advise(format!("to keep a copy of it first: vestal snapshot {}", quoted(&task)))
                .advise(format!(
                    "to recreate it: vestal rebuild {}; workspace and home are kept, software installed elsewhere is lost",
                    quoted(&task)
                )),
            Error::NoBackend { .. } | Error::Connect(_) => failure.advise(DOCTOR),
            Error::NotIsolated { task, .. } => failure
                .advise(DOCTOR)
                .advise(format!(
                    "to move an existing sandbox: vestal rebuild {} --backend native",
                    quoted(&task)
                ))
                .advise("to run commands on this machine as you, without isolation: -b local"),
            Error::BackendChanged { task, was, now } => failure
                .advise(format!("to use it as it is: -b {was}, or terminal.backend: auto"))
                .advise(format!(
                    "to move it, workspace and home kept: vestal rebuild {} --backend {now}",
                    quoted(&task)
                )),
            Error::UnknownBackend { task, .. } => failure
                .advise("use the version of vestal that created it")
                .advise(format!("or remove it: vestal rm {}", quoted(&task))),
            Error::NoSandbox { .. } => failure.advise(LIST),
            Error::Stopped { task } => {
                failure.advise(format!("to start it: vestal run -t {} true", quoted(&task)))
            }
            Error::Foreign { path } => failure
                .advise(format!("move {} away: it was copied from another home", path.display())),
            Error::Tightened { .. } => failure
                .advise("`vestal jobs` lists the jobs in the way; when they have ended, or after `vestal stop`, the settings apply"),
            Error::Busy { task, .. } => {
                failure.advise(format!("to see what uses it: vestal jobs -t {}", quoted(&task)))
            }
            Error::Copy(error) => failure.advise(error.advice()),
            Error::Bind { .. } => failure.advise("choose another directory for the task"),
            Error::NeverStarted { .. } => failure.advise("it is safe to run it again"),
            Error::OutcomeUnknown { .. } => {
                failure.advise("look for its effects before you run it again")
            }
        }
    }
}

impl From<HomeError> for Failure {
    fn from(error: HomeError) -> Self {
        let failure = Self::new(error.to_string());
        match error {
            HomeError::Network { .. } => {
                failure.advise("set VESTAL_HOME to a directory on a disk of this machine")
            }
            HomeError::Unusable { .. } | HomeError::Store(StoreError::Io { .. }) => {
                failure.advise("make it writable for you, or set VESTAL_HOME to another directory")
            }
            // They say what to do.
            HomeError::SandboxesOfOriginal { .. } | HomeError::ExposedSandboxes { .. } => failure,
            HomeError::Store(error) => error.into(),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let failure = Self::new(error.to_string());
        match error {
            StoreError::Io { action, path, source } => {
                Self::io(&format!("{action} {}", path.display()), &source)
            }
            StoreError::Damaged { path, .. } if path.ends_with("home.json") => failure
                .advise(format!(
                    "restore {} from a backup: the sandboxes of this home are found by the id in it",
                    path.display()
                ))
                .advise(
                    "without a backup: end the processes called vestal-guest, save what you need from sandboxes/*/workspace and home, and move the whole home away",
                ),
            StoreError::Damaged { path, .. } => failure.advise(format!(
                "move {} away to start over; nothing was changed",
                path.display()
            )),
            StoreError::Newer { .. } => {
                failure.advise("use the newer version of vestal; nothing was changed")
            }
        }
    }
}

impl From<JobError> for Failure {
    fn from(error: JobError) -> Self {
        let failure = Self::new(error.to_string());
        match error {
            JobError::Fault(fault) => fault.into(),
            JobError::TooLarge(_) => failure.advise(
                "pass long text with `vestal run --file FILE`, and use a smaller environment",
            ),
            JobError::Lost { job, .. } | JobError::InputLost { job, .. } => {
                failure.advise(format!("to see what became of it: vestal logs {job}"))
            }
            JobError::Invalid(_) | JobError::Input { .. } => failure,
        }
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        let failure = Self::new(error.to_string());
        match error {
            CallError::Fault(fault) => fault.into(),
            CallError::Lost { .. }
            | CallError::Protocol { .. }
            | CallError::Deadline { .. }
            | CallError::Unsendable(_) => failure.advise(DOCTOR),
        }
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        let failure = Self::new(fault.message);
        match fault.code {
            FaultCode::NoWorkdir => failure.with_exit(Exit::NoWorkdir),
            FaultCode::NoSuchJob => failure.advise("`vestal jobs --all` lists the jobs on record"),
            FaultCode::NoSpace => failure.advise("free some space and try again"),
            FaultCode::Unsupported => failure
                .advise("the sandbox was started by an older version of vestal; stop it, and the next use restarts it"),
            FaultCode::Internal
            | FaultCode::Invalid
            | FaultCode::WrongInstance
            | FaultCode::Cancelled
            | FaultCode::ShuttingDown
            | FaultCode::Busy
            | FaultCode::NotFound
            | FaultCode::Exists
            | FaultCode::WrongKind
            | FaultCode::Denied
            | FaultCode::Conflict
            | FaultCode::System => failure,
        }
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Call(error) => error.into(),
            other @ (FileError::TooLarge { .. } | FileError::Io(_) | FileError::Invalid(_)) => {
                Self::new(other.to_string())
            }
        }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        let failure = Self::new(error.to_string());
        match error {
            ConfigError::Invalid(_) | ConfigError::Conflict { .. } => failure.advise(SOURCES),
            ConfigError::UnknownKey { .. } | ConfigError::NotInThisVersion { .. } => {
                failure.advise("`vestal config docs` describes every key")
            }
            ConfigError::Misspelt(misspelling) => failure.advise(format!(
                "{} is a security setting, so nothing is started while its name may be misspelt: correct or remove it",
                misspelling.key
            )),
            ConfigError::Duplicate { .. }
            | ConfigError::Section { .. }
            | ConfigError::File { .. }
            | ConfigError::NotAnAssignment { .. } => failure,
        }
    }
}

impl From<SetError> for Failure {
    fn from(error: SetError) -> Self {
        match error {
            SetError::Config(error) => error.into(),
            other => Self::new(other.to_string()),
        }
    }
}

impl From<vestal_config::HomeError> for Failure {
    fn from(error: vestal_config::HomeError) -> Self {
        use vestal_config::HomeError;
        let failure = Self::new(error.to_string());
        match error {
            HomeError::NoHome | HomeError::Relative { .. } => failure,
            HomeError::BadProfileName { .. }
            | HomeError::UnknownProfile { .. }
            | HomeError::Choice { .. } => failure.with_exit(Exit::No),
        }
    }
}

impl From<ProfileError> for Failure {
    fn from(error: ProfileError) -> Self {
        let failure = Self::new(error.to_string());
        match error {
            ProfileError::Home(error) => error.into(),
            ProfileError::Io { action, path, source } => {
                Self::io(&format!("{action} {}", path.display()), &source)
            }
            ProfileError::Reserved { .. }
            | ProfileError::Exists { .. }
            | ProfileError::Missing { .. }
            | ProfileError::Default { .. }
            | ProfileError::BadDescription { .. }
            | ProfileError::Newer { .. }
            | ProfileError::Damaged { .. }
            | ProfileError::FileExists { .. }
            | ProfileError::TooMuch { .. }
            | ProfileError::Refused { .. } => failure.with_exit(Exit::No),
        }
    }
}

impl From<ConversationError> for Failure {
    fn from(error: ConversationError) -> Self {
        let failure = Self::new(error.to_string());
        match error {
            ConversationError::NotFound { .. }
            | ConversationError::NoMessage { .. }
            | ConversationError::Ambiguous { .. } => {
                failure.with_exit(Exit::No).advise("`vestal conversations list` lists them")
            }
            ConversationError::NoneYet => {
                failure.with_exit(Exit::No).advise("to start one: vestal chat -q 'QUESTION'")
            }
            ConversationError::Busy { .. } => failure
                .with_exit(Exit::No)
                .advise("wait for it, or start another conversation: vestal chat -q …"),
            ConversationError::TitleTaken { .. } => {
                failure.with_exit(Exit::No).advise("choose another title")
            }
            ConversationError::InvalidTitle(_) | ConversationError::InvalidId(_) => {
                failure.with_exit(Exit::Usage)
            }
            ConversationError::NoSummary
            | ConversationError::Exists { .. }
            | ConversationError::Io { .. }
            | ConversationError::Unreadable { .. }
            | ConversationError::Unwritable(_) => failure,
            ConversationError::Database(error) => error.into(),
        }
    }
}

impl From<DatabaseError> for Failure {
    fn from(error: DatabaseError) -> Self {
        let failure = Self::new(error.to_string());
        match error {
            DatabaseError::Contended { .. } => failure.advise("try again in a moment"),
            DatabaseError::Access { .. } | DatabaseError::Io { .. } => {
                failure.advise("make the directory writable for you, or set VESTAL_HOME to another")
            }
            DatabaseError::Newer { .. }
            | DatabaseError::Foreign { .. }
            | DatabaseError::Damaged { .. }
            | DatabaseError::Full { .. }
            | DatabaseError::Stopped { .. }
            | DatabaseError::Refused { .. } => failure,
        }
    }
}

impl From<BoardError> for Failure {
    fn from(error: BoardError) -> Self {
        let failure = Self::new(error.to_string());
        match error {
            BoardError::NotFound { .. } | BoardError::InvalidId(_) => {
                failure.with_exit(Exit::No).advise("`vestal kanban list --all` lists the tasks")
            }
            BoardError::Ambiguous { .. } => {
                failure.with_exit(Exit::No).advise("give more characters of the id")
            }
            BoardError::Invalid { .. } => failure.with_exit(Exit::Usage),
            BoardError::Refused(refusal) => {
                let refused = failure.with_exit(Exit::No);
                next_step(&refusal).into_iter().fold(refused, Self::advise)
            }
            BoardError::Fenced { .. } => failure.with_exit(Exit::No),
            BoardError::Boards(error) => failure.with_exit(match error {
                BoardsError::Name(_)
                | BoardsError::Missing { .. }
                | BoardsError::Archived { .. }
                | BoardsError::Busy { .. }
                | BoardsError::Default { .. } => Exit::No,
                BoardsError::Displaced { .. } | BoardsError::Closed => Exit::Failed,
            }),
            BoardError::Io { action, path, source } => {
                Self::io(&format!("{action} {}", path.display()), &source)
            }
            BoardError::Database(error) => error.into(),
            BoardError::Unreadable { .. } | BoardError::Name(_) => failure,
        }
    }
}

/// Returns what to do about a refused change of a task.
fn next_step(refusal: &Refusal) -> Option<String> {
    match refusal {
        Refusal::Status { task, .. } => {
            Some(format!("to see its history: vestal kanban show {task}"))
        }
        Refusal::Held { task, .. } => {
            Some(format!("to take it back first: vestal kanban reclaim {task}"))
        }
        Refusal::UnfinishedParents { verb, task, .. } => (*verb == "promote")
            .then(|| format!("to start it anyway: vestal kanban promote {task} --force")),
        Refusal::NothingToWaitFor { task } => {
            Some(format!("to link it: vestal kanban link PARENT {task}"))
        }
        Refusal::WorkspaceBusy { by, .. } => {
            Some(format!("wait for {by}, or give the task a worktree of its own"))
        }
        Refusal::NoProfile { name } => Some(format!("to create it: vestal profile create {name}")),
        Refusal::Cycle { .. }
        | Refusal::OtherHost { .. }
        | Refusal::NotYours { .. }
        | Refusal::Phantoms { .. }
        | Refusal::TooMany { .. }
        | Refusal::TooDeep { .. } => None,
    }
}

impl From<HostError> for Failure {
    fn from(error: HostError) -> Self {
        match error {
            HostError::Config(error) => error.into(),
            other @ HostError::Unknown(_) => Self::new(other.to_string()),
        }
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Store(error) => error.into(),
            other @ (OpenError::Task(_) | OpenError::Name(_)) => Self::new(other.to_string()),
        }
    }
}

impl From<RuntimeError> for Failure {
    fn from(error: RuntimeError) -> Self {
        match error {
            RuntimeError::Config(error) => error.into(),
            RuntimeError::Endpoint { reason, profile } => Self::no_endpoint(reason, &profile),
            RuntimeError::Model(error) => error.into(),
            RuntimeError::Store(error) => error.into(),
            RuntimeError::Open(error) => error.into(),
            RuntimeError::UnknownToolset { name, known } => {
                let failure = Self::usage(format!("unknown toolset {name:?}"));
                match closest_name(&name, known.iter().map(String::as_str)) {
                    Some(meant) => failure.advise(format!("did you mean {meant}?")),
                    None => failure.advise(format!("available: {}, all", known.join(", "))),
                }
            }
        }
    }
}

impl From<EndpointError> for Failure {
    fn from(error: EndpointError) -> Self {
        Self::no_endpoint(error, &ProfileName::default_profile())
    }
}

impl Failure {
    /// Says why no model can be asked in a profile, and what to do there.
    pub(crate) fn no_endpoint(error: EndpointError, profile: &ProfileName) -> Self {
        match error {
            EndpointError::Config(error) => error.into(),
            other => other
                .advice_in(profile)
                .into_iter()
                .fold(Self::new(other.to_string()), Self::advise)
                .with_exit(Exit::No),
        }
    }
}

impl From<SetupError> for Failure {
    fn from(error: SetupError) -> Self {
        Self::new(error.to_string())
    }
}
