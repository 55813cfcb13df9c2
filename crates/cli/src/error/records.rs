//! What to do about errors of settings, profiles, conversations, boards and models.

use vestal_agent::OpenError;
use vestal_agent::settings::EndpointError;
use vestal_api::closest_name;
use vestal_board::boards::BoardsError;
use vestal_board::settings::HostError;
use vestal_board::{BoardRefusal, Error as BoardError};
use vestal_config::{ConfigError, HomeNotFound, ProfileName, SetError, ValueSource};
use vestal_conversations::Error as ConversationError;
use vestal_database::Error as DatabaseError;
use vestal_model::SetupError;
use vestal_operations::OperationError;
use vestal_profiles::ProfileError;
use vestal_runtime::RuntimeError;
use vestal_schedules::{Error as ScheduleError, InvalidTiming};

use super::CommandFailure;
use crate::exit::Exit;

const SOURCES: &str = "`vestal config show` shows where each value comes from";

impl From<ConfigError> for CommandFailure {
    fn from(error: ConfigError) -> Self {
        let failure = Self::new(error.to_string());
        match error {
            // What has just been typed is a mistake of the command line.
            ConfigError::Invalid(invalid)
                if matches!(
                    invalid.from,
                    ValueSource::CommandLine { .. } | ValueSource::Option { .. }
                ) =>
            {
                failure.advise(SOURCES).with_exit(Exit::Usage)
            }
            ConfigError::Invalid(_) | ConfigError::Conflict { .. } => failure.advise(SOURCES),
            ConfigError::UnknownKey { .. } | ConfigError::NotInThisVersion { .. } => failure
                .advise("`vestal config docs` describes every key")
                .with_exit(Exit::Usage),
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

impl From<OperationError> for CommandFailure {
    fn from(error: OperationError) -> Self {
        let failure = Self::new(error.to_string());
        match error {
            OperationError::NotFound { .. }
            | OperationError::NoMatch { .. }
            | OperationError::Ambiguous { .. } => {
                failure.with_exit(Exit::No).advise("`vestal operations` lists those on record")
            }
            OperationError::Newer { .. }
            | OperationError::Damaged { .. }
            | OperationError::Io { .. } => failure,
        }
    }
}

impl From<SetError> for CommandFailure {
    fn from(error: SetError) -> Self {
        match error {
            // The value has just been given: where the others come from does not matter.
            SetError::Config(ConfigError::Invalid(invalid)) => Self::usage(invalid.to_string()),
            SetError::Config(error) => error.into(),
            other => Self::new(other.to_string()),
        }
    }
}

impl From<HomeNotFound> for CommandFailure {
    fn from(error: HomeNotFound) -> Self {
        let failure = Self::new(error.to_string());
        match error {
            HomeNotFound::NoHome | HomeNotFound::Relative { .. } => failure,
            HomeNotFound::UnknownProfile { name, existing, .. } => failure
                .with_exit(Exit::No)
                .suggest(name.as_str(), existing.iter().map(ProfileName::as_str)),
            HomeNotFound::BadProfileName { .. } | HomeNotFound::Choice { .. } => {
                failure.with_exit(Exit::No)
            }
        }
    }
}

impl From<ProfileError> for CommandFailure {
    fn from(error: ProfileError) -> Self {
        let failure = Self::new(error.to_string());
        match error {
            ProfileError::Home(error) => error.into(),
            ProfileError::Io { action, path, source } => {
                Self::io(&format!("{action} {}", path.display()), &source)
            }
            ProfileError::Missing { name, existing } => {
                failure.with_exit(Exit::No).suggest(name.as_str(), existing.split(", "))
            }
            ProfileError::Reserved { .. }
            | ProfileError::Exists { .. }
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

impl From<ConversationError> for CommandFailure {
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

impl From<DatabaseError> for CommandFailure {
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

impl From<BoardError> for CommandFailure {
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
fn next_step(refusal: &BoardRefusal) -> Option<String> {
    match refusal {
        BoardRefusal::Status { task, .. } => {
            Some(format!("to see its history: vestal kanban show {task}"))
        }
        BoardRefusal::Held { task, .. } => {
            Some(format!("to take it back first: vestal kanban reclaim {task}"))
        }
        BoardRefusal::UnfinishedParents { verb, task, .. } => (*verb == "promote")
            .then(|| format!("to start it anyway: vestal kanban promote {task} --force")),
        BoardRefusal::NothingToWaitFor { task } => {
            Some(format!("to link it: vestal kanban link PARENT {task}"))
        }
        BoardRefusal::WorkspaceBusy { by, .. } => {
            Some(format!("wait for {by}, or give the task a worktree of its own"))
        }
        BoardRefusal::NoProfile { name } => {
            Some(format!("to create it: vestal profile create {name}"))
        }
        BoardRefusal::Cycle { .. }
        | BoardRefusal::OtherHost { .. }
        | BoardRefusal::NotYours { .. }
        | BoardRefusal::Phantoms { .. }
        | BoardRefusal::TooMany { .. }
        | BoardRefusal::TooDeep { .. } => None,
    }
}

impl From<HostError> for CommandFailure {
    fn from(error: HostError) -> Self {
        match error {
            HostError::Config(error) => error.into(),
            other @ HostError::Unknown(_) => Self::new(other.to_string()),
        }
    }
}

impl From<ScheduleError> for CommandFailure {
    fn from(error: ScheduleError) -> Self {
        let failure = Self::new(error.to_string());
        match error {
            ScheduleError::NotFound { .. } | ScheduleError::InvalidId(_) => {
                failure.with_exit(Exit::No).advise("`vestal cron list` lists them")
            }
            ScheduleError::NoRun(_) => failure.with_exit(Exit::No),
            ScheduleError::Ambiguous { candidates, .. } => {
                candidates.iter().fold(failure.with_exit(Exit::No), |failure, (id, name)| {
                    failure.advise(format!("{id}  {name}"))
                })
            }
            ScheduleError::Timing(_) => InvalidTiming::EXAMPLES
                .iter()
                .fold(failure.with_exit(Exit::Usage), |failure, example| failure.advise(*example)),
            ScheduleError::NameTaken { id, .. } => failure
                .with_exit(Exit::No)
                .advise(format!("to change that one: vestal cron edit {id}")),
            ScheduleError::Zone(_)
            | ScheduleError::Never { .. }
            | ScheduleError::Invalid { .. } => failure.with_exit(Exit::Usage),
            ScheduleError::Running { id, .. } => {
                failure.with_exit(Exit::No).advise(format!("to see it: vestal cron runs {id}"))
            }
            ScheduleError::Unreadable { .. }
            | ScheduleError::Process(_)
            | ScheduleError::Random(_) => failure,
            ScheduleError::Database(error) => error.into(),
        }
    }
}

impl From<vestal_runtime::ScheduleError> for CommandFailure {
    fn from(error: vestal_runtime::ScheduleError) -> Self {
        match error {
            vestal_runtime::ScheduleError::Schedule(error) => error.into(),
            vestal_runtime::ScheduleError::Skill(error) => error.into(),
            vestal_runtime::ScheduleError::Conversation(error) => error.into(),
        }
    }
}

impl From<OpenError> for CommandFailure {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Store(error) => error.into(),
            other @ (OpenError::Task(_) | OpenError::Name(_)) => Self::new(other.to_string()),
        }
    }
}

impl From<RuntimeError> for CommandFailure {
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

impl From<EndpointError> for CommandFailure {
    fn from(error: EndpointError) -> Self {
        Self::no_endpoint(error, &ProfileName::default_profile())
    }
}

impl CommandFailure {
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

impl From<SetupError> for CommandFailure {
    fn from(error: SetupError) -> Self {
        Self::new(error.to_string())
    }
}
