//! Whether the server is up, and what it is up to.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use super::ApiState;
use crate::state::{GatewayPhase, ListenerState};

/// That the server answers.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct HealthView {
    /// `ok`.
    status: &'static str,
    /// `vestal`.
    platform: &'static str,
    /// The version of the program.
    version: &'static str,
}

/// The state of the gateway, and whether a turn could begin now.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct DetailedHealthView {
    /// `ok` if the gateway is `running`; otherwise its state, as `degraded` or `draining`.
    status: &'static str,
    /// `vestal`.
    platform: &'static str,
    /// The version of the program.
    version: &'static str,
    /// The profile that is served.
    profile: String,
    /// The process.
    pid: u32,
    /// When it was started.
    started_at: String,
    /// The state, as `gateway_state.json` has it.
    gateway_state: &'static str,
    /// Turns in progress of all origins: the sum of the counts in `turns`.
    active_agents: usize,
    /// Turns in progress by what they take their place from.
    turns: TurnCounts,
    /// Turns of clients that may be in progress at once.
    max_concurrent_runs: usize,
    /// Its parts by name, as `gateway_state.json` has them.
    platforms: BTreeMap<String, PartView>,
    /// What a turn needs. A check that fails does not change the state.
    checks: ChecksView,
}

/// Turns in progress by what they take their place from.
#[derive(Debug, Serialize, JsonSchema)]
struct TurnCounts {
    /// Of requests, of runs, of sessions over WebSocket, and those that news of background jobs
    /// began. Never more than `max_concurrent_runs`.
    clients: usize,
    /// Resumed ones that an earlier gateway left. Never more than `max_concurrent_runs`.
    resumed: usize,
    /// Of schedules. Never more than `cron.max_concurrent`.
    scheduled: usize,
}

/// A part of the gateway.
#[derive(Debug, Serialize, JsonSchema)]
struct PartView {
    /// `connecting`, `connected`, `failed` or `stopped`.
    state: &'static str,
    /// Where it listens, if it does.
    address: Option<String>,
    /// A name for the error that stays the same.
    error_code: Option<String>,
    /// What went wrong.
    error_message: Option<String>,
    /// When this was last written.
    updated_at: String,
}

impl From<ListenerState> for PartView {
    fn from(part: ListenerState) -> Self {
        Self {
            state: part.state.word(),
            address: part.address,
            error_code: part.error_code,
            error_message: part.error_message,
            updated_at: part.updated_at.to_string(),
        }
    }
}

/// What a turn needs.
#[derive(Debug, Serialize, JsonSchema)]
struct ChecksView {
    /// Whether a model is configured.
    model: CheckView,
    /// Whether conversations can be read.
    state_db: CheckView,
}

/// Whether something can be used.
#[derive(Debug, Default, Serialize, JsonSchema)]
struct CheckView {
    /// Whether it can.
    ok: bool,
    /// The model that is asked first.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// Why it cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl CheckView {
    fn failed(error: &impl ToString) -> Self {
        Self { error: Some(error.to_string()), ..Self::default() }
    }
}

/// `GET /health`: that the server answers. It needs no key and says nothing else.
pub(super) async fn health() -> Json<HealthView> {
    Json(HealthView { status: "ok", platform: "vestal", version: env!("CARGO_PKG_VERSION") })
}

/// `GET /health/detailed`: the state of the gateway, and whether a turn could begin now.
pub(super) async fn detailed(State(app): State<ApiState>) -> Json<DetailedHealthView> {
    let state = app.state.read();
    let activity = *app.turns.activity().borrow();
    let settings = app.turns.runtime().settings().reload();
    let model = match vestal_runtime::endpoints(&settings, None) {
        Ok(chain) => {
            let model = chain.first().map(|endpoint| endpoint.model.clone());
            CheckView { ok: true, model, error: None }
        }
        Err(error) => CheckView::failed(&error),
    };
    let state_db = match app.turns.store().list(&one()).await {
        Ok(_) => CheckView { ok: true, ..CheckView::default() },
        Err(error) => CheckView::failed(&error),
    };
    let phase = state.gateway_state;
    Json(DetailedHealthView {
        status: if phase == GatewayPhase::Running { "ok" } else { phase.word() },
        platform: "vestal",
        version: env!("CARGO_PKG_VERSION"),
        profile: state.profile,
        pid: state.pid,
        started_at: state.started_at.to_string(),
        gateway_state: phase.word(),
        active_agents: activity.agents(),
        turns: TurnCounts {
            clients: activity.clients,
            resumed: activity.leftovers,
            scheduled: activity.schedules,
        },
        max_concurrent_runs: app.turns.limit(),
        platforms: state.platforms.into_iter().map(|(name, part)| (name, part.into())).collect(),
        checks: ChecksView { model, state_db },
    })
}

fn one() -> vestal_conversations::ConversationFilter {
    vestal_conversations::ConversationFilter {
        limit: 1,
        ..vestal_conversations::ConversationFilter::default()
    }
}
