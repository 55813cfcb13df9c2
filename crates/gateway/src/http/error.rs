//! Refusals and failures in the envelope of `OpenAI`'s API: a failure is never a 200.

mod conversions;
mod words;

use std::borrow::Cow;

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Value, json};

use super::{MAX_BODY, SESSION_HEADER};

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
            "the gateway ended while the run was in progress, and it cannot continue: {reason}; its messages until then are kept in the session"
        );
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "server_error", "interrupted", message)
    }

    /// A run has ended too many gateways.
    pub(crate) fn run_given_up() -> Self {
        let message = "three gateways died over this run, and it is not tried again; its messages until then are kept in the session, and a message there continues it";
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

    /// The task of a turn is gone, and its outcome is unknown.
    pub(crate) fn lost_turn() -> Self {
        Self { ran: true, ..Self::internal("the turn ended without a result") }
    }

    /// There is no space to store what is said, or what a request writes.
    fn no_space(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INSUFFICIENT_STORAGE, "server_error", "no_space", message)
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
