//! `POST /api/sandboxes/{task}/run`: one command, waited for or in the background.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::routing::post;
use schemars::JsonSchema;
use serde::Deserialize;
use vestal_api::{RunSandboxView, RunView};
use vestal_sandbox::{Command, CommandInput, Overrides};

use super::SandboxTarget;
use crate::http::ApiState;
use crate::http::error::ApiError;
use crate::http::openapi::{DescribedRoutes, RouteOperation};

/// The session that commands run in unless another is named, as on the command line.
const DEFAULT_SESSION: &str = "main";

/// The name for "no session".
const NO_SESSION: &str = "none";

/// How long a command that is waited for may take unless the request says otherwise.
const DEFAULT_TIMEOUT: u64 = 180;

/// The longest that may be asked for: a day.
const MAX_TIMEOUT: u64 = 86_400;

/// A command to be run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunRequest {
    /// Shell text; either this or `argv`.
    #[serde(default)]
    command: Option<String>,
    /// A program and its arguments.
    #[serde(default)]
    argv: Option<Vec<String>>,
    /// The directory to run it in.
    #[serde(default)]
    workdir: Option<String>,
    /// Seconds after which the command and all that it started are killed: 1 to 86,400, and 180
    /// unless given. A background job has none unless given.
    #[serde(default)]
    timeout_seconds: Option<u64>,
    /// The shell session to restore and to save: `main` unless given, `none` for a clean one.
    #[serde(default)]
    session: Option<String>,
    /// Whether the answer comes at once, with the job's id.
    #[serde(default)]
    background: bool,
    /// Text for its standard input. That of a background job stays open.
    #[serde(default)]
    stdin: Option<String>,
    /// Variables for this command alone; no session keeps them.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// The image of a sandbox that is made for this.
    #[serde(default)]
    image: Option<String>,
    /// The backend of a sandbox that is made for this: that of the settings, or one that
    /// `api_server.backends` lists.
    #[serde(default)]
    backend: Option<String>,
}

pub(super) fn routes(routes: DescribedRoutes, tag: &'static str) -> DescribedRoutes {
    routes.post(
        "/api/sandboxes/{task}/run",
        post(run),
        RouteOperation::new(
            tag,
            "Runs a command; the sandbox is made or started for it. A client that leaves takes a command it waits for along",
        )
        .takes::<RunRequest>()
        .answers::<RunView>(),
    )
}

async fn run(
    State(app): State<ApiState>,
    target: SandboxTarget,
    body: Result<Json<RunRequest>, JsonRejection>,
) -> Result<Json<RunView>, ApiError> {
    let Json(request) = body?;
    let limit = limit(&request)?;
    if let Some(backend) = request.backend.as_deref().filter(|name| !app.server.permits(name)) {
        return Err(not_permitted(backend));
    }
    let overrides = Overrides {
        image: request.image.clone(),
        backend: request.backend.clone(),
        ..Overrides::default()
    };
    let background = request.background;
    let command = command(request, limit)?;
    let sandbox = target.engine.sandbox_with(&target.task, &overrides).await?;
    let about = RunSandboxView::new(&sandbox, sandbox.instance().await);
    let mut view = RunView { sandbox: Some(about), ..RunView::default() };
    if background {
        view.set_started(&sandbox.spawn(command).await?);
        return Ok(Json(view));
    }
    let output = Box::pin(sandbox.run(command.kill_on_drop())).await?;
    view.set_output(&output);
    view.set_exit(&output, limit)
        .map_err(|lost| ApiError::internal(lost.to_string()).code("job_lost"))?;
    let code = output.exit.code.map(Into::into);
    for warning in sandbox.warnings(code, output.session_error.as_deref()).await {
        view.advice.push(warning.to_string());
    }
    Ok(Json(view))
}

/// Naming a backend would otherwise be a way around the isolation that the operator has chosen.
fn not_permitted(backend: &str) -> ApiError {
    ApiError::forbidden(&format!(
        "requests may not choose the backend {backend:?} here; the operator allows it with `vestal config set api_server.backends {backend}`"
    ))
    .code("backend_not_permitted")
}

fn limit(request: &RunRequest) -> Result<Option<Duration>, ApiError> {
    match request.timeout_seconds {
        Some(seconds @ 1..=MAX_TIMEOUT) => Ok(Some(Duration::from_secs(seconds))),
        Some(_) => {
            let message = format!("must be 1 to {MAX_TIMEOUT}");
            Err(ApiError::invalid("timeout_seconds", message))
        }
        None if request.background => Ok(None),
        None => Ok(Some(Duration::from_secs(DEFAULT_TIMEOUT))),
    }
}

fn command(request: RunRequest, limit: Option<Duration>) -> Result<Command, ApiError> {
    let mut command = match (request.command, request.argv) {
        (Some(text), None) => Command::shell(text),
        (None, Some(argv)) if !argv.is_empty() => Command::argv(argv),
        _ => {
            let message = "send either command (shell text) or argv (a program and its arguments)";
            return Err(ApiError::invalid("command", message));
        }
    };
    let session = request.session.as_deref().unwrap_or(DEFAULT_SESSION);
    if session != NO_SESSION {
        command = command.session(session);
    }
    if let Some(dir) = &request.workdir {
        command = command.workdir(dir);
    }
    if let Some(limit) = limit {
        command = command.timeout(limit);
    }
    for (name, value) in &request.env {
        command = command.secret_env(name, value);
    }
    Ok(match request.stdin {
        Some(text) => command.stdin(CommandInput::Bytes(text.into_bytes())),
        None if request.background => command.stdin(CommandInput::Piped),
        None => command.stdin(CommandInput::Null),
    })
}
