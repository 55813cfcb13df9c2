//! Refusals and failures as pages get them: `{"error","detail","advice"?,"login_url"?}`.

use std::time::Duration;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use vestal_sandbox::client::CallError;
use vestal_sandbox::job::JobError;

/// Why a request was not answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PageError {
    #[serde(skip)]
    status: StatusCode,
    #[serde(skip)]
    retry_after: Option<Duration>,
    error: &'static str,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    login_url: Option<&'static str>,
}

impl PageError {
    pub(crate) fn new(status: StatusCode, error: &'static str, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self { status, retry_after: None, error, detail, advice: None, login_url: None }
    }

    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid", detail)
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", detail)
    }

    pub(crate) fn internal(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
    }

    /// What was asked for cannot be had now: its store or its engine does not answer.
    pub(crate) fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail)
    }

    pub(crate) fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", detail)
    }

    pub(crate) fn too_many(wait: Duration) -> Self {
        let seconds = wait.as_secs() + 1;
        let detail = format!("too many attempts; try again in {seconds} s");
        let error = Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_attempts", detail);
        Self { retry_after: Some(Duration::from_secs(seconds)), ..error }
    }

    pub(crate) fn login_url(self, url: &'static str) -> Self {
        Self { login_url: Some(url), ..self }
    }

    pub(crate) fn advise(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }

    /// Returns what went wrong, in words.
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        let (status, retry_after) = (self.status, self.retry_after);
        let mut response = (status, Json(self)).into_response();
        if let Some(wait) = retry_after {
            let wait = HeaderValue::from(wait.as_secs());
            response.headers_mut().insert(header::RETRY_AFTER, wait);
        }
        response
    }
}

impl From<vestal_database::Error> for PageError {
    fn from(error: vestal_database::Error) -> Self {
        Self::unavailable(error.to_string())
    }
}

impl From<vestal_sandbox::Error> for PageError {
    fn from(error: vestal_sandbox::Error) -> Self {
        use vestal_sandbox::Error;
        let detail = error.to_string();
        match error {
            Error::NoSandbox { .. } => Self::not_found(detail),
            Error::Stopped { .. } => Self::conflict(detail),
            _ => Self::unavailable(detail),
        }
    }
}

impl From<CallError> for PageError {
    fn from(error: CallError) -> Self {
        Self::unavailable(error.to_string())
    }
}

impl From<JobError> for PageError {
    fn from(error: JobError) -> Self {
        Self::unavailable(error.to_string())
    }
}

impl From<vestal_board::Error> for PageError {
    fn from(error: vestal_board::Error) -> Self {
        use vestal_board::Error;
        let detail = error.to_string();
        match error {
            Error::NotFound { .. } => Self::not_found(detail),
            Error::Ambiguous { .. } | Error::Refused(_) => Self::conflict(detail),
            Error::Invalid { .. } | Error::InvalidId(_) => Self::invalid(detail),
            _ => Self::unavailable(detail),
        }
    }
}

impl From<vestal_conversations::Error> for PageError {
    fn from(error: vestal_conversations::Error) -> Self {
        use vestal_conversations::Error;
        let detail = error.to_string();
        match error {
            Error::NotFound { .. } => Self::not_found(detail),
            Error::Ambiguous { .. } => Self::conflict(detail),
            _ => Self::unavailable(detail),
        }
    }
}
