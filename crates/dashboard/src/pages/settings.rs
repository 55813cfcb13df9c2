//! Settings: a form from the schema, and `config.yaml` as a text without its secrets.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use serde::Deserialize;
use vestal_api::dashboard::{
    ConfigTextView, SettingChangedView, SettingsPageView, TextCheckedView,
};
use vestal_config::{
    ConfigTextError, SetError, SetOutcome, Settings, TextUse, check_value, config_text, set, unset,
    use_config_text,
};

use super::{OneProfileQuery, bad_request};
use crate::app::App;
use crate::error::PageError;
use crate::gate::{DeclaredRoute, Right, Route};

pub(super) fn routes() -> Vec<DeclaredRoute<App>> {
    vec![
        Route::get("/api/settings", show).needs(Right::Viewer),
        Route::post("/api/settings/check", check).needs(Right::Operator),
        Route::post("/api/settings/set", change).needs(Right::Operator),
        Route::post("/api/settings/unset", reset).needs(Right::Operator),
        Route::get("/api/settings/text", text).needs(Right::Operator),
        Route::post("/api/settings/text", write_text).needs(Right::Operator),
    ]
}

async fn show(
    State(app): State<App>,
    Query(query): Query<OneProfileQuery>,
) -> Result<Json<SettingsPageView>, PageError> {
    let profile = query.name(&app)?;
    let settings = app.data.settings(&profile);
    Ok(Json(SettingsPageView {
        profile: profile.to_string(),
        file: settings.home().config_file().to_string_lossy().into_owned(),
        rows: settings.fields(),
        findings: settings.check(),
    }))
}

/// A key of a profile, and what it is to be.
#[derive(Deserialize)]
pub(super) struct SettingRequest {
    #[serde(flatten)]
    profile: OneProfileQuery,
    key: String,
    /// As `vestal config set` takes it.
    #[serde(default)]
    value: String,
}

type SettingBody = Result<Json<SettingRequest>, JsonRejection>;

impl SettingRequest {
    /// Reads one, without repeating what was sent: the value may be a secret.
    fn of(app: &App, body: SettingBody) -> Result<(Self, Settings), PageError> {
        let Json(request) = body.map_err(|rejection| {
            bad_request(rejection.status(), "a key and a value are asked for".to_owned())
        })?;
        let settings = app.data.settings(&request.profile.name(app)?);
        Ok((request, settings))
    }
}

/// Says whether a value would be taken, and changes nothing.
async fn check(
    State(app): State<App>,
    body: SettingBody,
) -> Result<Json<serde_json::Value>, PageError> {
    let (request, settings) = SettingRequest::of(&app, body)?;
    let wrong = check_value(&settings, &request.key, &request.value).err();
    Ok(Json(serde_json::json!({ "problem": wrong.map(|error| error.to_string()) })))
}

async fn change(
    State(app): State<App>,
    body: SettingBody,
) -> Result<Json<SettingChangedView>, PageError> {
    let (request, settings) = SettingRequest::of(&app, body)?;
    let outcome = set(&settings, &request.key, &request.value)?;
    Ok(Json(changed(&settings, &request.key, Some(&outcome))))
}

/// Goes back to the default, as far as the file is concerned.
async fn reset(
    State(app): State<App>,
    body: SettingBody,
) -> Result<Json<SettingChangedView>, PageError> {
    let (request, settings) = SettingRequest::of(&app, body)?;
    let outcome = unset(&settings, &request.key)?;
    Ok(Json(changed(&settings, &request.key, outcome.as_ref())))
}

fn changed(before: &Settings, key: &str, outcome: Option<&SetOutcome>) -> SettingChangedView {
    let hidden_by = outcome.and_then(|outcome| outcome.hidden_by.as_ref());
    SettingChangedView {
        key: key.to_owned(),
        changed: outcome.is_some(),
        hidden_by: hidden_by.map(ToString::to_string),
        field: before.reload().field(key),
    }
}

async fn text(
    State(app): State<App>,
    Query(query): Query<OneProfileQuery>,
) -> Result<Json<ConfigTextView>, PageError> {
    let settings = app.data.settings(&query.name(&app)?);
    Ok(Json(ConfigTextView::from(config_text(&settings)?)))
}

/// A text that is to become `config.yaml`.
#[derive(Deserialize)]
pub(super) struct TextRequest {
    #[serde(flatten)]
    profile: OneProfileQuery,
    /// The state of the file that it was made from.
    revision: String,
    text: String,
    /// Only say what would be wrong.
    #[serde(default)]
    check: bool,
}

async fn write_text(
    State(app): State<App>,
    body: Result<Json<TextRequest>, JsonRejection>,
) -> Result<Json<TextCheckedView>, PageError> {
    let Json(request) = body.map_err(|rejection| {
        bad_request(rejection.status(), "a revision and a text are asked for".to_owned())
    })?;
    let settings = app.data.settings(&request.profile.name(&app)?);
    let purpose = if request.check { TextUse::Check } else { TextUse::Write };
    let outcome = use_config_text(&settings, &request.revision, &request.text, purpose)?;
    let now = (purpose == TextUse::Write).then(|| config_text(&settings)).transpose()?;
    Ok(Json(TextCheckedView {
        changed: outcome.is_changed,
        findings: outcome.findings,
        now: now.map(ConfigTextView::from),
    }))
}

impl From<SetError> for PageError {
    fn from(error: SetError) -> Self {
        let detail = error.to_string();
        match error {
            SetError::Config(_)
            | SetError::Empty { .. }
            | SetError::Masked { .. }
            | SetError::NoList { .. }
            | SetError::NoMap { .. } => Self::invalid(detail),
            SetError::Read { .. } | SetError::Edit { .. } | SetError::Remove { .. } => {
                Self::conflict(detail)
            }
            SetError::Write { .. } => Self::unavailable(detail),
        }
    }
}

impl From<ConfigTextError> for PageError {
    fn from(error: ConfigTextError) -> Self {
        let detail = error.to_string();
        match error {
            ConfigTextError::Changed { .. } => Self::new(StatusCode::CONFLICT, "changed", detail)
                .advise("load it again and repeat your change"),
            ConfigTextError::Invalid { findings } => {
                let found: Vec<String> =
                    findings.into_iter().map(|finding| finding.message).collect();
                Self::invalid(detail).advise(found.join("\n"))
            }
            ConfigTextError::Read { .. } => {
                Self::conflict(detail).advise("mend it with an editor where the dashboard runs")
            }
            ConfigTextError::Write { .. } => Self::unavailable(detail),
            ConfigTextError::UnknownMarker { .. }
            | ConfigTextError::Exposed { .. }
            | ConfigTextError::Text { .. } => Self::invalid(detail),
        }
    }
}
