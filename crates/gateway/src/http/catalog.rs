//! What a client can find out before it asks: models, capabilities, toolsets and skills.

use axum::Json;
use axum::extract::{Path, State};
use schemars::JsonSchema;
use serde::Serialize;
use vestal_api::{BrokenSkillView, SkillView};

use super::ApiState;
use super::error::ApiError;
use super::openapi::Listed;

/// The model that clients see, whatever stands behind it.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ModelView {
    /// Its name.
    id: String,
    /// `model`.
    object: &'static str,
    /// When the gateway was started, in seconds of Unix time.
    created: i64,
    /// `vestal`.
    owned_by: &'static str,
}

impl ModelView {
    fn of(app: &ApiState) -> Self {
        Self {
            id: app.server.model_name.clone(),
            object: "model",
            created: app.state.read().started_at.as_second(),
            owned_by: "vestal",
        }
    }
}

/// `GET /v1/models`: the one model that clients see.
pub(super) async fn models(State(app): State<ApiState>) -> Json<Listed<ModelView>> {
    Json(Listed::new(vec![ModelView::of(&app)], false))
}

/// `GET /v1/models/{id}`.
pub(super) async fn show_model(
    State(app): State<ApiState>,
    Path(id): Path<String>,
) -> Result<Json<ModelView>, ApiError> {
    if id == app.server.model_name {
        return Ok(Json(ModelView::of(&app)));
    }
    let name = &app.server.model_name;
    Err(ApiError::gone("model_not_found", format!("there is no model {id:?}; there is {name:?}")))
}

/// What this server does.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct CapabilitiesView {
    /// `capabilities`.
    object: &'static str,
    /// `vestal`.
    platform: &'static str,
    /// The version of the program.
    version: &'static str,
    /// The model that clients see.
    model: String,
    /// Turns of clients that may be in progress at once.
    max_concurrent_runs: usize,
    /// The largest body of a request.
    max_body_bytes: usize,
    /// What there is.
    features: FeaturesView,
}

/// What there is.
#[derive(Debug, Serialize, JsonSchema)]
#[expect(clippy::struct_excessive_bools, reason = "each is a member that clients look at")]
struct FeaturesView {
    chat_completions: bool,
    chat_completions_streaming: bool,
    responses: bool,
    responses_streaming: bool,
    runs: bool,
    run_events: bool,
    run_approval: bool,
    run_stop: bool,
    /// Whether runs go on after a restart of the gateway.
    run_resumption: bool,
    idempotency: bool,
    sessions: bool,
    sandboxes: bool,
    /// Whether tools of clients are taken.
    client_tools: bool,
}

/// `GET /v1/capabilities`: what this server does, so that a client need not try.
pub(super) async fn capabilities(State(app): State<ApiState>) -> Json<CapabilitiesView> {
    Json(CapabilitiesView {
        object: "capabilities",
        platform: "vestal",
        version: env!("CARGO_PKG_VERSION"),
        model: app.server.model_name.clone(),
        max_concurrent_runs: app.turns.limit(),
        max_body_bytes: super::MAX_BODY,
        features: FeaturesView {
            chat_completions: true,
            chat_completions_streaming: true,
            responses: true,
            responses_streaming: true,
            runs: true,
            run_events: true,
            run_approval: true,
            run_stop: true,
            run_resumption: true,
            idempotency: true,
            sessions: true,
            sandboxes: true,
            client_tools: false,
        },
    })
}

/// Tools that settings name together.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ToolsetView {
    /// The name.
    id: String,
    /// `toolset`.
    object: &'static str,
    /// The tools.
    tools: Vec<String>,
}

/// `GET /v1/toolsets`: the tools that the agent could have, by the set that settings name.
pub(super) async fn toolsets(State(app): State<ApiState>) -> Json<Listed<ToolsetView>> {
    let tools = app.turns.runtime().agent().tools();
    let sets = tools.toolsets().into_iter().map(|set| {
        let in_set =
            tools.names().filter(|name| tools.get(name).is_some_and(|tool| tool.toolset() == set));
        ToolsetView {
            id: set.to_owned(),
            object: "toolset",
            tools: in_set.map(ToString::to_string).collect(),
        }
    });
    Json(Listed::new(sets.collect(), false))
}

/// The skills of the agent.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SkillListView {
    /// `list`.
    object: &'static str,
    /// Those that can be used.
    data: Vec<SkillView>,
    /// Those that cannot.
    broken: Vec<BrokenSkillView>,
}

/// `GET /v1/skills`: the members of each as in `vestal skills list --json`.
pub(super) async fn skills(State(app): State<ApiState>) -> Json<SkillListView> {
    let skills = app.turns.runtime().skills();
    let catalogue = skills.catalogue();
    let usable = catalogue.skills.iter().map(|skill| SkillView::new(skill, &skills.needs(skill)));
    Json(SkillListView {
        object: "list",
        data: usable.collect(),
        broken: catalogue.broken.iter().map(BrokenSkillView::from).collect(),
    })
}
