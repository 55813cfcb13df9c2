//! The two requests of a login at a provider: where to go, and what was brought back.

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Redirect, Response};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::OidcError;
use super::flow::{CALLBACK, Callback};
use crate::app::App;
use crate::auth::{
    AuditEvent, clear_oidc_cookie, login_path, oidc_cookie, oidc_cookies, safe_next, session_cookie,
};
use crate::error::PageError;
use crate::gate::{Client, DeclaredRoute, Right, Route, header_value};
use crate::shell;

pub(crate) fn routes() -> Vec<DeclaredRoute<App>> {
    vec![
        Route::post("/api/auth/oidc", begin).needs(Right::Public),
        Route::get(CALLBACK, callback).needs(Right::Public),
    ]
}

#[derive(Deserialize)]
struct BeginRequest {
    #[serde(default)]
    next: String,
}

/// Says where the browser is to go.
async fn begin(
    State(app): State<App>,
    client: Client,
    body: Result<Json<BeginRequest>, JsonRejection>,
) -> Result<Response, PageError> {
    let Some(oidc) = &app.gate.oidc else {
        return Err(PageError::not_found("no provider is set up to log in at"));
    };
    app.login.attempt_at_provider(&client)?;
    let next = body.map(|Json(request)| request.next).unwrap_or_default();
    let origin = app.gate.public_origin.as_deref().unwrap_or(&client.origin);
    let begun = oidc.begin(origin, safe_next(&next)).await.map_err(|error| {
        app.gate.audit.record(&AuditEvent::login("oidc", "failed", &client));
        PageError::new(StatusCode::BAD_GATEWAY, "provider", error.to_string())
    })?;
    let cookie = oidc_cookie(&begun.browser, client.is_secure, app.gate.store.home_mark());
    let cookie = header_value(&cookie)?;
    let answer: Json<Value> = Json(json!({ "address": begun.address }));
    Ok(([(header::SET_COOKIE, cookie)], answer).into_response())
}

/// Takes what the provider has sent the browser back with. The answer leads to the login, which a page
/// of this dashboard asks for: a browser sends a strict cookie with no request that another site began.
async fn callback(
    State(app): State<App>,
    client: Client,
    headers: HeaderMap,
    query: Result<Query<Callback>, QueryRejection>,
) -> Result<Response, PageError> {
    let Some(oidc) = &app.gate.oidc else { return Ok(Redirect::to("/login").into_response()) };
    app.login.attempt_at_provider(&client)?;
    let callback = query.map(|Query(callback)| callback).unwrap_or_default();
    let mark = app.gate.store.home_mark();
    let browser = oidc_cookies(&headers, client.is_secure, mark);
    let now = Timestamp::now();
    let clear = header_value(&clear_oidc_cookie(client.is_secure, mark))?;
    let arrived = match oidc.finish(&callback, browser.as_ref(), now.as_second()).await {
        Ok(arrived) => arrived,
        Err(error) => {
            app.gate.audit.record(&AuditEvent::login("oidc", outcome(&error), &client));
            let mut page = shell::login(&app, "/", Some(&error.to_string())).await?;
            *page.status_mut() = StatusCode::UNAUTHORIZED;
            page.headers_mut().append(header::SET_COOKIE, clear);
            return Ok(page);
        }
    };
    let begun = app.gate.store.begin_session(&arrived.principal, now).await;
    let session = begun.map_err(|error| PageError::internal(error.to_string()))?;
    let login = AuditEvent::login("oidc", "done", &client);
    app.gate.audit.record(&login.by(&arrived.principal));
    let cookie = header_value(&session_cookie(&session, client.is_secure, mark))?;
    let mut response = Redirect::to(&login_path(&arrived.next)).into_response();
    response.headers_mut().append(header::SET_COOKIE, cookie);
    response.headers_mut().append(header::SET_COOKIE, clear);
    Ok(response)
}

/// Returns the word of the audit log.
fn outcome(error: &OidcError) -> &'static str {
    match error {
        OidcError::Provider { .. } | OidcError::Random(_) => "failed",
        OidcError::Refused { .. } => "refused_by_provider",
        OidcError::Unknown => "unknown_attempt",
        OidcError::Token(_) => "not_believed",
        OidcError::Stranger { .. } => "not_allowed",
    }
}
