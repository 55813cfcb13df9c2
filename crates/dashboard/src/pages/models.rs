//! Models: which one is asked, what the providers offer, and the choice.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Query, State};
use serde::Deserialize;
use vestal_agent::settings;
use vestal_api::dashboard::ModelChosenView;
use vestal_api::{DefaultModelView, ModelsView, ProviderView};
use vestal_model::{Endpoint, Freshness};
use vestal_runtime::{ChooseModelError, ProviderModels, choose_model};

use super::{OneProfileQuery, bad_request};
use crate::app::App;
use crate::error::PageError;
use crate::gate::{DeclaredRoute, Right, Route};

pub(super) fn routes() -> Vec<DeclaredRoute<App>> {
    vec![
        Route::get("/api/models", list).needs(Right::Viewer),
        Route::post("/api/models/refresh", refresh).needs(Right::Operator),
        Route::post("/api/models/choose", choose).needs(Right::Operator),
    ]
}

/// Lists what providers offer. Lists that are fresh enough are not asked for again.
async fn models(
    app: &App,
    query: &OneProfileQuery,
    freshness: Freshness,
) -> Result<Json<ModelsView>, PageError> {
    let settings = app.data.settings(&query.name(app)?);
    let listed = vestal_runtime::list_models(&settings, freshness).await;
    let listed = listed.map_err(|error| PageError::conflict(error.to_string()))?;
    let view = |provider: ProviderModels| {
        ProviderView::new(provider.provider, provider.listed.map_err(|error| error.to_string()))
    };
    let first = settings::endpoints(&settings, None).ok().and_then(|all| all.into_iter().next());
    let default =
        first.map(|Endpoint { name, model, .. }| DefaultModelView { provider: name, model });
    Ok(Json(ModelsView { default, providers: listed.into_iter().map(view).collect() }))
}

async fn list(
    State(app): State<App>,
    Query(query): Query<OneProfileQuery>,
) -> Result<Json<ModelsView>, PageError> {
    models(&app, &query, Freshness::Cached).await
}

async fn refresh(
    State(app): State<App>,
    body: Result<Json<OneProfileQuery>, JsonRejection>,
) -> Result<Json<ModelsView>, PageError> {
    let Json(query) =
        body.map_err(|rejection| bad_request(rejection.status(), rejection.body_text()))?;
    models(&app, &query, Freshness::Refresh).await
}

#[derive(Deserialize)]
struct ChoiceRequest {
    #[serde(flatten)]
    profile: OneProfileQuery,
    /// `MODEL` or `PROVIDER:MODEL`.
    model: String,
}

async fn choose(
    State(app): State<App>,
    body: Result<Json<ChoiceRequest>, JsonRejection>,
) -> Result<Json<ModelChosenView>, PageError> {
    let Json(request) =
        body.map_err(|rejection| bad_request(rejection.status(), rejection.body_text()))?;
    let settings = app.data.settings(&request.profile.name(&app)?);
    let chosen = choose_model(&settings, &request.model).map_err(|error| {
        let advice = error.advice().join("\n");
        let failed = match error {
            ChooseModelError::Set(error) => error.into(),
            error => PageError::invalid(error.to_string()),
        };
        if advice.is_empty() { failed } else { failed.advise(advice) }
    })?;
    let hidden_by = chosen.written.iter().find_map(|(_, outcome)| outcome.hidden_by.as_ref());
    Ok(Json(ModelChosenView {
        hidden_by: hidden_by.map(ToString::to_string),
        problem: chosen.problem,
        advice: chosen.advice,
    }))
}
