//! Why a tool did not do what was asked, in words that say what to do.

use std::fmt;

use rmcp::model::{CallToolResult, ContentBlock};
use vestal_sandbox::client::CallError;
use vestal_sandbox::files::FileError;
use vestal_sandbox::job::JobError;
use vestal_sandbox::{Error, Fault, FaultCode};

/// What a call was answered with instead of a result. The model reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolFailure {
    message: String,
    advice: Option<String>,
}

impl ToolFailure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), advice: None }
    }

    pub(crate) fn advise(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }

    /// An argument that cannot be used.
    pub(crate) fn argument(name: &str, problem: impl fmt::Display) -> Self {
        Self::new(format!("invalid argument `{name}`: {problem}"))
    }
}

impl fmt::Display for ToolFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.advice {
            Some(advice) => write!(f, "\nWhat to do: {advice}"),
            None => Ok(()),
        }
    }
}

impl From<ToolFailure> for CallToolResult {
    fn from(failure: ToolFailure) -> Self {
        Self::error(vec![ContentBlock::text(failure.to_string())])
    }
}

fn of_fault(message: String, fault: &Fault) -> ToolFailure {
    let failure = ToolFailure::new(message);
    match fault.code {
        FaultCode::NoSuchJob => failure.advise("job_list lists the jobs of the sandbox"),
        FaultCode::NotFound => {
            failure.advise("file_list shows what is there; relative paths begin at the workspace")
        }
        FaultCode::NoWorkdir => failure.advise("create the directory, or leave out `workdir`"),
        FaultCode::NoSpace => failure.advise("remove files that are not needed"),
        FaultCode::ShuttingDown => failure.advise("try again; the sandbox is being stopped"),
        _ => failure,
    }
}

impl From<Error> for ToolFailure {
    fn from(error: Error) -> Self {
        let failure = Self::new(error.to_string());
        match error {
            Error::NoSandbox { .. } => failure.advise(
                "sandbox_list lists the sandboxes; without `task`, your own is used, and made by its first command or file",
            ),
            Error::Stopped { .. } => failure.advise("the next `run` starts it"),
            Error::Busy { .. } => failure.advise(
                "job_list shows what runs; wait for it, kill it, or pass `stop: true` to end it",
            ),
            Error::Tightened { .. } => failure.advise(
                "the user's settings apply once its jobs have ended, or after sandbox_stop",
            ),
            Error::Copy(error) => failure.advise(error.advice()),
            Error::NotConfined { .. } => failure.advise(
                "tell the user: install what `vestal doctor` names for isolated sandboxes, or start the server with `vestal mcp serve --allow-local`, which lets you run commands on their machine",
            ),
            Error::NotPermitted { backend, .. } => failure.advise(format!(
                "tell the user: `vestal config set api_server.backends {backend}` permits it"
            )),
            Error::NoBackend { .. } | Error::NotIsolated { .. } | Error::Connect(_) => {
                failure.advise("tell the user to run `vestal doctor`")
            }
            Error::BackendChanged { task, was, .. } => failure.advise(format!(
                "tell the user: start the server with `-b {was}`, or move the sandbox with `vestal rebuild {task}`"
            )),
            Error::OutOfReach { .. } | Error::Unresponsive { .. } | Error::Lock(_) => {
                failure.advise("try again in a while")
            }
            Error::LostJob { .. } => failure.advise("job_list shows whether it still runs"),
            Error::NeverStarted { .. } => failure.advise("it is safe to run it again"),
            Error::OutcomeUnknown { .. } => {
                failure.advise("look for its effects before you run it again")
            }
            Error::Call(error) => error.into(),
            Error::Job(error) => error.into(),
            _ => failure,
        }
    }
}

impl From<JobError> for ToolFailure {
    fn from(error: JobError) -> Self {
        let message = error.to_string();
        match error {
            JobError::Fault(fault) => of_fault(message, &fault),
            JobError::Lost { .. } => {
                Self::new(message).advise("job_list shows whether it still runs")
            }
            _ => Self::new(message),
        }
    }
}

impl From<CallError> for ToolFailure {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Fault(fault) => of_fault(fault.message.clone(), &fault),
            error => Self::new(error.to_string()).advise("try again"),
        }
    }
}

impl From<FileError> for ToolFailure {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Call(error) => error.into(),
            error => Self::new(error.to_string()),
        }
    }
}

impl From<vestal_board::Error> for ToolFailure {
    fn from(error: vestal_board::Error) -> Self {
        Self::new(error.to_string())
    }
}
