//! One line in the log for each request, and an answer for one whose handler panics.

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Request};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures_util::FutureExt as _;
use http_body::{Body as HttpBody, Frame, SizeHint};

use super::SESSION_HEADER;
use super::error::ApiError;
use crate::panics::{Contained, contained, reason};

/// Characters of a path that are logged.
const MAX_PATH: usize = 256;

/// Logs a request when its answer has left: never what is in it, nor the query, which may hold a key.
pub(super) async fn log(request: Request, next: Next) -> Response {
    let remote = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0);
    let mut line = RequestLine {
        began: Instant::now(),
        method: request.method().clone(),
        path: request.uri().path().chars().take(MAX_PATH).collect(),
        remote,
        status: StatusCode::INTERNAL_SERVER_ERROR,
        session: None,
        bytes: 0,
        outcome: ResponseEnd::Left,
        is_logged: false,
    };
    let answered = AssertUnwindSafe(Contained::new(next.run(request))).catch_unwind().await;
    let response = answered.unwrap_or_else(|panic| {
        let (method, path) = (&line.method, &line.path);
        tracing::error!(%method, path, "a request was not answered: {}", reason(&*panic));
        let message = "the server has met a bug; its log says more";
        ApiError::internal(message.to_owned()).into_response()
    });
    line.status = response.status();
    line.session = session(response.headers());
    response.map(|body| Body::new(LoggedBody { body, line }))
}

fn session(headers: &HeaderMap) -> Option<String> {
    Some(headers.get(SESSION_HEADER)?.to_str().ok()?.to_owned())
}

/// What is logged of a request. Logged at the latest when it is dropped: a client may leave at any
/// time.
#[derive(Debug)]
struct RequestLine {
    began: Instant,
    method: Method,
    path: String,
    remote: Option<SocketAddr>,
    status: StatusCode,
    session: Option<String>,
    /// Bytes of the answer that have left.
    bytes: u64,
    outcome: ResponseEnd,
    is_logged: bool,
}

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResponseEnd {
    Whole,
    /// The client went away before its end.
    Left,
    /// It could not be finished.
    Broken,
}

impl RequestLine {
    fn end(&mut self, outcome: ResponseEnd) {
        if std::mem::replace(&mut self.is_logged, true) {
            return;
        }
        let Self { method, path, bytes, .. } = &*self;
        let status = self.status.as_u16();
        let ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let remote = self.remote.map(tracing::field::display);
        let session = self.session.as_deref();
        let ended = match outcome {
            ResponseEnd::Whole => None,
            ResponseEnd::Left => Some("client left"),
            ResponseEnd::Broken => Some("broken"),
        };
        // Probes come every few seconds; that they are answered is not news.
        let is_probe = matches!(path.as_str(), "/health" | "/v1/health");
        if self.status.is_server_error() || outcome == ResponseEnd::Broken {
            tracing::warn!(%method, path, status, ms, bytes, remote, session, ended, "request");
        } else if is_probe {
            tracing::debug!(%method, path, status, ms, bytes, remote, session, ended, "request");
        } else {
            tracing::info!(%method, path, status, ms, bytes, remote, session, ended, "request");
        }
    }
}

impl Drop for RequestLine {
    fn drop(&mut self) {
        self.end(self.outcome);
    }
}

/// The body of an answer, counted while it leaves.
#[derive(Debug)]
struct LoggedBody {
    body: Body,
    line: RequestLine,
}

impl HttpBody for LoggedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Self { body, line } = self.get_mut();
        let polled = catch_unwind(AssertUnwindSafe(|| {
            contained(|| Pin::new(&mut *body).poll_frame(context))
        }));
        let frame = match polled {
            Ok(polled) => ready!(polled),
            Err(panic) => {
                *body = Body::empty();
                let reason = reason(&*panic).to_owned();
                Some(Err(axum::Error::new(std::io::Error::other(reason))))
            }
        };
        match &frame {
            Some(Ok(frame)) => line.bytes += frame.data_ref().map_or(0, |data| data.len() as u64),
            Some(Err(error)) => {
                tracing::error!(path = line.path, %error, "an answer was cut short");
                line.end(ResponseEnd::Broken);
            }
            None => line.end(ResponseEnd::Whole),
        }
        // A body of known length is dropped after its last byte, without another look.
        if body.is_end_stream() && line.outcome == ResponseEnd::Left {
            line.outcome = ResponseEnd::Whole;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
#[path = "request_log_tests.rs"]
mod tests;
