//! Failures of what the API server uses, as answers.

use axum::http::StatusCode;
use vestal_agent::{OpenError, TurnError, TurnOutcome};
use vestal_conversations::Error as StoreError;
use vestal_model::ModelError;
use vestal_runtime::RuntimeError;
use vestal_sandbox::client::CallError;
use vestal_sandbox::files::FileError;
use vestal_sandbox::job::JobError;
use vestal_sandbox::{CopyError, Error as SandboxError, Fault, FaultCode};
use vestal_schedules::Error as ScheduleError;

use super::{ApiError, RETRY_AFTER};
use crate::runs::RunRefused;
use crate::turns::TurnRefused;

impl ApiError {
    /// What a guest said of a request.
    fn of_fault(fault: &Fault) -> Self {
        let message = &fault.message;
        match fault.code {
            FaultCode::NoSuchJob => Self::gone("job_not_found", message),
            FaultCode::NotFound => Self::gone("file_not_found", message),
            FaultCode::NoWorkdir => Self::invalid("workdir", message),
            FaultCode::Invalid | FaultCode::WrongKind => Self::invalid("path", message),
            FaultCode::Exists => Self::conflict("file_exists", message),
            FaultCode::Conflict | FaultCode::Busy => Self::conflict("conflict", message),
            FaultCode::Denied => {
                Self::new(StatusCode::FORBIDDEN, "invalid_request_error", "denied", message)
            }
            FaultCode::NoSpace => Self::no_space(message),
            FaultCode::ShuttingDown | FaultCode::Cancelled => {
                Self::unavailable("sandbox_unavailable", message)
            }
            FaultCode::Internal
            | FaultCode::Unsupported
            | FaultCode::WrongInstance
            | FaultCode::System => Self::internal(message).code("sandbox_failed"),
        }
    }

    fn upstream(status: StatusCode, error: &ModelError) -> Self {
        Self::new(status, "upstream_error", error.code(), error.to_string())
    }

    /// Returns why a turn has no answer; nothing if it has one.
    pub(crate) fn of_outcome(outcome: &TurnOutcome) -> Option<Self> {
        Self::failure(outcome).map(|error| Self { ran: true, ..error })
    }

    fn failure(outcome: &TurnOutcome) -> Option<Self> {
        match outcome {
            TurnOutcome::Completed | TurnOutcome::BudgetExhausted | TurnOutcome::Refused => None,
            TurnOutcome::Interrupted => Some(
                Self::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "server_error",
                    "interrupted",
                    "the turn was interrupted; its messages until then are kept in the session",
                )
                .retry_after(RETRY_AFTER),
            ),
            TurnOutcome::Looping { reason } => {
                let status = StatusCode::INTERNAL_SERVER_ERROR;
                let message = format!("stopped because the model repeats itself: {reason}");
                Some(Self::new(status, "server_error", "looping", message))
            }
            TurnOutcome::Failed(TurnError::Model(error)) => Some(error.into()),
            TurnOutcome::Failed(TurnError::Empty { .. }) => {
                let message = outcome.error().unwrap_or_default();
                Some(Self::new(StatusCode::BAD_GATEWAY, "upstream_error", "empty_answer", message))
            }
            TurnOutcome::Failed(TurnError::TooLong(message)) => Some(Self::new(
                StatusCode::BAD_REQUEST,
                "invalid_request_error",
                "context_length_exceeded",
                message,
            )),
            TurnOutcome::Failed(TurnError::Store(error)) if error.is_full() => {
                Some(Self::no_space(error.to_string()))
            }
            TurnOutcome::Failed(TurnError::Store(error)) => Some(Self::internal(error.to_string())),
        }
    }
}

/// What the provider said decides the status; a fault of this server's configuration is one of
/// this server, not of the client.
impl From<&ModelError> for ApiError {
    fn from(error: &ModelError) -> Self {
        match error {
            ModelError::RateLimited { retry_after, .. } => {
                let seconds = retry_after.map_or(RETRY_AFTER, |after| after.as_secs());
                Self::upstream(StatusCode::TOO_MANY_REQUESTS, error).retry_after(seconds)
            }
            ModelError::Timeout { .. } => Self::upstream(StatusCode::GATEWAY_TIMEOUT, error),
            ModelError::BadRequest { .. } | ModelError::ContextOverflow { .. } => {
                Self::upstream(StatusCode::BAD_REQUEST, error)
            }
            ModelError::Exhausted { failures } => match failures.last() {
                Some(last) => Self { message: error.to_string(), ..Self::from(last) },
                None => Self::upstream(StatusCode::BAD_GATEWAY, error),
            },
            ModelError::NotConfigured { .. } => {
                Self::upstream(StatusCode::SERVICE_UNAVAILABLE, error)
            }
            _ => Self::upstream(StatusCode::BAD_GATEWAY, error),
        }
    }
}

impl From<TurnRefused> for ApiError {
    fn from(refused: TurnRefused) -> Self {
        let message = refused.to_string();
        match refused {
            TurnRefused::Busy { .. } => Self::new(
                StatusCode::TOO_MANY_REQUESTS,
                "rate_limit_error",
                "too_many_runs",
                message,
            )
            .retry_after(RETRY_AFTER),
            TurnRefused::Draining => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "server_error", "draining", message)
                    .retry_after(RETRY_AFTER)
            }
            TurnRefused::MovedOn => Self::conflict("session_busy", message),
            TurnRefused::Store(error)
            | TurnRefused::Open(
                RuntimeError::Store(error) | RuntimeError::Open(OpenError::Store(error)),
            ) => error.into(),
            TurnRefused::Open(RuntimeError::Endpoint { .. }) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "server_error", "no_model", message)
            }
            TurnRefused::Lost | TurnRefused::Open(_) => Self::internal(message),
        }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let message = error.to_string();
        if error.is_full() {
            return Self::no_space(message);
        }
        match error {
            StoreError::NotFound { .. } | StoreError::InvalidId(_) => {
                Self { code: "session_not_found".to_owned(), ..Self::not_found(message) }
            }
            StoreError::NoMessage { .. } => Self::gone("message_not_found", message),
            StoreError::TitleTaken { .. } => Self::conflict("title_taken", message),
            StoreError::InvalidTitle(_) => Self::invalid("title", message),
            StoreError::Busy { .. } => {
                Self::new(StatusCode::CONFLICT, "invalid_request_error", "session_busy", message)
            }
            _ => Self::internal(message),
        }
    }
}

impl From<ScheduleError> for ApiError {
    fn from(error: ScheduleError) -> Self {
        let message = error.to_string();
        match error {
            ScheduleError::NotFound { .. } | ScheduleError::InvalidId(_) => {
                Self { code: "job_not_found".to_owned(), ..Self::not_found(message) }
            }
            ScheduleError::Running { .. } => {
                Self::new(StatusCode::CONFLICT, "invalid_request_error", "job_running", message)
            }
            ScheduleError::NameTaken { .. } => Self::conflict("name_taken", message),
            ScheduleError::Timing(_) | ScheduleError::Never { .. } => {
                Self::invalid("schedule", message)
            }
            ScheduleError::Zone(_) => Self::invalid("timezone", message),
            ScheduleError::Invalid { .. } => {
                let status = StatusCode::BAD_REQUEST;
                Self::new(status, "invalid_request_error", "invalid_value", message)
            }
            ScheduleError::Database(error) if error.is_full() => Self::no_space(message),
            ScheduleError::Database(_) => Self::unavailable("schedules_unavailable", message),
            ScheduleError::Ambiguous { .. }
            | ScheduleError::NoRun(_)
            | ScheduleError::Unreadable { .. }
            | ScheduleError::Process(_)
            | ScheduleError::Random(_) => Self::internal(message),
        }
    }
}

impl From<RunRefused> for ApiError {
    fn from(refused: RunRefused) -> Self {
        match refused {
            RunRefused::Turn(refused) => refused.into(),
            RunRefused::Store(error) => error.into(),
            RunRefused::Id(error) => Self::internal(error.to_string()),
        }
    }
}

/// The store of the API server itself failed.
impl From<vestal_database::Error> for ApiError {
    fn from(error: vestal_database::Error) -> Self {
        tracing::error!(%error, "the store of the API server failed");
        if error.is_full() {
            return Self::no_space(error.to_string());
        }
        Self::unavailable("store_unavailable", error.to_string())
    }
}

impl From<SandboxError> for ApiError {
    fn from(error: SandboxError) -> Self {
        let message = error.to_string();
        let with = |status, kind, code: &str, message| Self::new(status, kind, code, message);
        let request = "invalid_request_error";
        match error {
            SandboxError::NoSandbox { .. } => Self::gone("sandbox_not_found", message),
            SandboxError::Stopped { .. } => Self::conflict("sandbox_stopped", message),
            SandboxError::Busy { .. } | SandboxError::Tightened { .. } => {
                Self::conflict("sandbox_busy", message)
            }
            SandboxError::Copy(error) => {
                let message = format!("{message}; {}", error.advice());
                match error {
                    CopyError::NoSnapshot { .. } => Self::gone("snapshot_not_found", message),
                    CopyError::SnapshotExists { .. } => Self::conflict("snapshot_exists", message),
                    CopyError::SandboxExists { .. } => Self::conflict("sandbox_exists", message),
                    CopyError::NoSpace { .. } => {
                        with(StatusCode::INSUFFICIENT_STORAGE, "server_error", "no_space", message)
                    }
                    _ => Self::conflict("copy_refused", message),
                }
            }
            SandboxError::NotPermitted { backend, .. } => Self::forbidden(&format!(
                "{message}; the operator permits it with `vestal config set api_server.backends {backend}`"
            ))
            .code("backend_not_permitted"),
            SandboxError::NotConfined { .. } => {
                Self::forbidden(&message).code("backend_not_permitted")
            }
            SandboxError::BackendChanged { .. } => Self::conflict("backend_changed", message),
            SandboxError::Call(error) => error.into(),
            SandboxError::Job(JobError::Fault(fault)) => Self::of_fault(&fault),
            SandboxError::Job(JobError::Invalid(_)) => {
                with(StatusCode::BAD_REQUEST, request, "invalid_value", message)
            }
            SandboxError::OutOfReach { .. }
            | SandboxError::NoBackend { .. }
            | SandboxError::Lock(_) => Self::unavailable("sandbox_unavailable", message),
            _ => Self::internal(message).code("sandbox_failed"),
        }
    }
}

impl From<CallError> for ApiError {
    fn from(error: CallError) -> Self {
        match &error {
            CallError::Fault(fault) => Self::of_fault(fault),
            _ => Self::unavailable("sandbox_unavailable", error.to_string()),
        }
    }
}

impl From<JobError> for ApiError {
    fn from(error: JobError) -> Self {
        SandboxError::from(error).into()
    }
}

impl From<FileError> for ApiError {
    fn from(error: FileError) -> Self {
        let message = error.to_string();
        match error {
            FileError::Call(error) => error.into(),
            FileError::TooLarge { .. } => Self::invalid("limit", message),
            // What came from the client broke off.
            FileError::Io(_) | FileError::Invalid(_) => Self::invalid("path", message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_507_whatever_could_not_be_stored() {
        let full = || vestal_database::Error::Full { path: "/h/x.db".into() };
        let no_space = std::io::Error::from(std::io::ErrorKind::StorageFull);
        for error in [
            ApiError::from(full()),
            StoreError::Database(full()).into(),
            StoreError::Io { path: "/h/leases/x".into(), source: no_space }.into(),
            ScheduleError::Database(full()).into(),
            RunRefused::Store(full()).into(),
            TurnRefused::Store(StoreError::Database(full())).into(),
            SandboxError::Call(CallError::Fault(Fault::new(FaultCode::NoSpace, "full"))).into(),
        ] {
            assert_eq!((error.status.as_u16(), &*error.code), (507, "no_space"), "{error:?}");
        }
    }
}
