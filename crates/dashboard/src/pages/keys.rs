//! Keys: put in, replaced, taken out, and shown only to an operator who asks for one.

use std::time::Instant;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Query, State};
use serde::Deserialize;
use serde_json::{Value, json};
use vestal_api::KeysPageView;
use vestal_config::{
    EnvName, SetVariableError, Settings, ValueSource, remove_variable, set_variable,
};

use super::{OneProfileQuery, bad_request};
use crate::app::App;
use crate::auth::AuditEvent;
use crate::error::PageError;
use crate::gate::{Caller, DeclaredRoute, Right, Route};

pub(super) fn routes() -> Vec<DeclaredRoute<App>> {
    vec![
        Route::get("/api/keys", list).needs(Right::Viewer),
        Route::post("/api/keys/set", change).needs(Right::Operator),
        Route::post("/api/keys/remove", remove).needs(Right::Operator),
        Route::post("/api/keys/reveal", reveal).needs(Right::Operator),
    ]
}

async fn list(
    State(app): State<App>,
    Query(query): Query<OneProfileQuery>,
) -> Result<Json<KeysPageView>, PageError> {
    Ok(Json(KeysPageView::new(&app.data.settings(&query.name(&app)?))))
}

/// A variable of a profile.
#[derive(Deserialize)]
pub(super) struct KeyRequest {
    #[serde(flatten)]
    profile: OneProfileQuery,
    name: String,
    #[serde(default)]
    value: String,
}

type KeyBody = Result<Json<KeyRequest>, JsonRejection>;

/// A request that was understood. No part of it is shown: it may be a secret.
struct Wanted {
    settings: Settings,
    name: EnvName,
    value: String,
}

impl Wanted {
    fn of(app: &App, body: KeyBody) -> Result<Self, PageError> {
        let Json(request) = body.map_err(|rejection| {
            bad_request(rejection.status(), "the name of a variable is asked for".to_owned())
        })?;
        let settings = app.data.settings(&request.profile.name(app)?);
        let name = EnvName::new(request.name.trim()).ok_or_else(|| {
            PageError::invalid("a name has letters, digits and _, and does not begin with a digit")
        })?;
        Ok(Self { settings, name, value: request.value })
    }
}

async fn change(State(app): State<App>, body: KeyBody) -> Result<Json<KeysPageView>, PageError> {
    let Wanted { settings, name, value } = Wanted::of(&app, body)?;
    // Pasted with what stood around it.
    let value = value.trim();
    if value.is_empty() {
        return Err(PageError::invalid("the value is missing").advise("to take it out: Remove"));
    }
    set_variable(&settings, &name, value)?;
    Ok(Json(KeysPageView::new(&settings.reload())))
}

async fn remove(State(app): State<App>, body: KeyBody) -> Result<Json<KeysPageView>, PageError> {
    let Wanted { settings, name, .. } = Wanted::of(&app, body)?;
    if remove_variable(&settings, &name)?.is_none() {
        return Err(PageError::not_found(format!(
            "{name} is not in {}",
            settings.home().env_file().display()
        )));
    }
    Ok(Json(KeysPageView::new(&settings.reload())))
}

/// Shows one key of the file. What only the environment of this process has is not shown: it may be of
/// other programs.
async fn reveal(
    State(app): State<App>,
    caller: Caller,
    body: KeyBody,
) -> Result<Json<Value>, PageError> {
    let Wanted { settings, name, .. } = Wanted::of(&app, body)?;
    let event = |outcome| {
        let what = format!("{} of {}", name, settings.home().profile());
        AuditEvent::reveal(&caller.client, outcome, &what).by(&caller.principal)
    };
    app.login.attempt_to_reveal(&caller.principal.name, Instant::now()).map_err(|wait| {
        app.gate.audit.record(&event("too_many_attempts"));
        PageError::too_many(wait)
    })?;
    let found =
        settings.variable(&name).map_err(|error| PageError::unavailable(error.to_string()))?;
    let value = found.filter(|found| matches!(found.source, ValueSource::DotEnv { .. }));
    let Some(value) = value else {
        app.gate.audit.record(&event("not_found"));
        return Err(PageError::not_found(format!(
            "{name} does not come from {}",
            settings.home().env_file().display()
        )));
    };
    // Before it is shown: what cannot be recorded is at least in the log of the program.
    app.gate.audit.record(&event("done"));
    Ok(Json(json!({ "name": name.to_string(), "value": value.value.to_string_lossy() })))
}

impl From<SetVariableError> for PageError {
    fn from(error: SetVariableError) -> Self {
        let detail = error.to_string();
        match error {
            SetVariableError::NotOneLine { .. } => Self::invalid(detail),
            SetVariableError::Read { .. } => Self::conflict(detail),
            SetVariableError::Write { .. } => Self::unavailable(detail),
        }
    }
}
