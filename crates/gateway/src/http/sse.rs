//! Streams of events, as browsers and SDKs read them.

use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::Stream;
use serde::Serialize;
use serde_json::Value;

/// How often a silent stream shows that it is alive. A reader that is gone is noticed by that.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Returns an event that is data alone.
pub(super) fn data(data: &impl Serialize) -> SseEvent {
    // What is sent is made of texts and numbers, which can always be written.
    SseEvent::default().json_data(data).unwrap_or_default()
}

/// Returns an event with a name.
pub(super) fn named(name: &str, data: &Value) -> SseEvent {
    SseEvent::default().event(name).data(data.to_string())
}

/// Returns the response that sends events.
pub(super) fn response(
    events: impl Stream<Item = Result<SseEvent, Infallible>> + Send + 'static,
) -> Response {
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}
