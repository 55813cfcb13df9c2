//! Why a request about a sandbox failed: a kind that programs tell apart, and what to do.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use vestal_board::BoardRefusal;
use vestal_sandbox::backend::BackendError;
use vestal_sandbox::client::CallError;
use vestal_sandbox::files::FileError;
use vestal_sandbox::job::JobError;
use vestal_sandbox::{CopyError, Error, Fault, FaultCode, JobId};

use crate::error::{self, RpcError};

/// What kind of failure it is: `data.kind` of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum FailureKind {
    /// A parameter is missing or has the wrong form.
    Invalid,
    /// There is no sandbox of this task.
    NoSandbox,
    /// There is no such job.
    NoJob,
    /// There is no such snapshot.
    NoSnapshot,
    /// There is no such file or directory.
    NoFile,
    /// There is no such task on the board.
    NoTask,
    /// There is one already: a file, a snapshot, a sandbox.
    Exists,
    /// What the request relies on has changed, or an edit does not apply.
    Conflict,
    /// A file is of the wrong kind, such as a directory.
    WrongKind,
    /// The file may not be used so.
    Denied,
    /// A disk or a limit is full.
    NoSpace,
    /// The directory for the command is not there.
    NoWorkdir,
    /// Jobs or other calls are in the way.
    Busy,
    /// The sandbox does not run, and the request needs it to.
    Stopped,
    /// The sandbox would have no isolation, which the caller or the settings ask for.
    NotIsolated,
    /// No backend can be used here, or not the one that was asked for.
    Unavailable,
    /// The sandbox is there and cannot be reached.
    Unreachable,
    /// A job can no longer be followed, and may still be running: `data.job`.
    Lost,
    /// The command has not run and never will: `data.job`.
    NeverStarted,
    /// Nobody can tell whether the command ran: `data.job`.
    OutcomeUnknown,
    /// The request was cancelled. Nothing of its command, `data.job`, is left.
    Cancelled,
    /// A setting has a wrong value.
    Settings,
    /// The sandbox or the machine failed.
    Failed,
}

/// The code of a request that was cancelled.
pub(super) const CANCELLED: i32 = -32800;

impl FailureKind {
    /// Returns the code of such an error.
    fn code(self) -> i32 {
        match self {
            Self::Invalid => error::BAD_PARAMS,
            Self::NoSandbox | Self::NoSnapshot | Self::NoFile | Self::NoTask | Self::NoWorkdir => {
                error::NOT_FOUND
            }
            Self::NoJob => error::NO_PROCESS,
            Self::Exists | Self::WrongKind | Self::Settings => error::BAD_VALUE,
            Self::Conflict => error::STALE,
            Self::Denied | Self::NotIsolated => error::NOT_PERMITTED,
            Self::Busy | Self::Stopped => error::BUSY,
            Self::Cancelled => CANCELLED,
            Self::NoSpace
            | Self::Unavailable
            | Self::Unreachable
            | Self::Lost
            | Self::NeverStarted
            | Self::OutcomeUnknown
            | Self::Failed => error::HOST,
        }
    }
}

/// A failure on its way to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SandboxFailure {
    kind: FailureKind,
    message: String,
    advice: Option<String>,
    job: Option<JobId>,
}

impl SandboxFailure {
    pub(super) fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), advice: None, job: None }
    }

    /// A parameter that cannot be used.
    pub(super) fn param(name: &str, problem: impl fmt::Display) -> Self {
        Self::new(FailureKind::Invalid, format!("params: {name}: {problem}"))
    }

    pub(super) fn cancelled(job: Option<JobId>) -> Self {
        let message = "the request was cancelled";
        Self { job, ..Self::new(FailureKind::Cancelled, message) }
    }

    pub(super) fn advise(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }

    pub(super) fn of_job(self, job: &JobId) -> Self {
        Self { job: Some(job.clone()), ..self }
    }
}

impl From<SandboxFailure> for RpcError {
    fn from(failure: SandboxFailure) -> Self {
        let advice: Vec<String> = failure.advice.into_iter().collect();
        let mut data = json!({ "kind": failure.kind, "advice": advice });
        if let Some(job) = failure.job {
            data["job"] = json!(job.as_str());
        }
        let code = failure.kind.code();
        Self { data: Some(data), ..Self::new(code, failure.message) }
    }
}

impl From<Error> for SandboxFailure {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        let new = |kind| Self::new(kind, message.clone());
        match error {
            Error::NoSandbox { .. } => new(FailureKind::NoSandbox)
                .advise("sandbox.open makes it; sandbox.list shows which there are"),
            Error::Stopped { .. } => {
                new(FailureKind::Stopped).advise("sandbox.open or a command starts it")
            }
            Error::Busy { .. } => new(FailureKind::Busy)
                .advise("wait for its jobs, kill them, or pass `stop` to end them"),
            Error::Tightened { .. } => new(FailureKind::Busy)
                .advise("the settings apply once its jobs have ended, or after sandbox.stop"),
            Error::Lock(_) => new(FailureKind::Busy).advise("try again in a while"),
            Error::Copy(copy) => {
                let kind = match &copy {
                    CopyError::NoSnapshot { .. } => FailureKind::NoSnapshot,
                    CopyError::SnapshotExists { .. } | CopyError::SandboxExists { .. } => {
                        FailureKind::Exists
                    }
                    CopyError::NoSpace { .. } => FailureKind::NoSpace,
                    CopyError::Underway { .. } => FailureKind::Busy,
                    CopyError::GivenUp { .. } => FailureKind::Cancelled,
                    _ => FailureKind::Unavailable,
                };
                new(kind).advise(copy.advice())
            }
            Error::NotConfined { .. } | Error::NotIsolated { .. } | Error::NotPermitted { .. } => {
                new(FailureKind::NotIsolated)
                    .advise("`vestal doctor` says what isolation works here and how to get more")
            }
            Error::NoBackend { .. } | Error::UnknownBackend { .. } => {
                new(FailureKind::Unavailable).advise("`vestal doctor` checks what works here")
            }
            Error::BackendChanged { task, was, .. } => new(FailureKind::Unavailable).advise(
                format!("open it with backend {was:?}, or move it with `vestal rebuild {task}`"),
            ),
            Error::OutOfReach { .. } | Error::Unresponsive { .. } | Error::Connect(_) => {
                new(FailureKind::Unreachable).advise("try again in a while")
            }
            Error::LostJob { job, .. } => {
                new(FailureKind::Lost).advise("job.wait tells whether it still runs").of_job(&job)
            }
            Error::NeverStarted { job } => {
                new(FailureKind::NeverStarted).advise("it is safe to run it again").of_job(&job)
            }
            Error::OutcomeUnknown { job } => new(FailureKind::OutcomeUnknown)
                .advise("look for its effects before running it again")
                .of_job(&job),
            Error::Backend { source, .. } | Error::StartFailed { source, .. } => {
                of_backend(message, &source)
            }
            Error::Config(_) => {
                new(FailureKind::Settings).advise("`vestal config check` names every wrong value")
            }
            Error::Bind { .. } | Error::TooWideMount { .. } | Error::Foreign { .. } => {
                new(FailureKind::Invalid)
            }
            Error::Credentials(error) => new(FailureKind::Failed).advise(error.advice()),
            Error::Call(error) => error.into(),
            Error::Job(error) => error.into(),
            Error::Home(_)
            | Error::Store(_)
            | Error::Sync(_)
            | Error::NotElsewhere { .. }
            | Error::Answers { .. }
            | Error::Publish(_) => new(FailureKind::Failed),
        }
    }
}

fn of_backend(message: String, error: &BackendError) -> SandboxFailure {
    let kind = match error {
        BackendError::Unreachable { .. } | BackendError::HostUnreachable { .. } => {
            FailureKind::Unreachable
        }
        BackendError::NoImage { .. } => FailureKind::Unavailable,
        _ => FailureKind::Failed,
    };
    let advice = error.advice().unwrap_or("`vestal doctor` checks what works here");
    SandboxFailure::new(kind, message).advise(advice)
}

fn of_fault(message: String, fault: &Fault) -> SandboxFailure {
    let new = |kind| SandboxFailure::new(kind, message);
    match fault.code {
        FaultCode::Invalid => new(FailureKind::Invalid),
        FaultCode::NoSuchJob => new(FailureKind::NoJob).advise("job.list shows which there are"),
        FaultCode::NoWorkdir => {
            new(FailureKind::NoWorkdir).advise("make the directory, or leave out `workdir`")
        }
        FaultCode::NotFound => {
            new(FailureKind::NoFile).advise("relative paths begin at the workspace")
        }
        FaultCode::Exists => new(FailureKind::Exists),
        FaultCode::WrongKind => new(FailureKind::WrongKind),
        FaultCode::Denied => new(FailureKind::Denied),
        FaultCode::Conflict => new(FailureKind::Conflict).advise("read the file again"),
        FaultCode::NoSpace => new(FailureKind::NoSpace).advise("remove what is not needed"),
        FaultCode::Busy => new(FailureKind::Busy),
        FaultCode::ShuttingDown => {
            new(FailureKind::Stopped).advise("try again; the sandbox is being stopped")
        }
        FaultCode::Cancelled => new(FailureKind::Cancelled),
        FaultCode::Internal
        | FaultCode::Unsupported
        | FaultCode::WrongInstance
        | FaultCode::System => new(FailureKind::Failed),
    }
}

impl From<JobError> for SandboxFailure {
    fn from(error: JobError) -> Self {
        let message = error.to_string();
        match error {
            JobError::Fault(fault) => of_fault(message, &fault),
            JobError::Invalid(_) => Self::new(FailureKind::Invalid, message),
            JobError::Lost { job, .. } | JobError::InputLost { job, .. } => {
                Self::new(FailureKind::Lost, message)
                    .advise("job.wait tells whether it still runs")
                    .of_job(&job)
            }
            _ => Self::new(FailureKind::Failed, message),
        }
    }
}

impl From<CallError> for SandboxFailure {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Fault(fault) => of_fault(fault.message.clone(), &fault),
            error => Self::new(FailureKind::Unreachable, error.to_string()).advise("try again"),
        }
    }
}

impl From<FileError> for SandboxFailure {
    fn from(error: FileError) -> Self {
        let message = error.to_string();
        match error {
            FileError::Call(error) => error.into(),
            FileError::TooLarge { .. } | FileError::Invalid(_) => {
                Self::new(FailureKind::Invalid, message)
            }
            FileError::Io(_) => Self::new(FailureKind::Failed, message),
        }
    }
}

impl From<vestal_board::Error> for SandboxFailure {
    fn from(error: vestal_board::Error) -> Self {
        let message = error.to_string();
        let kind = match &error {
            vestal_board::Error::NotFound { .. } | vestal_board::Error::Ambiguous { .. } => {
                FailureKind::NoTask
            }
            vestal_board::Error::InvalidId(_) | vestal_board::Error::Invalid { .. } => {
                FailureKind::Invalid
            }
            vestal_board::Error::Refused(BoardRefusal::Held { .. }) => FailureKind::Busy,
            vestal_board::Error::Refused(_) | vestal_board::Error::Fenced { .. } => {
                FailureKind::Conflict
            }
            _ => FailureKind::Failed,
        };
        Self::new(kind, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_its_kind_its_advice_and_the_job_it_is_about() {
        let job: JobId = "j-1".parse().unwrap();
        let error = RpcError::from(SandboxFailure::from(Error::OutcomeUnknown { job }));
        assert_eq!(error.code, 5019);
        assert_eq!(
            error.data.unwrap(),
            json!({
                "kind": "outcome_unknown",
                "advice": ["look for its effects before running it again"],
                "job": "j-1",
            })
        );
    }
}
