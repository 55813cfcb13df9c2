//! The API server: who may ask, what is asked of whom, and how refusals look.

mod chat;
mod error;
mod health;
mod sessions;
mod websocket;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{get, post};
use axum::serve::ListenerExt as _;
use subtle::ConstantTimeEq as _;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower_http::cors::CorsLayer;

use crate::settings::ApiServer;
use crate::state::StateFile;
use crate::turns::Turns;
use error::ApiError;

/// The largest body of a request: a long conversation with pictures.
const MAX_BODY: usize = 32 << 20;

/// The header that names the conversation of a request and of its answer.
const SESSION_HEADER: &str = "x-vestal-session-id";

/// What the handlers share.
#[derive(Debug, Clone)]
struct App {
    turns: Turns,
    state: Arc<StateFile>,
    server: Arc<ApiServer>,
    sockets: websocket::WebSockets,
}

/// An API server that listens.
#[derive(Debug)]
pub(crate) struct HttpServer {
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<std::io::Result<()>>,
}

impl HttpServer {
    /// Binds the address and begins to serve.
    pub(crate) async fn start(
        server: ApiServer,
        turns: Turns,
        state: Arc<StateFile>,
    ) -> std::io::Result<Self> {
        let listener = TcpListener::bind((server.host.as_str(), server.port)).await?;
        let address = listener.local_addr()?;
        let sockets = websocket::WebSockets::new(&server, &turns).map_err(std::io::Error::other)?;
        let app = routes(App { turns, state, server: Arc::new(server), sockets });
        let stop = CancellationToken::new();
        // Without it each small piece of a stream waits for the one before to be acknowledged.
        let listener = listener.tap_io(|connection| {
            if let Err(error) = connection.set_nodelay(true) {
                tracing::debug!(%error, "a connection keeps its delay");
            }
        });
        let serving =
            axum::serve(listener, app).with_graceful_shutdown(stop.clone().cancelled_owned());
        let task = tokio::spawn(serving.into_future());
        Ok(Self { address, stop, task })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns when the server has ended, which it does not do by itself.
    pub(crate) async fn ended(&mut self) -> String {
        match (&mut self.task).await {
            Ok(Ok(())) => "the server ended".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        }
    }

    /// Takes no new connections.
    pub(crate) fn stop_accepting(&self) {
        self.stop.cancel();
    }

    /// Ends every connection. Answers that are complete have been sent.
    pub(crate) async fn stop(mut self, patience: std::time::Duration) {
        self.stop.cancel();
        if tokio::time::timeout(patience, &mut self.task).await.is_err() {
            self.task.abort();
        }
    }
}

fn routes(app: App) -> Router {
    let protected = Router::new()
        .route("/health/detailed", get(health::detailed))
        .route("/v1/models", get(health::models))
        .route("/v1/chat/completions", post(chat::completions))
        .route("/api/ws-ticket", post(websocket::ticket))
        .route("/api/sessions", get(sessions::list))
        .route("/api/sessions/{id}", get(sessions::show).delete(sessions::delete))
        .route("/api/sessions/{id}/messages", get(sessions::messages))
        .route_layer(middleware::from_fn_with_state(app.clone(), authorize));
    Router::new()
        .route("/health", get(health::health))
        .route("/v1/health", get(health::health))
        // A browser cannot send the key with it: it looks at the key or a ticket itself.
        .route("/api/ws", get(websocket::connect))
        .merge(protected)
        .fallback(async || ApiError::not_found("there is no such route"))
        .method_not_allowed_fallback(async || ApiError::method_not_allowed())
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(cors(&app.server.cors_origins))
        .layer(middleware::map_response(harden))
        .with_state(app)
}

/// Lets a request pass that carries the key. Both sides are compared in full, whatever the first
/// difference is, so that the time tells nothing.
async fn authorize(
    State(app): State<App>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    check_key(&app, request.headers())?;
    Ok(next.run(request).await)
}

/// Refuses headers that do not carry the key.
fn check_key(app: &App, headers: &HeaderMap) -> Result<(), ApiError> {
    let given = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, key)| key.trim());
    let Some(given) = given else {
        return Err(ApiError::unauthorized(
            "send the key of this server: Authorization: Bearer KEY",
        ));
    };
    if bool::from(given.as_bytes().ct_eq(app.server.key().as_bytes())) {
        Ok(())
    } else {
        Err(ApiError::unauthorized("the key is not the one of this server"))
    }
}

/// Only pages of the configured origins may ask from a browser.
fn cors(origins: &[String]) -> CorsLayer {
    let origins: Vec<HeaderValue> =
        origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok()).collect();
    if origins.is_empty() {
        return CorsLayer::new();
    }
    let session = axum::http::HeaderName::from_static(SESSION_HEADER);
    CorsLayer::new()
        .allow_origin(origins)
        .allow_methods([Method::GET, Method::POST, Method::DELETE])
        .allow_headers([header::AUTHORIZATION, header::CONTENT_TYPE, session.clone()])
        .expose_headers([session])
}

async fn harden(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
