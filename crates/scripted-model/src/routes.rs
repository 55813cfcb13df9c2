//! The endpoints, and how a reply becomes a response.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{ConnectInfo, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::{get, post};
use bytes::Bytes;
use serde_json::{Value, json};

use crate::delivery::{AnswerEnding, DeliveryStep, plan, play};
use crate::frames::{AnswerFrame, Exchange, event};
use crate::journal::{RequestJournal, UnfinishedAnswer, lock};
use crate::reply::{DeliveryEnd, ReplyContent, ScriptedError, ScriptedReply};
use crate::request::{ReceivedRequest, RequestApi};
use crate::rule::Chooser;
use crate::script::Model;
use crate::{anthropic, openai, responses, strict};

/// Largest body that is read. Conversations with images grow large; this only
/// bounds what a client gone wild can make the server hold.
const BODY_LIMIT: usize = 256 << 20;

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream; charset=utf-8";

/// What the endpoints share.
pub(crate) struct RouteState {
    pub(crate) chooser: Mutex<Chooser>,
    pub(crate) journal: Arc<RequestJournal>,
    pub(crate) models: Vec<Model>,
    pub(crate) models_reply: Option<ScriptedReply>,
    pub(crate) strict: bool,
}

pub(crate) fn router(stage: Arc<RouteState>) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(answer))
        .route("/v1/messages", post(answer))
        .route("/v1/responses", post(answer))
        .route("/v1/models", get(models))
        .fallback(elsewhere)
        .with_state(stage)
}

type Incoming = (ConnectInfo<SocketAddr>, axum::extract::Request);

/// Reads a request, or says why it cannot be read.
async fn read((ConnectInfo(peer), incoming): Incoming) -> (ReceivedRequest, Option<&'static str>) {
    let (parts, body) = incoming.into_parts();
    let headers: BTreeMap<String, String> = parts
        .headers
        .iter()
        .map(|(name, value)| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        })
        .collect();
    let path =
        parts.uri.path_and_query().map_or_else(|| parts.uri.to_string(), ToString::to_string);
    let (body, fault, body_bytes) = match to_bytes(body, BODY_LIMIT).await {
        Err(_) => (Value::Null, Some("the body cannot be read or is too large"), 0),
        Ok(bytes) if bytes.is_empty() => (Value::Null, Some("the body is empty"), 0),
        Ok(bytes) => match serde_json::from_slice(&bytes) {
            Ok(body) => (body, None, bytes.len()),
            Err(_) => (Value::Null, Some("the body is not JSON"), bytes.len()),
        },
    };
    let method = parts.method.to_string();
    (ReceivedRequest { method, path, headers, body, body_bytes, peer }, fault)
}

async fn answer(
    State(stage): State<Arc<RouteState>>,
    peer: ConnectInfo<SocketAddr>,
    incoming: axum::extract::Request,
) -> Response {
    let (request, fault) = read((peer, incoming)).await;
    let number = stage.journal.asked(&request);
    let fault = fault.map(str::to_owned);
    let fault = fault.or_else(|| stage.strict.then(|| strict::fault(&request)).flatten());
    if let Some(fault) = fault {
        return refusal(request.api(), 400, &fault);
    }
    let reply = lock(&stage.chooser).choose(&request);
    let Some(reply) = reply else {
        let message = format!(
            "script_exhausted: the script has no reply for request {number} (last user message: {:?}, \
             tool results since: {})",
            shortened(&request.last_user_text().unwrap_or_default()),
            request.tool_results().len()
        );
        return refusal(request.api(), 500, &message);
    };
    respond(reply, &request, number, &stage.journal).await
}

/// Gives a reply in the shape of the API that was asked.
async fn respond(
    reply: ScriptedReply,
    request: &ReceivedRequest,
    number: usize,
    journal: &Arc<RequestJournal>,
) -> Response {
    let api = request.api();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let exchange = Exchange { request, number, now, chunk_chars: reply.chunk_chars };
    let streams = request.wants_stream();
    let usual = if streams { EVENTS } else { JSON };
    let one = |bytes: Vec<u8>| vec![AnswerFrame { bytes: Bytes::from(bytes), delta: true }];
    let (status, kind, frames) = match &reply.content {
        ReplyContent::Silence => {
            let _hangup = UnfinishedAnswer::watch(Arc::clone(journal));
            return std::future::pending().await;
        }
        ReplyContent::Message(message) => {
            let frames = match (api, streams) {
                (RequestApi::OpenAi, true) => openai::stream(message, &exchange),
                (RequestApi::Anthropic, true) => anthropic::stream(message, &exchange),
                (RequestApi::Responses, true) => responses::stream(message, &exchange),
                (RequestApi::Responses, false) => {
                    one(responses::whole(message, &exchange).to_string().into())
                }
                (RequestApi::OpenAi, false) => {
                    one(openai::whole(message, &exchange).to_string().into())
                }
                (RequestApi::Anthropic, false) => {
                    one(anthropic::whole(message, &exchange).to_string().into())
                }
            };
            (200, usual, frames)
        }
        ReplyContent::Error { status, body } => match body {
            ScriptedError::Message(message) => {
                (*status, JSON, one(error_body(api, *status, message).to_string().into()))
            }
            ScriptedError::Json(body) => (*status, JSON, one(body.to_string().into())),
            ScriptedError::Raw(text) => (*status, "text/plain", one(text.clone().into())),
        },
        ReplyContent::Garbage(bytes) => (200, usual, one(bytes.clone())),
    };
    let ending = match reply.end {
        DeliveryEnd::Whole => AnswerEnding::Whole,
        DeliveryEnd::Cut(after) => AnswerEnding::Cut(after),
        DeliveryEnd::Stall(after) => AnswerEnding::Stall(after),
        DeliveryEnd::Error { after, message } => {
            AnswerEnding::Error(after, error_in_stream(api, streams, &message))
        }
    };
    let mut steps = plan(frames, reply.pace, &reply.holds, ending);
    let body = match steps.make_contiguous() {
        // What is said in one piece has a length, as with any other server.
        [DeliveryStep::Send(bytes)] => {
            UnfinishedAnswer::watch(Arc::clone(journal)).done();
            Body::from(std::mem::take(bytes))
        }
        _ => Body::from_stream(play(steps, Arc::clone(journal))),
    };
    response(status, kind, &reply.headers, body)
}

/// Returns an error as it is sent in the middle of an answer.
fn error_in_stream(api: RequestApi, streams: bool, message: &str) -> Bytes {
    let (name, status) = match api {
        RequestApi::Responses if streams => {
            return Bytes::from(event(Some("error"), &responses::error_event(message).to_string()));
        }
        RequestApi::OpenAi | RequestApi::Responses => (None, 500),
        RequestApi::Anthropic => (Some("error"), 529),
    };
    let body = error_body(api, status, message).to_string();
    Bytes::from(if streams { event(name, &body) } else { body })
}

fn error_body(api: RequestApi, status: u16, message: &str) -> Value {
    match api {
        RequestApi::OpenAi | RequestApi::Responses => openai::error(status, message),
        RequestApi::Anthropic => anthropic::error(status, message),
    }
}

fn refusal(api: RequestApi, status: u16, message: &str) -> Response {
    response(status, JSON, &[], Body::from(error_body(api, status, message).to_string()))
}

/// Builds a response. A status or header that HTTP does not allow is a fault of
/// the script, and said as one.
fn response(status: u16, kind: &str, headers: &[(String, String)], body: Body) -> Response {
    let mut response = Response::new(body);
    let fault = |what: &str| {
        let text =
            json!({"error": {"message": format!("the script's {what} is not valid in HTTP")}});
        let mut response = Response::new(Body::from(text.to_string()));
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        response
    };
    let Ok(status) = StatusCode::from_u16(status) else {
        return fault("status");
    };
    *response.status_mut() = status;
    let all = std::iter::once((CONTENT_TYPE.as_str(), kind))
        .chain(headers.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    for (name, value) in all {
        match (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            (Ok(name), Ok(value)) => {
                response.headers_mut().insert(name, value);
            }
            _ => return fault("header"),
        }
    }
    response
}

async fn models(
    State(stage): State<Arc<RouteState>>,
    peer: ConnectInfo<SocketAddr>,
    incoming: axum::extract::Request,
) -> Response {
    let (request, _) = read((peer, incoming)).await;
    stage.journal.visited(&request);
    if let Some(reply) = &stage.models_reply {
        return respond(reply.clone(), &request, 0, &stage.journal).await;
    }
    let list = match request.api() {
        RequestApi::OpenAi | RequestApi::Responses => openai::models(&stage.models),
        RequestApi::Anthropic => anthropic::models(&stage.models),
    };
    response(200, JSON, &[], Body::from(list.to_string()))
}

async fn elsewhere(
    State(stage): State<Arc<RouteState>>,
    peer: ConnectInfo<SocketAddr>,
    incoming: axum::extract::Request,
) -> Response {
    let (request, _) = read((peer, incoming)).await;
    stage.journal.visited(&request);
    let message = format!("there is nothing at {} {}", request.method, request.path);
    refusal(request.api(), 404, &message)
}

fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}
