//! Refusals and failures in the envelope of `OpenAI`'s API: a failure is never a 200.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Value, json};
use vestal_agent::{OpenError, Outcome, TurnError};
use vestal_conversations::Error as StoreError;
use vestal_model::ModelError;
use vestal_runtime::RuntimeError;

use crate::turns::TurnRefused;

/// Seconds after which a client that was refused for load should ask again.
const RETRY_AFTER: u64 = 2;

/// Why a request was not answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct ApiError {
    #[serde(skip)]
    status: StatusCode,
    #[serde(skip)]
    retry_after: Option<u64>,
    message: String,
    #[serde(rename = "type")]
    kind: &'static str,
    param: Option<&'static str>,
    code: String,
}

impl ApiError {
    fn new(status: StatusCode, kind: &'static str, code: &str, message: impl Into<String>) -> Self {
        Self {
            status,
            retry_after: None,
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

    pub(super) fn invalid(param: &'static str, message: impl Into<String>) -> Self {
        let error =
            Self::new(StatusCode::BAD_REQUEST, "invalid_request_error", "invalid_value", message);
        Self { param: Some(param), ..error }
    }

    pub(super) fn unsupported(param: &'static str, message: impl Into<String>) -> Self {
        let error = Self::new(
            StatusCode::BAD_REQUEST,
            "invalid_request_error",
            "unsupported_parameter",
            message,
        );
        Self { param: Some(param), ..error }
    }

    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "invalid_request_error", "not_found", message)
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

    fn upstream(status: StatusCode, error: &ModelError) -> Self {
        Self::new(status, "upstream_error", error.code(), error.to_string())
    }

    fn retry_after(self, seconds: u64) -> Self {
        Self { retry_after: Some(seconds.max(1)), ..self }
    }

    /// Returns the envelope.
    pub(super) fn body(&self) -> Value {
        json!({ "error": self })
    }

    /// Returns why a turn has no answer; nothing if it has one.
    pub(super) fn of_outcome(outcome: &Outcome) -> Option<Self> {
        match outcome {
            Outcome::Completed | Outcome::BudgetExhausted | Outcome::Refused => None,
            Outcome::Interrupted => Some(
                Self::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "server_error",
                    "interrupted",
                    "the turn was interrupted; what was said until then is kept in the session",
                )
                .retry_after(RETRY_AFTER),
            ),
            Outcome::Looping { reason } => {
                let status = StatusCode::INTERNAL_SERVER_ERROR;
                let message = format!("stopped because the model repeats itself: {reason}");
                Some(Self::new(status, "server_error", "looping", message))
            }
            Outcome::Failed(TurnError::Model(error)) => Some(error.into()),
            Outcome::Failed(TurnError::Empty { .. }) => {
                let message = outcome.error().unwrap_or_default();
                Some(Self::new(StatusCode::BAD_GATEWAY, "upstream_error", "empty_answer", message))
            }
            Outcome::Failed(TurnError::TooLong(message)) => Some(Self::new(
                StatusCode::BAD_REQUEST,
                "invalid_request_error",
                "context_length_exceeded",
                message,
            )),
            Outcome::Failed(TurnError::Store(error)) => Some(Self::internal(error.to_string())),
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
            TurnRefused::Store(error)
            | TurnRefused::Open(
                RuntimeError::Store(error) | RuntimeError::Open(OpenError::Store(error)),
            ) => error.into(),
            TurnRefused::Open(RuntimeError::Endpoint { .. }) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "server_error", "no_model", message)
            }
            TurnRefused::Open(_) => Self::internal(message),
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
            StoreError::Busy { .. } => {
                Self::new(StatusCode::CONFLICT, "invalid_request_error", "session_busy", message)
            }
            _ => Self::internal(message),
        }
    }
}

impl From<JsonRejection> for ApiError {
    fn from(rejection: JsonRejection) -> Self {
        let status = rejection.status();
        Self::new(status, "invalid_request_error", "invalid_body", rejection.body_text())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body())).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
