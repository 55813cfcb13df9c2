//! Refusals and failures in the envelope of `OpenAI`'s API: a failure is never a 200.

mod words;

use std::borrow::Cow;

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Value, json};
use vestal_agent::{OpenError, TurnError, TurnOutcome};
use vestal_conversations::Error as StoreError;
use vestal_model::ModelError;
use vestal_runtime::RuntimeError;
use vestal_sandbox::client::CallError;
use vestal_sandbox::files::FileError;
use vestal_sandbox::job::JobError;
use vestal_sandbox::{CopyError, Error as SandboxError, Fault, FaultCode};
use vestal_schedules::Error as ScheduleError;

use super::{MAX_BODY, SESSION_HEADER};
use crate::runs::RunRefused;
use crate::turns::TurnRefused;

/// Seconds after which a client that was refused for load should ask again.
const RETRY_AFTER: u64 = 2;

/// Marks a failure of a turn that ran: whatever it did, it did.
#[derive(Debug, Clone, Copy)]
pub(super) struct TurnRan;

/// Why a request was not answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ApiError {
    #[serde(skip)]
    status: StatusCode,
    #[serde(skip)]
    retry_after: Option<u64>,
    /// Whether a turn ran: it may have done something, so a repeated request gets this answer.
    #[serde(skip)]
    ran: bool,
    /// The session of a turn that ran: it has what was said until then.
    #[serde(skip)]
    session: Option<HeaderValue>,
    message: String,
    #[serde(rename = "type")]
    kind: &'static str,
    param: Option<Cow<'static, str>>,
    code: String,
}

impl ApiError {
    fn new(status: StatusCode, kind: &'static str, code: &str, message: impl Into<String>) -> Self {
        Self {
            status,
            retry_after: None,
            ran: false,
            session: None,
            message: message.into(),
            kind,
            param: None,
            code: code.to_owned(),
        }
    }

    pub(super) fn unauthorized(message: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "invalid_request_error", "invalid_api_key", message)
    }

    pub(super) fn forbidden(message: &str) -> Self {
        Self::new(StatusCode::FORBIDDEN, "invalid_request_error", "forbidden", message)
    }

    pub(super) fn overloaded(message: &str) -> Self {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        Self::new(status, "server_error", "overloaded", message).retry_after(RETRY_AFTER)
    }

    pub(super) fn invalid(param: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        let error =
            Self::new(StatusCode::BAD_REQUEST, "invalid_request_error", "invalid_value", message);
        Self { param: Some(param.into()), ..error }
    }

    pub(super) fn unsupported(param: &'static str, message: impl Into<String>) -> Self {
        let error = Self::new(
            StatusCode::BAD_REQUEST,
            "invalid_request_error",
            "unsupported_parameter",
            message,
        );
        Self { param: Some(param.into()), ..error }
    }

    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "invalid_request_error", "not_found", message)
    }

    /// Returns it with another code.
    pub(super) fn code(self, code: &str) -> Self {
        Self { code: code.to_owned(), ..self }
    }

    /// The body of a request did not come, or was too large.
    pub(super) fn of_body(error: &axum::Error) -> Self {
        let is_large = std::error::Error::source(error)
            .is_some_and(|source| source.to_string().contains("length limit"));
        Self::without_body(if is_large {
            StatusCode::PAYLOAD_TOO_LARGE
        } else {
            StatusCode::BAD_REQUEST
        })
    }

    fn without_body(status: StatusCode) -> Self {
        let message = match status {
            StatusCode::PAYLOAD_TOO_LARGE => {
                format!("the body is larger than {} MiB", MAX_BODY >> 20)
            }
            StatusCode::REQUEST_TIMEOUT => "the body did not come in time".to_owned(),
            _ => "the body broke off before its end".to_owned(),
        };
        Self::new(status, "invalid_request_error", "invalid_body", message)
    }

    /// A parameter of the query is missing or cannot be read.
    pub(super) fn of_query(rejection: &QueryRejection) -> Self {
        let text = rejection.body_text();
        let (param, message) = words::of_query(&text);
        let error =
            Self::new(StatusCode::BAD_REQUEST, "invalid_request_error", "invalid_value", message);
        Self { param: param.map(Cow::Owned), ..error }
    }

    /// A run cannot go on after its gateway ended.
    pub(crate) fn run_lost(reason: &str) -> Self {
        let message = format!(
            "the gateway ended while the run was in progress, and it cannot go on: {reason}; what was said until then is kept in the session"
        );
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "server_error", "interrupted", message)
    }

    /// A run has ended too many gateways.
    pub(crate) fn run_given_up() -> Self {
        let message = "three gateways died over this run, and it is not tried again; what was said until then is kept in the session, and a message there goes on with it";
        Self::internal(message).code("given_up")
    }

    /// What was asked for is not there, or not any more.
    pub(super) fn gone(code: &str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "invalid_request_error", code, message)
    }

    /// It cannot be done as things are.
    pub(super) fn conflict(code: &str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "invalid_request_error", code, message)
    }

    /// It cannot be done now, and may be in a while.
    pub(super) fn unavailable(code: &str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "server_error", code, message)
            .retry_after(RETRY_AFTER)
    }

    pub(super) fn method_not_allowed() -> Self {
        let status = StatusCode::METHOD_NOT_ALLOWED;
        Self::new(
            status,
            "invalid_request_error",
            "method_not_allowed",
            "this route has no such method",
        )
    }

    pub(super) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", "internal_error", message)
    }

    /// The task of a turn is gone, and nobody knows what became of it.
    pub(crate) fn lost_turn() -> Self {
        Self { ran: true, ..Self::internal("the turn ended without a result") }
    }

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
            FaultCode::NoSpace => {
                let status = StatusCode::INSUFFICIENT_STORAGE;
                Self::new(status, "server_error", "no_space", message)
            }
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

    pub(super) fn retry_after(self, seconds: u64) -> Self {
        Self { retry_after: Some(seconds.max(1)), ..self }
    }

    /// Returns it with the session that it happened in.
    pub(super) fn in_session(self, session: &HeaderValue) -> Self {
        Self { session: Some(session.clone()), ..self }
    }

    /// Returns the envelope.
    pub(crate) fn body(&self) -> Value {
        json!({ "error": self })
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
                    "the turn was interrupted; what was said until then is kept in the session",
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
            ScheduleError::Timing(_) | ScheduleError::Never { .. } => {
                Self::invalid("schedule", message)
            }
            ScheduleError::Zone(_) => Self::invalid("timezone", message),
            ScheduleError::Invalid { .. } => {
                let status = StatusCode::BAD_REQUEST;
                Self::new(status, "invalid_request_error", "invalid_value", message)
            }
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

impl ApiError {
    /// Returns the error for a request that does not ask for a WebSocket.
    pub(super) fn of_upgrade(rejection: &WebSocketUpgradeRejection) -> Self {
        let (status, text) = (rejection.status(), rejection.body_text());
        Self::new(status, "invalid_request_error", "invalid_upgrade", text)
    }
}

impl From<JsonRejection> for ApiError {
    fn from(rejection: JsonRejection) -> Self {
        let status = rejection.status();
        let with =
            |message: String| Self::new(status, "invalid_request_error", "invalid_body", message);
        match &rejection {
            JsonRejection::JsonDataError(error) => {
                let (param, message) = words::of_data(error);
                Self { param: param.map(Cow::Owned), ..with(message) }
            }
            JsonRejection::JsonSyntaxError(error) => with(words::of_syntax(error)),
            JsonRejection::MissingJsonContentType(_) => {
                with("the body must be JSON: send Content-Type: application/json".to_owned())
            }
            _ => Self::without_body(status),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body())).into_response();
        if self.ran {
            response.extensions_mut().insert(TurnRan);
        }
        let headers = response.headers_mut();
        if let Some(session) = self.session {
            headers.insert(SESSION_HEADER, session);
        }
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
