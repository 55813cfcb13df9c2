//! `POST /mcp`: the sandboxes as tools for clients of the Model Context Protocol.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::post;
use futures_util::StreamExt as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use vestal_mcp_server::{
    HttpEndpoint, McpService, SandboxScope, ServiceOptions, TaskChoice, Toolset,
};
use vestal_sandbox::{Engine, Overrides, TaskName};

use super::ApiState;
use super::error::ApiError;
use super::openapi::{DescribedRoutes, RouteOperation};
use super::routes::check_origin;

pub(super) fn routes(routes: DescribedRoutes) -> DescribedRoutes {
    routes.post(
        "/mcp",
        post(serve),
        RouteOperation::new(
            "mcp",
            "Answers a message of the Model Context Protocol (streamable HTTP): the sandboxes as tools. A client that leaves takes a command it waits for along",
        )
        .query::<McpQuery>()
        .takes::<JsonRpcMessage>()
        .answers::<JsonRpcMessage>()
        .streams(),
    )
}

/// Returns what serves it. A client that has the key may use all sandboxes of the profile, as it may at
/// `/api/sandboxes`; the board is not among them.
pub(super) fn endpoint(engine: Engine, stop: CancellationToken) -> HttpEndpoint {
    let options = ServiceOptions {
        task: TaskChoice::PerClient { directory: None },
        overrides: Overrides::default(),
        scope: SandboxScope::All,
        toolsets: vec![Toolset::Sandbox],
        // Whether there are such sandboxes is for the settings to say; the tools name the backend.
        unconfined: engine
            .host_start_dir(&TaskName::default_task(), &Overrides::default())
            .is_ok_and(|dir| dir.is_some()),
    };
    HttpEndpoint::new(McpService::new(engine, options, None), stop)
}

/// What the address may say.
#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "it is for the document; the service reads the query itself")]
pub(super) struct McpQuery {
    /// The task that the client works in: one named by the client, unless given.
    task: Option<String>,
}

/// A message of JSON-RPC 2.0.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct JsonRpcMessage {
    /// `2.0`.
    jsonrpc: String,
    /// What the answer carries, too.
    id: Option<Value>,
    /// What is asked.
    method: Option<String>,
    /// What it is asked with.
    params: Option<Value>,
    /// The answer.
    result: Option<Value>,
    /// Why there is none.
    error: Option<Value>,
}

/// Answers a message. A drain waits for it as for all requests about sandboxes, and interrupts it:
/// what the client waits for is ended then. The protocol demands that pages of other origins are refused,
/// also with the key.
async fn serve(State(app): State<ApiState>, request: Request) -> Result<Response, ApiError> {
    check_origin(&app, request.headers())?;
    let enlisted = app.turns.enlist_request()?;
    let answer = tokio::select! {
        biased;
        answer = app.mcp.handle(request) => answer,
        () = enlisted.interrupted() => return Err(ApiError::unavailable(
            "interrupted",
            "the gateway is stopping and interrupted the request; what it waited for was ended with it",
        )),
    };
    let (parts, body) = answer.into_parts();
    // Held until the last byte: the answer may be a stream that goes on as long as a command.
    let interrupted = async move { enlisted.interrupted().await };
    let body = Body::new(body).into_data_stream().take_until(Box::pin(interrupted));
    Ok(Response::from_parts(parts, Body::from_stream(body)))
}
