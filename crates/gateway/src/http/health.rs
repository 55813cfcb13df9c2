//! Whether the server is up, what it is up to, and which model it offers.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use super::App;
use crate::state::GatewayPhase;

/// `GET /health`: that the server answers. It needs no key and says nothing else.
pub(super) async fn health() -> Json<Value> {
    Json(json!({ "status": "ok", "platform": "vestal", "version": env!("CARGO_PKG_VERSION") }))
}

/// `GET /health/detailed`: the state of the gateway, and whether a turn could begin now.
pub(super) async fn detailed(State(app): State<App>) -> Json<Value> {
    let state = app.state.read();
    let active = *app.turns.active().borrow();
    let runtime = app.turns.runtime();
    let settings = runtime.settings().reload();
    let model = match vestal_runtime::endpoints(&settings, None) {
        Ok(chain) => {
            let first = chain.first();
            json!({ "ok": true, "model": first.map(|endpoint| endpoint.model.clone()) })
        }
        Err(error) => json!({ "ok": false, "error": error.to_string() }),
    };
    let store = match runtime.agent().store().list(&one()).await {
        Ok(_) => json!({ "ok": true }),
        Err(error) => json!({ "ok": false, "error": error.to_string() }),
    };
    let is_ok = |check: &Value| check["ok"] == Value::Bool(true);
    let is_up = matches!(state.gateway_state, GatewayPhase::Running);
    let status = if is_up && is_ok(&model) && is_ok(&store) { "ok" } else { "degraded" };
    Json(json!({
        "status": status,
        "platform": "vestal",
        "version": env!("CARGO_PKG_VERSION"),
        "profile": state.profile,
        "pid": state.pid,
        "started_at": state.started_at,
        "gateway_state": state.gateway_state,
        "active_agents": active,
        "max_concurrent_runs": app.turns.limit(),
        "platforms": state.platforms,
        "checks": { "model": model, "state_db": store },
    }))
}

fn one() -> vestal_conversations::Filter {
    vestal_conversations::Filter { limit: 1, ..vestal_conversations::Filter::default() }
}
