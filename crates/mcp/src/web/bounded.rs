//! Asking a server that has an address, with a bound on all it may answer.
//!
//! The SDK's own client bounds the events of a stream, but reads a plain answer
//! to its end whatever its length.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use http::header::{ACCEPT, CONTENT_TYPE, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use reqwest::{Client, Response};
use rmcp::model::{ClientJsonRpcMessage, ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, SseError, StreamableHttpClient, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};

use super::Pace;
use crate::lines::LONGEST;
use crate::tool::one_line;

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
const SESSION: &str = "mcp-session-id";

/// What is most often wrong with an address where there is a server, but none of tools.
const ELSEWHERE: &str = "is the address right? Most end in /mcp";

/// Characters of what a server answers that are repeated.
const WORDS: usize = 300;

type Error = StreamableHttpError<reqwest::Error>;
type RequestHeaders = HashMap<HeaderName, HeaderValue>;
type Events = BoxStream<'static, Result<Sse, SseError>>;

/// Speaks to one server. No error it returns has the address in it, which may
/// hold a key.
#[derive(Debug, Clone)]
pub(crate) struct Bounded {
    client: Client,
    pace: Pace,
}

impl Bounded {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, pace: Pace::default() }
    }
}

impl StreamableHttpClient for Bounded {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: RequestHeaders,
    ) -> Result<StreamableHttpPostResponse, Error> {
        let is_in_session = session_id.is_some();
        let mut request = self.client.post(&*uri).body(serde_json::to_vec(&message)?);
        if let Some(token) = auth_header {
            request = request.bearer_auth(token);
        }
        let mut headers: HeaderMap = custom_headers.into_iter().collect();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        if let Some(session) = session_id.and_then(|own| HeaderValue::from_str(&own).ok()) {
            headers.insert(SESSION, session);
        }
        let response = request.headers(headers).send().await.map_err(without_address)?;
        let asked = match message {
            ClientJsonRpcMessage::Request(request) => Some(request.id),
            _ => None,
        };
        answered(response, asked, is_in_session).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: RequestHeaders,
    ) -> Result<(), Error> {
        let deleted = self.client.delete_session(uri, session_id, auth_header, custom_headers);
        deleted.await.map_err(anonymous)
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: RequestHeaders,
    ) -> Result<Events, Error> {
        self.pace.keep().await;
        let (client, headers) = (&self.client, custom_headers);
        let events = client.get_stream_with_max_sse_event_size(
            uri,
            session_id,
            last_event_id,
            auth_header,
            headers,
            LONGEST,
        );
        events.await.map_err(anonymous)
    }
}

fn without_address(error: reqwest::Error) -> Error {
    StreamableHttpError::Client(error.without_url())
}

fn anonymous(error: Error) -> Error {
    match error {
        StreamableHttpError::Client(error) => without_address(error),
        other => other,
    }
}

fn unexpected(text: String) -> Error {
    StreamableHttpError::UnexpectedServerResponse(Cow::Owned(text))
}

/// Makes of a response what the transport continues with; `asked` is the request
/// that waits for it.
async fn answered(
    response: Response,
    asked: Option<RequestId>,
    is_in_session: bool,
) -> Result<StreamableHttpPostResponse, Error> {
    let status = response.status();
    match status {
        StatusCode::ACCEPTED | StatusCode::NO_CONTENT => {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            let challenge = words_of(response.headers(), &WWW_AUTHENTICATE).unwrap_or_default();
            return Err(StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge)));
        }
        StatusCode::NOT_FOUND if is_in_session => return Err(StreamableHttpError::SessionExpired),
        _ => {}
    }
    let kind = words_of(response.headers(), &CONTENT_TYPE);
    let is = |wanted: &str| kind.as_deref().is_some_and(|kind| kind.starts_with(wanted));
    let session = response.headers().get(SESSION).and_then(|own| own.to_str().ok());
    let session = session.map(str::to_owned);
    if !status.is_success() {
        return refused(response, asked, is(JSON)).await;
    }
    if is(EVENTS) {
        return Ok(StreamableHttpPostResponse::Sse(events_of(response, asked), session));
    }
    let Some(id) = asked else {
        // Nobody waits for an answer to it, whatever it is.
        return Ok(StreamableHttpPostResponse::Accepted);
    };
    if !is(JSON) {
        let kind = kind.unwrap_or_else(|| "something of no kind".to_owned());
        return Err(unexpected(format!(
            "it answers with {kind}, which is not an MCP message; {ELSEWHERE}"
        )));
    }
    let Some(body) = body(response).await? else {
        return Ok(StreamableHttpPostResponse::Json(too_large(id), session));
    };
    match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
        Ok(message) => Ok(StreamableHttpPostResponse::Json(message, session)),
        Err(error) => Err(unexpected(format!(
            "its answer is not an MCP message ({error}): {}",
            one_line(&String::from_utf8_lossy(&body), WORDS)
        ))),
    }
}

/// Says what a server meant that did not take a request. An error of the
/// protocol is one whatever the status is.
async fn refused(
    response: Response,
    asked: Option<RequestId>,
    is_json: bool,
) -> Result<StreamableHttpPostResponse, Error> {
    let status = response.status();
    if status.is_redirection() {
        let to = words_of(response.headers(), &LOCATION).unwrap_or_default();
        let to = response.url().join(&to).map_or_else(|_| to, |url| super::public(url.as_str()));
        return Err(unexpected(format!(
            "it has moved to {to}; if that is right, write it into the settings"
        )));
    }
    let failure = (status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error())
        .then(|| HttpStatusError::new(status.as_u16(), words_of(response.headers(), &RETRY_AFTER)));
    let body = if is_json || failure.is_none() { body(response).await? } else { None };
    let body = body.unwrap_or_default();
    if let Ok(ServerJsonRpcMessage::Error(error)) = serde_json::from_slice(&body) {
        // A server that refuses a request before reading it does not know its number.
        let message = ServerJsonRpcMessage::error(error.error, asked.or(error.id));
        return Ok(StreamableHttpPostResponse::Json(message, None));
    }
    match failure {
        Some(failure) => Err(failure.into()),
        None => {
            let text = one_line(&String::from_utf8_lossy(&body), WORDS);
            let hint = match status {
                StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => ELSEWHERE,
                _ => "",
            };
            let parts = [format!("HTTP {status}"), text, hint.to_owned()];
            let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            Err(unexpected(parts.join("; ")))
        }
    }
}

/// Reads a body; nothing, if it is too large.
async fn body(mut response: Response) -> Result<Option<Vec<u8>>, Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(without_address)? {
        if body.len() + chunk.len() > LONGEST {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body))
}

/// Returns what a request is answered with whose answer is not taken.
pub(super) fn too_large(id: RequestId) -> ServerJsonRpcMessage {
    let text = format!("the server sent a message of more than {} MiB", LONGEST >> 20);
    ServerJsonRpcMessage::error(ErrorData::internal_error(text, None), Some(id))
}

fn words_of(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let value = headers.get(name)?;
    Some(one_line(&String::from_utf8_lossy(value.as_bytes()), WORDS))
}

/// Why no more of a stream is read.
#[derive(Debug, thiserror::Error)]
enum StreamBreak {
    #[error("an event has more than {} MiB", LONGEST >> 20)]
    TooLarge,
    #[error(transparent)]
    Lost(reqwest::Error),
}

/// Returns the events of a response. Instead of one that is too large comes an
/// answer to the request that says so: who waits would wait for ever.
pub(super) fn events_of(
    response: Response,
    asked: Option<RequestId>,
) -> BoxStream<'static, Result<Sse, SseError>> {
    let mut gauge = Gauge::default();
    let bytes = response.bytes_stream().map(move |chunk| {
        let chunk = chunk.map_err(|error| StreamBreak::Lost(error.without_url()))?;
        if gauge.takes(&chunk) { Ok(chunk) } else { Err(StreamBreak::TooLarge) }
    });
    let events = SseStream::from_bytes_stream(bytes).boxed();
    // What comes after an error could not be understood.
    stream::unfold(Some((events, asked)), |state| async {
        let (mut events, asked) = state?;
        match (events.next().await?, asked) {
            (Err(SseError::Body(error)), Some(id)) if is_too_large(&*error) => {
                let error = serde_json::to_string(&too_large(id)).unwrap_or_default();
                Some((Ok(Sse::default().data(error)), None))
            }
            (Ok(event), asked) => Some((Ok(event), Some((events, asked)))),
            (Err(error), _) => Some((Err(error), None)),
        }
    })
    .boxed()
}

fn is_too_large(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    matches!(error.downcast_ref(), Some(StreamBreak::TooLarge))
}

/// Counts the bytes of an event, which ends with an empty line.
#[derive(Debug, Default)]
struct Gauge {
    event: usize,
    line: usize,
    after_return: bool,
}

impl Gauge {
    /// Counts bytes that have come; false, if the event is too large with them.
    fn takes(&mut self, bytes: &[u8]) -> bool {
        for byte in bytes {
            let was_return = std::mem::replace(&mut self.after_return, *byte == b'\r');
            match byte {
                b'\n' if was_return => {}
                b'\n' | b'\r' => {
                    self.event = if self.line == 0 { 0 } else { self.event + self.line + 1 };
                    self.line = 0;
                }
                _ => self.line += 1,
            }
            if self.event + self.line > LONGEST {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_one_event_however_lines_end() {
        for end in ["\n", "\r", "\r\n"] {
            let line = format!("data: {}{end}", "x".repeat(1 << 20));
            let mut gauge = Gauge::default();
            for _ in 0..40 {
                assert!(gauge.takes(line.as_bytes()), "{end:?}");
                assert!(gauge.takes(end.as_bytes()), "{end:?}");
            }
            let taken = (0..40).take_while(|_| gauge.takes(line.as_bytes())).count();
            assert_eq!(taken, 15, "{end:?}");
        }
    }

    #[test]
    fn a_line_without_an_end_is_too_large_at_some_time() {
        let mut gauge = Gauge::default();
        let taken = (0..40).take_while(|_| gauge.takes(&vec![b':'; 1 << 20])).count();
        assert_eq!(taken, 16);
    }
}
