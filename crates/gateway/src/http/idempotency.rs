//! `Idempotency-Key`: a request that is sent again gets the answer of the first, and nothing is
//! done twice.

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures_util::{StreamExt as _, stream};
use sha2::{Digest as _, Sha256};
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;
use vestal_conversations::ConversationId;

use super::error::{ApiError, TurnRan};
use super::{ApiState, MAX_BODY, SESSION_HEADER};
use crate::panics::caught;
use crate::store::{GatewayStore, LostClaim, Replay, ReplayClaim, StoreResult};

/// The longest key.
const MAX_KEY: usize = 255;

/// The largest answer that is kept. A larger one is replaced by a note of its size.
const MAX_ANSWER: usize = 32 << 20;

/// The name of the header.
pub(super) const HEADER: &str = "idempotency-key";

/// The header that marks a repeated answer.
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// The key that a request was sent with, for the handler that does it.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClaimedKey(i64);

impl ClaimedKey {
    /// Returns its number in the store.
    pub(super) const fn number(self) -> i64 {
        self.0
    }

    /// Records the session that the request works in, before it does: a client that repeats it after
    /// a crash learns where to look.
    pub(super) async fn note(
        claim: Option<Self>,
        store: &GatewayStore,
        session: &ConversationId,
    ) -> StoreResult<()> {
        match claim {
            Some(Self(key)) => store.note_claim(key, session.as_str()).await,
            None => Ok(()),
        }
    }
}

/// Answers requests that were left without an answer by the gateway before this one. One that has
/// begun a run is answered as it would have been.
pub(super) async fn settle_lost(store: &GatewayStore) -> StoreResult<()> {
    for LostClaim { key, session, run } in store.lost_claims().await? {
        let run = match run {
            Some(run) => store.run(&run).await?,
            None => None,
        };
        let mut headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        let answer = if let Some(run) = run {
            let body = super::runs::accepted(&run).to_string().into_bytes();
            Replay { status: StatusCode::ACCEPTED.as_u16(), headers, body }
        } else {
            let place = match &session {
                Some(session) => format!("in the session {session}"),
                None => "before it had a session".to_owned(),
            };
            let message = format!(
                "the gateway ended while this request was in progress, {place}; it is not done again under the same Idempotency-Key: look what became of it, then use another key"
            );
            headers.extend(session.map(|session| (SESSION_HEADER.to_owned(), session)));
            let body = ApiError::unavailable("interrupted", message).body().to_string();
            Replay { status: 503, headers, body: body.into_bytes() }
        };
        store.settle_claim(key, &answer).await?;
    }
    Ok(())
}

/// What requests with a key need of the server.
#[derive(Debug, Clone)]
pub(super) struct Replays {
    store: GatewayStore,
    tasks: TaskTracker,
}

impl From<&ApiState> for Replays {
    fn from(app: &ApiState) -> Self {
        Self { store: app.store.clone(), tasks: app.tasks.clone() }
    }
}

/// Lets a request without a key pass. One with a key runs to its end whether its client waits or
/// not, and its answer is kept.
pub(super) async fn replay(
    State(Replays { store, tasks }): State<Replays>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let Some(name) = request.headers().get(HEADER) else { return Ok(next.run(request).await) };
    let name = name.to_str().ok().filter(|name| (1..=MAX_KEY).contains(&name.len()));
    let name = name.ok_or_else(|| {
        ApiError::invalid(HEADER, format!("must be text of 1 to {MAX_KEY} characters"))
    })?;
    let name = name.to_owned();
    let route = format!("{} {}", request.method(), request.uri().path());
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, MAX_BODY).await.map_err(|error| ApiError::of_body(&error))?;
    let mut digest = Sha256::new();
    // The session is part of what is asked.
    digest.update(parts.headers.get(SESSION_HEADER).map_or(&b""[..], HeaderValue::as_bytes));
    digest.update([0]);
    digest.update(&body);
    let claim = store.claim(&route, &name, &digest.finalize()).await?;
    let key = match claim {
        ReplayClaim::New(key) => key,
        ReplayClaim::Replay(answer) => return Ok(repeat(answer)),
        ReplayClaim::InProgress => {
            let message = "a request with this Idempotency-Key is in progress; its answer can be had when it is done";
            return Err(ApiError::conflict("idempotency_in_progress", message).retry_after(2));
        }
        ReplayClaim::Conflict => {
            let message =
                "another request was sent with this Idempotency-Key; use a key of its own for each";
            return Err(ApiError::conflict("idempotency_conflict", message));
        }
    };
    let mut request = Request::from_parts(parts, Body::from(body));
    request.extensions_mut().insert(ClaimedKey(key));
    let (answered, answer) = oneshot::channel();
    tasks.spawn(async move {
        // In a task of its own no other layer catches a panic.
        let what = "a request with an Idempotency-Key was not answered: its handler panicked";
        let response = caught(what, next.run(request)).await.unwrap_or_else(|| {
            ApiError::internal("the server has met a bug; its log says more").into_response()
        });
        keep(&store, key, response, answered).await;
    });
    answer.await.map_err(|_| ApiError::internal("the request was lost"))
}

/// Passes an answer on as it comes, and keeps it. A client that is slow or gone holds nothing up.
async fn keep(
    store: &GatewayStore,
    key: i64,
    response: Response,
    answered: oneshot::Sender<Response>,
) {
    let is_kept =
        response.status().is_success() || response.extensions().get::<TurnRan>().is_some();
    let status = response.status().as_u16();
    let kept = [header::CONTENT_TYPE.as_str(), SESSION_HEADER];
    let text = |name: &&str| {
        let value = response.headers().get(*name)?.to_str().ok()?;
        Some(((*name).to_owned(), value.to_owned()))
    };
    let headers = kept.iter().filter_map(text).collect();
    let (parts, body) = response.into_parts();
    let (pieces, passed_on) = mpsc::unbounded_channel::<Result<Bytes, axum::Error>>();
    let passing =
        stream::unfold(passed_on, async |mut pieces| Some((pieces.recv().await?, pieces)));
    let mut is_delivered =
        answered.send(Response::from_parts(parts, Body::from_stream(passing))).is_ok();
    let mut whole = Vec::new();
    let mut is_whole = true;
    let mut coming = body.into_data_stream();
    while let Some(piece) = coming.next().await {
        match &piece {
            Ok(bytes) if whole.len() + bytes.len() <= MAX_ANSWER => whole.extend_from_slice(bytes),
            Ok(_) | Err(_) => is_whole = false,
        }
        is_delivered = is_delivered && pieces.send(piece).is_ok();
    }
    let answer = if is_whole {
        Replay { status, headers, body: whole }
    } else {
        let error = ApiError::internal("the answer was too large to be kept; the session has it");
        Replay { status: 500, headers, body: error.body().to_string().into_bytes() }
    };
    let done = if is_kept {
        store.settle_claim(key, &answer).await
    } else {
        store.release_claim(key).await
    };
    if let Err(error) = done {
        tracing::error!(%error, is_delivered, "the answer to a request with an Idempotency-Key was not kept");
    }
}

fn repeat(answer: Replay) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, answer.body).into_response();
    let headers = response.headers_mut();
    for (name, value) in answer.headers {
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(&value)) {
            headers.insert(name, value);
        }
    }
    headers.insert(REPLAYED, HeaderValue::from_static("true"));
    response
}

#[cfg(test)]
mod tests {
    use axum::routing::post;
    use axum::{Router, middleware};
    use tower::ServiceExt as _;

    use super::*;
    use crate::store::store_path;

    #[tokio::test]
    async fn a_handler_that_panics_is_answered_and_its_key_is_free_again() {
        let dir = tempfile::tempdir().unwrap();
        let store = GatewayStore::open(&store_path(dir.path())).await.unwrap();
        let replays = Replays { store: store.clone(), tasks: TaskTracker::new() };
        let (calls, called) = std::sync::mpsc::channel();
        let handler = async move || -> Response {
            calls.send(()).unwrap();
            panic!("a bug that a test wants")
        };
        let layer = middleware::from_fn_with_state(replays, replay);
        let app = Router::new().route("/", post(handler)).layer(layer);
        for _ in 0..2 {
            let request = Request::post("/").header(HEADER, "k").body(Body::empty()).unwrap();
            let answer = app.clone().oneshot(request).await.unwrap();
            assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
            assert!(!answer.headers().contains_key(REPLAYED));
            let body = to_bytes(answer.into_body(), MAX_BODY).await.unwrap();
            let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
            let message = "the server has met a bug; its log says more";
            assert_eq!(body["error"]["message"], message);
        }
        assert_eq!(called.try_iter().count(), 2);
        store.close().await;
    }
}
