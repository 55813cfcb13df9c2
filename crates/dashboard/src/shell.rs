//! The page around all pages, and the login. Nothing of the home is in them: pages ask for that.

use askama::Template;
use axum::extract::State;
use axum::http::{Method, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};

use crate::app::App;
use crate::assets;
use crate::auth::Oidc;
use crate::error::PageError;
use crate::gate::{DeclaredRoute, Right, Route};

#[derive(Template)]
#[template(path = "shell.html")]
struct PageShell<'p> {
    assets: &'p str,
    is_insecure: bool,
}

#[derive(Template)]
#[template(path = "login.html")]
struct LoginPage<'p> {
    assets: &'p str,
    next: &'p str,
    has_password: bool,
    /// The provider that people log in at.
    provider: Option<&'p str>,
    /// Why the last attempt let nobody in.
    problem: Option<&'p str>,
    is_insecure: bool,
}

/// Addresses of pages. All of them are the same document; its script shows the one that is meant.
const PAGES: &[&str] = &[
    "/",
    "/sandboxes",
    "/sandboxes/{profile}/{task}",
    "/sandboxes/{profile}/{task}/jobs/{job}",
    "/sandboxes/{profile}/{task}/files",
    "/sandboxes/{profile}/{task}/terminal",
    "/sandboxes/{profile}/{task}/terminal/{job}",
    "/board",
    "/board/{board}",
    "/board/{board}/{task}",
    "/board/{board}/{task}/review",
    "/usage",
    "/conversations",
    "/conversations/{profile}/{id}",
    "/chat",
    "/gateways",
    "/logs",
    "/schedules",
    "/schedules/{profile}/{id}",
    "/settings",
    "/keys",
    "/models",
    "/profiles",
    "/skills",
    "/skills/{name}",
    "/memory",
    "/mcp",
    "/doctor",
];

pub(crate) fn routes() -> Vec<DeclaredRoute<App>> {
    PAGES.iter().map(|path| Route::get(path, page).needs(Right::Viewer)).collect()
}

async fn page(State(app): State<App>) -> Result<Response, PageError> {
    let assets = assets::base();
    html(&PageShell { assets, is_insecure: app.gate.is_insecure })
}

/// Answers what is not there: somebody who opens an address is shown the way back, and a script gets an
/// answer that it can read.
pub(crate) async fn not_found(State(app): State<App>, method: Method, uri: Uri) -> Response {
    let of_scripts = ["/api/", "/assets/"];
    let is_page = matches!(method, Method::GET | Method::HEAD)
        && !of_scripts.iter().any(|beginning| uri.path().starts_with(beginning));
    if is_page && let Ok(page) = page(State(app)).await {
        return (StatusCode::NOT_FOUND, page).into_response();
    }
    PageError::not_found("there is no such page").into_response()
}

/// Returns the login, which leads to a page of this server.
pub(crate) async fn login(
    app: &App,
    next: &str,
    problem: Option<&str>,
) -> Result<Response, PageError> {
    html(&LoginPage {
        assets: assets::base(),
        next,
        has_password: app.gate.store.has_password().await?,
        provider: app.gate.oidc.as_ref().map(Oidc::provider_name),
        problem,
        is_insecure: app.gate.is_insecure,
    })
}

fn html(template: &impl Template) -> Result<Response, PageError> {
    let text = template.render().map_err(|error| PageError::internal(error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, "text/html; charset=utf-8")], text).into_response())
}
