//! Any number of clients over streamable HTTP.
//!
//! Nothing is kept between requests: a client finds its sandbox by its name, so that there are no
//! sessions to run out, to fill memory, or to be lost when the gateway is restarted. Clients of the
//! revisions with sessions get an id all the same. It carries the client's name, and tells which of
//! their requests `notifications/cancelled` is about.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::convert::Infallible;
use std::error::Error as StdError;
use std::fmt;
use std::str::FromStr as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Body;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use percent_encoding::percent_decode_str;
use rmcp::model::RequestId;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use vestal_sandbox::TaskName;

use crate::limits;
use crate::server::SandboxServer;
use crate::service::McpService;
use crate::task::short_name;

/// The header with which clients of the older revisions name their session.
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// Longest id of a session that is taken.
const SESSION_BYTES: usize = 128;

/// What requests are counted in, of which as many may be read at once as make [`limits::REQUEST_BYTES`].
const UNIT: usize = 1 << 10;

/// A service at one address. The server around it decides who may ask, and checks `Host` and
/// `Origin`.
#[derive(Clone)]
pub struct HttpEndpoint {
    service: McpService,
    inner: StreamableHttpService<SandboxServer, NeverSessionManager>,
    room: Arc<Semaphore>,
}

impl fmt::Debug for HttpEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpEndpoint").field("service", &self.service).finish_non_exhaustive()
    }
}

/// Who called over HTTP.
#[derive(Debug, Clone)]
pub(crate) struct HttpCaller {
    /// The task that the address names.
    pub(crate) task: Option<TaskName>,
    /// The session that the request names.
    pub(crate) session: Option<String>,
    /// Room that the request takes until it is answered.
    _room: Arc<OwnedSemaphorePermit>,
}

impl HttpCaller {
    /// Returns the client's name, if its session has it.
    pub(crate) fn client(&self) -> Option<&str> {
        self.session.as_deref()?.split_once('.').map(|(name, _)| name)
    }
}

/// What is looked at of a message before it is handled.
#[derive(Debug, Default, Deserialize)]
struct MessageHead {
    method: Option<String>,
    #[serde(default)]
    params: MessageParams,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MessageParams {
    request_id: Option<RequestId>,
    client_info: Option<ClientInfo>,
}

#[derive(Debug, Deserialize)]
struct ClientInfo {
    name: String,
}

type HttpAnswer = Response<BoxBody<Bytes, Infallible>>;

impl HttpEndpoint {
    /// Returns a service that ends its answers when `stop` is cancelled.
    pub fn new(service: McpService, stop: CancellationToken) -> Self {
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_max_request_body_bytes(limits::MESSAGE_BYTES)
            .with_cancellation_token(stop.clone())
            .disable_allowed_hosts()
            .disable_allowed_origins();
        let served = service.clone();
        let inner = StreamableHttpService::new(
            move || Ok(served.server(stop.child_token())),
            Arc::new(NeverSessionManager::default()),
            config,
        );
        let room = Arc::new(Semaphore::new(limits::REQUEST_BYTES / UNIT));
        Self { service, inner, room }
    }

    /// Answers a request. A client that leaves before the answer is complete takes what it waits for
    /// along.
    pub async fn handle<B>(&self, request: Request<B>) -> HttpAnswer
    where
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn StdError + Send + Sync>>,
    {
        match self.answer(request).await {
            Ok(answer) | Err(answer) => answer,
        }
    }

    async fn answer<B>(&self, request: Request<B>) -> Result<HttpAnswer, HttpAnswer>
    where
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn StdError + Send + Sync>>,
    {
        if request.method() != Method::POST {
            let mut refused = refusal(
                StatusCode::METHOD_NOT_ALLOWED,
                "requests are sent with POST; nothing is kept that could be listened to or ended",
            );
            refused.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
            return Err(refused);
        }
        let task = task_of(request.uri().query())?;
        let session = session_of(request.headers())?;
        // The body in a layer of the server does not say how long it is.
        let length = request.headers().get(header::CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
        let mut room = self.room(length.or_else(|| request.body().size_hint().upper()))?;
        let (mut parts, body) = request.into_parts();
        let body = read(body).await?;
        // While it is answered it takes what it really needs.
        if let Some(unneeded) = room.num_permits().checked_sub(body.len() / UNIT + 1) {
            drop(room.split(unneeded));
        }
        // What is no message is for the SDK to answer.
        let head = serde_json::from_slice::<MessageHead>(&body).unwrap_or_default();
        if head.method.as_deref() == Some("notifications/cancelled")
            && let (Some(session), Some(id)) = (&session, head.params.request_id)
        {
            self.service.calls().cancel(&(session.clone(), id));
        }
        let begins = head.method.as_deref() == Some("initialize");
        parts.extensions.insert(HttpCaller { task, session, _room: Arc::new(room) });
        let mut answer = self.inner.handle(Request::from_parts(parts, Full::new(body))).await;
        if begins
            && answer.status().is_success()
            && let Some(id) = new_session(head.params.client_info.as_ref())
        {
            answer.headers_mut().insert(SESSION, id);
        }
        Ok(answer)
    }

    /// Takes room for a body of this length, or of the greatest length if it does not say.
    fn room(&self, length: Option<u64>) -> Result<OwnedSemaphorePermit, HttpAnswer> {
        let length = length.and_then(|length| usize::try_from(length).ok());
        let length = length.unwrap_or(limits::MESSAGE_BYTES);
        if length > limits::MESSAGE_BYTES {
            return Err(too_long());
        }
        let units = u32::try_from(length / UNIT + 1).unwrap_or(u32::MAX);
        Arc::clone(&self.room).try_acquire_many_owned(units).map_err(|_| {
            refusal(
                StatusCode::SERVICE_UNAVAILABLE,
                "too many requests at once; try again in a while",
            )
        })
    }
}

async fn read<B>(body: B) -> Result<Bytes, HttpAnswer>
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    match Limited::new(body, limits::MESSAGE_BYTES).collect().await {
        Ok(whole) => Ok(whole.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_long()),
        Err(error) => {
            Err(refusal(StatusCode::BAD_REQUEST, &format!("the request cannot be read: {error}")))
        }
    }
}

fn too_long() -> HttpAnswer {
    let limit = limits::MESSAGE_BYTES >> 20;
    refusal(
        StatusCode::PAYLOAD_TOO_LARGE,
        &format!("the message is longer than {limit} MiB; send large content in parts"),
    )
}

/// Returns the task that the address names: `/mcp?task=NAME`.
fn task_of(query: Option<&str>) -> Result<Option<TaskName>, HttpAnswer> {
    let named = query.unwrap_or_default().split('&').find_map(|pair| pair.strip_prefix("task="));
    let Some(named) = named else { return Ok(None) };
    let named = named.replace('+', " ");
    let name = percent_decode_str(&named).decode_utf8_lossy();
    match TaskName::from_str(&name) {
        Ok(task) => Ok(Some(task)),
        Err(error) => Err(refusal(StatusCode::BAD_REQUEST, &error.to_string())),
    }
}

fn session_of(headers: &http::HeaderMap) -> Result<Option<String>, HttpAnswer> {
    let Some(value) = headers.get(SESSION) else { return Ok(None) };
    let id = value.to_str().ok().filter(|id| id.len() <= SESSION_BYTES);
    match id {
        Some(id) => Ok(Some(id.to_owned())),
        None => {
            Err(refusal(StatusCode::BAD_REQUEST, "the id of the session is not one of this server"))
        }
    }
}

/// Returns an id for the session of a client, which begins with its name. It opens nothing: the key
/// does.
fn new_session(client: Option<&ClientInfo>) -> Option<HeaderValue> {
    let number = getrandom::u64().ok()?;
    let name = short_name(client.map_or("", |client| &client.name));
    HeaderValue::from_str(&format!("{name}.{number:016x}")).ok()
}

/// Returns a refusal in the form of the protocol's errors, of no request.
fn refusal(status: StatusCode, message: &str) -> HttpAnswer {
    let error =
        json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": message}});
    let mut answer = Response::new(Full::new(Bytes::from(error.to_string())).boxed());
    *answer.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, json);
    answer
}

/// Who called what.
pub(crate) type CallKey = (String, RequestId);

/// The calls. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct CallsInFlight(Arc<Mutex<HashMap<CallKey, CancellationToken>>>);

/// A call that is under way until this is dropped.
#[derive(Debug)]
pub(crate) struct EnteredCall {
    calls: CallsInFlight,
    /// None for a call whose key another one has.
    key: Option<CallKey>,
    cancelled: CancellationToken,
}

impl CallsInFlight {
    /// Notes a call. One whose key another call has cannot be cancelled by it.
    pub(crate) fn enter(&self, key: CallKey) -> EnteredCall {
        let cancelled = CancellationToken::new();
        let key = match self.lock().entry(key) {
            Entry::Occupied(_) => None,
            Entry::Vacant(free) => {
                let key = free.key().clone();
                free.insert(cancelled.clone());
                Some(key)
            }
        };
        EnteredCall { calls: self.clone(), key, cancelled }
    }

    /// Cancels a call, if it is under way.
    pub(crate) fn cancel(&self, key: &CallKey) {
        if let Some(call) = self.lock().get(key) {
            call.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<CallKey, CancellationToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EnteredCall {
    /// Returns when somebody has cancelled it.
    pub(crate) async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }
}

impl Drop for EnteredCall {
    fn drop(&mut self) {
        if let Some(key) = &self.key {
            self.calls.lock().remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_a_task_and_refuses_what_cannot_be_one() {
        let task = |query| task_of(query).map(|task| task.map(|task| task.to_string()));
        assert_eq!(task(None).unwrap(), None);
        assert_eq!(task(Some("x=1&task=my%20site")).unwrap().as_deref(), Some("my site"));
        assert_eq!(task(Some("task=a+b")).unwrap().as_deref(), Some("a b"));
        assert_eq!(task(Some("task=")).unwrap_err().status(), StatusCode::BAD_REQUEST);
    }

    #[test]
    fn a_session_carries_the_name_of_its_client_and_no_other_characters() {
        let info = ClientInfo { name: "Claude Code\r\nX: y".to_owned() };
        let id = new_session(Some(&info)).unwrap();
        assert!(id.to_str().unwrap().starts_with("claude-code-x-y."), "{id:?}");
        assert_ne!(new_session(Some(&info)), new_session(Some(&info)));
    }
}
