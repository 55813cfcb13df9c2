//! Which route is whose, and what holds for all of them.

use std::sync::OnceLock;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, patch, post};
use serde_json::Value;
use subtle::ConstantTimeEq as _;
use tower_http::cors::CorsLayer;
use tower_http::timeout::RequestBodyTimeoutLayer;
use vestal_api::{AgentRunView, ConversationView};

use super::error::ApiError;
use super::openapi::{DeletedView, DescribedRoutes, Listed, RouteOperation};
use super::{
    ApiState, MAX_BODY, SESSION_HEADER, catalog, chat, health, idempotency, mcp, request_log,
    responses, runs, sandboxes, schedules, sessions, shapes, websocket,
};

const SESSION: (&str, &str) = ("X-Vestal-Session-Id", "The session to go on with");
const KEY: (&str, &str) =
    ("Idempotency-Key", "A request that is sent again with the same key gets the same answer");
const LAST_EVENT: (&str, &str) = ("Last-Event-ID", "The id of the last event that the client has");

/// Returns the server's routes.
pub(super) fn router(app: ApiState) -> Router {
    let protected = protected(Some(&app))
        .router()
        .route_layer(middleware::from_fn_with_state(app.clone(), sandboxes::until_drained))
        .route_layer(middleware::from_fn_with_state(app.clone(), authorize));
    open(DescribedRoutes::new())
        .router()
        .merge(protected)
        .fallback(async || ApiError::not_found("there is no such route; see /openapi.json"))
        .method_not_allowed_fallback(async || ApiError::method_not_allowed())
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(RequestBodyTimeoutLayer::new(app.server.timeouts.piece))
        .layer(cors(&app.server.cors_origins))
        .layer(middleware::map_response(harden))
        .layer(middleware::map_request_with_state(app.clone(), use_memory))
        // Last, so that it is around all of the others.
        .layer(middleware::from_fn(request_log::log))
        .with_state(app)
}

/// Returns the `OpenAPI` document of the API server, as it serves it at `/openapi.json`.
pub fn openapi_document() -> Value {
    open(protected(None)).document()
}

/// Answers with the document. It needs no key, so it is made once: nobody can have it made again and
/// again.
async fn document() -> impl IntoResponse {
    static DOCUMENT: OnceLock<Bytes> = OnceLock::new();
    let made = || DOCUMENT.get_or_init(|| openapi_document().to_string().into()).clone();
    // A request that comes while it is made waits for it, and should not hold up others.
    let document = tokio::task::spawn_blocking(made).await;
    let document = document.map_err(|error| ApiError::internal(error.to_string()))?;
    Ok::<_, ApiError>(([(header::CONTENT_TYPE, "application/json")], document))
}

/// Routes that need no key: they tell nothing about the profile.
fn open(routes: DescribedRoutes) -> DescribedRoutes {
    let health_of = || RouteOperation::new("health", "Says that the server answers").without_key();
    routes
        .get("/health", get(health::health), health_of().answers::<health::HealthView>())
        .get("/v1/health", get(health::health), health_of().answers::<health::HealthView>())
        .get(
            "/openapi.json",
            get(document),
            RouteOperation::new("health", "Returns this document")
                .without_key()
                .answers::<shapes::Document>(),
        )
        // A browser cannot send the key with it: it looks at the key or a ticket itself.
        .get(
            "/api/ws",
            get(websocket::connect),
            RouteOperation::new(
                "conversation",
                "Opens the conversation as JSON-RPC over WebSocket; needs the key or a ticket",
            )
            .query::<websocket::ConnectQuery>()
            .status("101"),
        )
}

/// Routes that need the key. Those whose requests may be repeated need the app itself.
fn protected(app: Option<&ApiState>) -> DescribedRoutes {
    let operation = RouteOperation::new;
    let routes = DescribedRoutes::new()
        .get("/health/detailed", get(health::detailed), operation("health", "Returns the state of the gateway and its parts").answers::<health::DetailedHealthView>())
        .get("/v1/models", get(catalog::models), operation("models", "Lists the one model that clients see").answers::<Listed<catalog::ModelView>>())
        .get("/v1/models/{id}", get(catalog::show_model), operation("models", "Shows the model").answers::<catalog::ModelView>())
        .get("/v1/capabilities", get(catalog::capabilities), operation("models", "Says what this server does").answers::<catalog::CapabilitiesView>())
        .get("/v1/toolsets", get(catalog::toolsets), operation("models", "Lists the tools of the agent by toolset").answers::<Listed<catalog::ToolsetView>>())
        .get("/v1/skills", get(catalog::skills), operation("models", "Lists the skills of the agent").answers::<catalog::SkillListView>())
        .get("/v1/runs", get(runs::list), operation("runs", "Lists runs, the newest first").query::<runs::RunListQuery>().answers::<Listed<AgentRunView>>())
        .get("/v1/runs/{id}", get(runs::show), operation("runs", "Shows a run").answers::<AgentRunView>())
        .get("/v1/runs/{id}/events", get(runs::events), operation("runs", "Sends the events of a run from the first, or after the one that the client has, to the last").query::<runs::RunEventsQuery>().headers(&[LAST_EVENT]).streams())
        .post("/v1/runs/{id}/approval", post(runs::approve), operation("runs", "Answers a question of a run").takes::<runs::AnswerRequest>().answers::<runs::AnsweredView>())
        .post("/v1/runs/{id}/stop", post(runs::stop), operation("runs", "Stops a run and its commands").answers::<runs::StoppingView>())
        .get("/v1/responses/{id}", get(responses::show), operation("responses", "Returns a response").answers::<shapes::ResponseBody>())
        .delete("/v1/responses/{id}", delete(responses::delete), operation("responses", "Deletes a response; its session stays").answers::<DeletedView>())
        .post("/api/ws-ticket", post(websocket::ticket), operation("conversation", "Makes a ticket that lets a page of a browser connect once, within 30 s").answers::<shapes::Ticket>())
        .get("/api/sessions", get(sessions::list), operation("sessions", "Lists conversations, most recently used first").query::<sessions::SessionListQuery>().answers::<Listed<ConversationView>>())
        .post("/api/sessions", post(sessions::create), operation("sessions", "Makes an empty session").takes::<sessions::CreateRequest>().answers::<ConversationView>().status("201"))
        .get("/api/sessions/{id}", get(sessions::show), operation("sessions", "Shows a session").answers::<ConversationView>())
        .patch("/api/sessions/{id}", patch(sessions::change), operation("sessions", "Changes the title of a session").takes::<sessions::ChangeRequest>().answers::<ConversationView>())
        .delete("/api/sessions/{id}", delete(sessions::delete), operation("sessions", "Deletes a session with its messages; refused while a turn runs in it").answers::<DeletedView>())
        .get("/api/sessions/{id}/messages", get(sessions::messages), operation("sessions", "Returns what the model sees of a session").answers::<sessions::MessagesView>())
        .post("/api/sessions/{id}/fork", post(sessions::fork), operation("sessions", "Makes a session that begins with the messages of another").takes::<sessions::ForkRequest>().answers::<ConversationView>().status("201"))
        .post("/api/sessions/{id}/chat", post(sessions::say), operation("sessions", "Says something in a session; the answer is a chat completion").takes::<sessions::SayRequest>().answers::<shapes::ChatCompletion>().streams())
        .post("/api/sessions/{id}/chat/stream", post(sessions::send_streaming), operation("sessions", "Says something in a session; the answer is a stream").takes::<sessions::SayRequest>().streams());
    let routes = schedules::routes(mcp::routes(sandboxes::routes(routes)));
    repeatable(routes, app)
}

/// Routes that take an `Idempotency-Key`.
fn repeatable(routes: DescribedRoutes, app: Option<&ApiState>) -> DescribedRoutes {
    let once = |route: axum::routing::MethodRouter<ApiState>| match app {
        Some(app) => route.layer(middleware::from_fn_with_state(
            idempotency::Replays::from(app),
            idempotency::replay,
        )),
        None => route,
    };
    routes
        .post(
            "/v1/chat/completions",
            once(post(chat::completions)),
            RouteOperation::new("chat", "Runs one turn of the agent")
                .takes::<chat::ChatRequest>()
                .answers::<shapes::ChatCompletion>()
                .streams()
                .headers(&[SESSION, KEY]),
        )
        .post(
            "/v1/responses",
            once(post(responses::create)),
            RouteOperation::new(
                "responses",
                "Runs one turn of the agent; the answer can be fetched and continued",
            )
            .takes::<responses::ResponseRequest>()
            .answers::<shapes::ResponseBody>()
            .streams()
            .headers(&[KEY]),
        )
        .post(
            "/v1/runs",
            once(post(runs::begin)),
            RouteOperation::new("runs", "Starts a turn that continues without its client")
                .takes::<runs::StartRunRequest>()
                .answers::<AgentRunView>()
                .status("202")
                .headers(&[KEY]),
        )
}

/// Lets a request pass that carries the key. Both sides are compared in full, whatever the first
/// difference is, so that the time tells nothing.
async fn authorize(
    State(app): State<ApiState>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    check_key(&app, request.headers())?;
    Ok(next.run(request).await)
}

/// Refuses headers that do not carry the key.
pub(super) fn check_key(app: &ApiState, headers: &HeaderMap) -> Result<(), ApiError> {
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

/// Refuses a page of a browser that is of no configured origin. Programs name none.
pub(super) fn check_origin(app: &ApiState, headers: &HeaderMap) -> Result<(), ApiError> {
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    if app.server.cors_origins.iter().any(|known| known.as_bytes() == origin.as_bytes()) {
        return Ok(());
    }
    Err(ApiError::forbidden(
        "pages of this origin may not connect; add it to api_server.cors_origins",
    ))
}

/// Only pages of the configured origins may ask from a browser.
fn cors(origins: &[String]) -> CorsLayer {
    let origins: Vec<HeaderValue> =
        origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok()).collect();
    if origins.is_empty() {
        return CorsLayer::new();
    }
    let session = HeaderName::from_static(SESSION_HEADER);
    let taken = [
        header::AUTHORIZATION,
        header::CONTENT_TYPE,
        session.clone(),
        HeaderName::from_static(idempotency::HEADER),
        HeaderName::from_static("last-event-id"),
        HeaderName::from_static("mcp-session-id"),
        HeaderName::from_static("mcp-protocol-version"),
    ];
    CorsLayer::new()
        .allow_origin(origins)
        .allow_methods([Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
        .allow_headers(taken)
        .expose_headers([session, HeaderName::from_static("mcp-session-id")])
}

/// A server that is asked needs what it had given back.
async fn use_memory(State(app): State<ApiState>, request: Request) -> Request {
    app.turns.memory().used();
    request
}

async fn harden(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
