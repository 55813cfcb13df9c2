//! Gateways, logs and the doctor: what an operator looks at when something is wrong.

use std::str::FromStr as _;

use axum::Json;
use axum::extract::{Path, Query, State};
use serde::Deserialize;
use vestal_api::{GatewayLogLineView, GatewayStatusView, HealthReportView, LogSource, log_sources};
use vestal_logs::{Level, LogFilter, MergedLogs};

use super::OneProfileQuery;
use crate::app::App;
use crate::data::GatewayChange;
use crate::error::PageError;
use crate::gate::{DeclaredRoute, Right, Route};

/// The newest entries of logs that a page shows, and at most.
const ENTRIES: usize = 200;
const MAX_ENTRIES: usize = 2000;

pub(super) fn routes() -> Vec<DeclaredRoute<App>> {
    vec![
        Route::get("/api/gateways", gateways).needs(Right::Viewer),
        Route::post("/api/gateways/{profile}/start", start_gateway).needs(Right::Operator),
        Route::post("/api/gateways/{profile}/stop", stop_gateway).needs(Right::Operator),
        Route::post("/api/gateways/{profile}/restart", restart_gateway).needs(Right::Operator),
        Route::get("/api/logs", logs).needs(Right::Viewer),
        Route::get("/api/doctor", doctor).needs(Right::Viewer),
    ]
}

async fn gateways(State(app): State<App>) -> Result<Json<GatewayStatusView>, PageError> {
    let found = app.host.gateways().await.map_err(PageError::unavailable)?;
    Ok(Json(found))
}

/// Changes a gateway and answers with what all of them are then.
async fn change_gateway(
    app: App,
    profile: &str,
    change: GatewayChange,
) -> Result<Json<GatewayStatusView>, PageError> {
    let profile = app.data.profile(profile)?.profile().clone();
    app.host.change_gateway(&profile, change).await.map_err(PageError::conflict)?;
    gateways(State(app)).await
}

async fn start_gateway(
    State(app): State<App>,
    Path(profile): Path<String>,
) -> Result<Json<GatewayStatusView>, PageError> {
    change_gateway(app, &profile, GatewayChange::Start).await
}

async fn stop_gateway(
    State(app): State<App>,
    Path(profile): Path<String>,
) -> Result<Json<GatewayStatusView>, PageError> {
    change_gateway(app, &profile, GatewayChange::Stop).await
}

async fn restart_gateway(
    State(app): State<App>,
    Path(profile): Path<String>,
) -> Result<Json<GatewayStatusView>, PageError> {
    change_gateway(app, &profile, GatewayChange::Restart).await
}

#[derive(Debug, Deserialize)]
pub(super) struct ProfileLogsQuery {
    profile: Option<String>,
    level: Option<String>,
    session: Option<String>,
    /// Logs, separated by commas; all unless given.
    source: Option<String>,
    /// Only entries with this text in them, whatever its case.
    text: Option<String>,
    entries: Option<usize>,
}

/// Returns the newest entries of all logs, merged by time.
async fn logs(
    State(app): State<App>,
    Query(query): Query<ProfileLogsQuery>,
) -> Result<Json<Vec<GatewayLogLineView>>, PageError> {
    let given = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
    let level = match given(query.level) {
        Some(word) => {
            Some(Level::from_str(&word).map_err(|error| PageError::invalid(error.to_string()))?)
        }
        None => None,
    };
    let wanted = match given(query.source) {
        Some(words) => words
            .split(',')
            .map(|word| LogSource::from_str(word.trim()))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| PageError::invalid(error.to_string()))?,
        None => LogSource::ALL.to_vec(),
    };
    let profiles = match given(query.profile) {
        Some(name) => Some(vec![app.data.profile(&name)?.profile().clone()]),
        None => None,
    };
    let text = given(query.text).map(|text| text.trim().to_lowercase());
    let session = given(query.session).map(|session| session.trim().to_owned());
    let filter = LogFilter { level, session, since: None, text };
    let count = query.entries.unwrap_or(ENTRIES).min(MAX_ENTRIES);
    let root = app.data.root().clone();
    // Files are read: not on a thread that serves others.
    let read = move || {
        let mut merged = MergedLogs::new(log_sources(&root, profiles.as_deref(), &wanted), filter);
        merged.last(count).into_iter().map(Into::into).collect::<Vec<GatewayLogLineView>>()
    };
    let found = tokio::task::spawn_blocking(read).await;
    Ok(Json(found.map_err(|error| PageError::internal(error.to_string()))?))
}

async fn doctor(
    State(app): State<App>,
    Query(query): Query<OneProfileQuery>,
) -> Result<Json<HealthReportView>, PageError> {
    let profile = query.name(&app)?;
    let found = app.host.health(&profile).await.map_err(PageError::unavailable)?;
    Ok(Json(found))
}
