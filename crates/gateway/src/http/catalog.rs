//! What a client can find out before it asks: models, capabilities, toolsets and skills.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use vestal_api::{BrokenSkillView, SkillView};

use super::App;
use super::error::ApiError;

/// `GET /v1/models`: the one model that clients see, whatever stands behind it.
pub(super) async fn models(State(app): State<App>) -> Result<Json<Value>, ApiError> {
    Ok(Json(json!({ "object": "list", "data": [model(&app)] })))
}

/// `GET /v1/models/{id}`.
pub(super) async fn show_model(
    State(app): State<App>,
    axum::extract::Path(id): axum::extract::Path<String>,
) -> Result<Json<Value>, ApiError> {
    if id == app.server.model_name {
        return Ok(Json(model(&app)));
    }
    let name = &app.server.model_name;
    Err(ApiError::gone("model_not_found", format!("there is no model {id:?}; there is {name:?}")))
}

fn model(app: &App) -> Value {
    json!({
        "id": app.server.model_name,
        "object": "model",
        "created": app.state.read().started_at.as_second(),
        "owned_by": "vestal",
    })
}

/// `GET /v1/capabilities`: what this server does, so that a client need not try.
pub(super) async fn capabilities(State(app): State<App>) -> Json<Value> {
    Json(json!({
        "object": "capabilities",
        "platform": "vestal",
        "version": env!("CARGO_PKG_VERSION"),
        "model": app.server.model_name,
        "max_concurrent_runs": app.turns.limit(),
        "max_body_bytes": super::MAX_BODY,
        "features": {
            "chat_completions": true,
            "chat_completions_streaming": true,
            "responses": true,
            "responses_streaming": true,
            "runs": true,
            "run_events": true,
            "run_approval": true,
            "run_stop": true,
            "idempotency": true,
            "sessions": true,
            "sandboxes": true,
            "client_tools": false,
        },
    }))
}

/// `GET /v1/toolsets`: the tools that the agent could have, by the set that settings name.
pub(super) async fn toolsets(State(app): State<App>) -> Json<Value> {
    let tools = app.turns.runtime().agent().tools();
    let sets = tools.toolsets().into_iter().map(|set| {
        let in_set =
            tools.names().filter(|name| tools.get(name).is_some_and(|tool| tool.toolset() == set));
        json!({ "id": set, "object": "toolset", "tools": in_set.collect::<Vec<_>>() })
    });
    Json(json!({ "object": "list", "data": sets.collect::<Vec<_>>() }))
}

/// `GET /v1/skills`: the members of each as in `vestal skills list --json`.
pub(super) async fn skills(State(app): State<App>) -> Json<Value> {
    let skills = app.turns.runtime().skills();
    let catalogue = skills.catalogue();
    let usable = catalogue.skills.iter().map(|skill| SkillView::new(skill, &skills.needs(skill)));
    let broken = catalogue.broken.iter().map(BrokenSkillView::from);
    Json(json!({
        "object": "list",
        "data": usable.collect::<Vec<_>>(),
        "broken": broken.collect::<Vec<_>>(),
    }))
}
