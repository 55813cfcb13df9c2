//! The routes of logging in and out.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use vestal_api::dashboard::IdentityView;

use super::store::LinkError;
use super::tickets::TICKET_LIFE;
use super::{AuditEvent, PasswordError, Token, clear_cookie, session_cookie};
use crate::app::App;
use crate::error::PageError;
use crate::gate::{Caller, Client, DeclaredRoute, Limiter, Principal, Right, Route, header_value};
use crate::shell;

/// Attempts per address and minute. A link has 256 bits; the limit only keeps the log readable.
const LINK_ATTEMPTS: u32 = 20;
const PASSWORD_ATTEMPTS: u32 = 5;

/// Attempts at the password by everybody together: many addresses do not help to guess.
const ALL_PASSWORD_ATTEMPTS: u32 = 30;

/// Keys that somebody may look at in a minute.
const REVEALS: u32 = 5;

const WINDOW: Duration = Duration::from_mins(1);

/// What the login remembers.
#[derive(Debug)]
pub(crate) struct LoginState {
    links: Limiter<IpAddr>,
    passwords: Limiter<IpAddr>,
    all_passwords: Limiter<()>,
    providers: Limiter<IpAddr>,
    reveals: Limiter<String>,
}

impl Default for LoginState {
    fn default() -> Self {
        Self {
            links: Limiter::new(LINK_ATTEMPTS, WINDOW),
            passwords: Limiter::new(PASSWORD_ATTEMPTS, WINDOW),
            all_passwords: Limiter::new(ALL_PASSWORD_ATTEMPTS, WINDOW),
            providers: Limiter::new(LINK_ATTEMPTS, WINDOW),
            reveals: Limiter::new(REVEALS, WINDOW),
        }
    }
}

impl LoginState {
    /// Counts a key that somebody looks at. Returns how long to wait where there were too many.
    pub(crate) fn attempt_to_reveal(&self, name: &str, now: Instant) -> Result<(), Duration> {
        self.reveals.attempt(name.to_owned(), now)
    }

    /// Counts a request of a login at a provider, which has to be asked for each of them.
    pub(super) fn attempt_at_provider(&self, client: &Client) -> Result<(), PageError> {
        self.providers.attempt(client.address, Instant::now()).map_err(PageError::too_many)
    }
}

pub(crate) fn routes() -> Vec<DeclaredRoute<App>> {
    let mut routes = super::oidc::routes();
    routes.extend([
        Route::get("/login", login_page).needs(Right::Public),
        Route::post("/api/auth/link", redeem_link).needs(Right::Public),
        Route::post("/api/auth/password", check_password).needs(Right::Public),
        Route::get("/api/auth/me", me).needs(Right::Viewer),
        Route::post("/api/auth/logout", logout).needs(Right::Viewer),
        Route::post("/api/auth/logout-everywhere", logout_everywhere).needs(Right::Operator),
        Route::post("/api/auth/ws-ticket", ticket).needs(Right::Viewer),
    ]);
    routes
}

/// Returns the address of the login that leads back to a page.
pub(crate) fn login_path(next: &str) -> String {
    match safe_next(next) {
        "/" => "/login".to_owned(),
        next => format!("/login?next={}", encoded(next)),
    }
}

/// Returns where to go after the login: a page of this server, never an address elsewhere.
pub(crate) fn safe_next(next: &str) -> &str {
    let is_own = next.starts_with('/')
        && !next.starts_with("//")
        && !next.starts_with("/api/")
        && !next.starts_with("/login")
        && next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_own { next } else { "/" }
}

/// Encodes what means something in a query.
fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            write!(out, "%{byte:02X}").ok();
        }
    }
    out
}

#[derive(Debug, Deserialize)]
pub(crate) struct LoginQuery {
    #[serde(default)]
    next: String,
}

async fn login_page(
    State(app): State<App>,
    Query(query): Query<LoginQuery>,
) -> Result<Response, PageError> {
    shell::login(&app, safe_next(&query.next), None).await
}

#[derive(Deserialize)]
pub(crate) struct LinkRequest {
    token: String,
}

/// Turns a link into a session.
async fn redeem_link(
    State(app): State<App>,
    client: Client,
    body: Result<Json<LinkRequest>, JsonRejection>,
) -> Result<Response, PageError> {
    app.login.links.attempt(client.address, Instant::now()).map_err(PageError::too_many)?;
    let Json(request) = body.map_err(|rejection| bad_body(&rejection))?;
    let link = Token::given(request.token.trim());
    let redeemed = app.gate.store.redeem_link(&link, Timestamp::now()).await;
    let Some((session, principal)) = redeemed.map_err(unmade)? else {
        app.gate.audit.record(&AuditEvent::login("link", "refused", &client));
        return Err(PageError::new(
            StatusCode::UNAUTHORIZED,
            "link_refused",
            "this link was used already or is older than ten minutes",
        )
        .advise("make a new one: vestal dashboard link"));
    };
    app.login.links.forgive(&client.address);
    enter(&app, &client, &session, &principal)
}

#[derive(Deserialize)]
pub(crate) struct PasswordRequest {
    password: String,
}

async fn check_password(
    State(app): State<App>,
    client: Client,
    body: Result<Json<PasswordRequest>, JsonRejection>,
) -> Result<Response, PageError> {
    let now = Instant::now();
    let refuse = |wait| {
        app.gate.audit.record(&AuditEvent::login("password", "too_many_attempts", &client));
        PageError::too_many(wait)
    };
    app.login.passwords.attempt(client.address, now).map_err(refuse)?;
    app.login.all_passwords.attempt((), now).map_err(refuse)?;
    let Json(request) = body.map_err(|rejection| bad_body(&rejection))?;
    if !app.gate.store.check_password(&request.password).await.map_err(unchecked)? {
        app.gate.audit.record(&AuditEvent::login("password", "refused", &client));
        return Err(PageError::new(
            StatusCode::UNAUTHORIZED,
            "password_refused",
            "this is not the password",
        )
        .advise("set a new one: vestal dashboard password"));
    }
    app.login.passwords.forgive(&client.address);
    let name = "password".to_owned();
    let principal = Principal { name, right: Right::Operator, method: "password" };
    let begun = app.gate.store.begin_session(&principal, Timestamp::now()).await;
    enter(&app, &client, &begun.map_err(unmade)?, &principal)
}

/// Answers somebody who was let in.
fn enter(
    app: &App,
    client: &Client,
    session: &Token,
    principal: &Principal,
) -> Result<Response, PageError> {
    let login = AuditEvent::login(principal.method, "done", client);
    app.gate.audit.record(&login.by(principal));
    let cookie = session_cookie(session, client.is_secure, app.gate.store.home_mark());
    let cookie = header_value(&cookie)?;
    Ok(([(header::SET_COOKIE, cookie)], Json(identity(principal))).into_response())
}

fn identity(principal: &Principal) -> IdentityView {
    let Principal { name, right, method } = principal.clone();
    IdentityView { name, right: right.as_str().to_owned(), method: method.to_owned() }
}

/// The identity probe: who am I?
async fn me(caller: Caller) -> Json<IdentityView> {
    Json(identity(&caller.principal))
}

async fn logout(State(app): State<App>, caller: Caller) -> Result<Response, PageError> {
    if let Some(session) = &caller.session {
        app.gate.store.end_session(session).await?;
    }
    left(&app, &caller)
}

/// Ends all sessions, also those of other browsers, and takes back all links.
async fn logout_everywhere(State(app): State<App>, caller: Caller) -> Result<Response, PageError> {
    app.gate.store.end_all().await?;
    left(&app, &caller)
}

fn left(app: &App, caller: &Caller) -> Result<Response, PageError> {
    app.gate.audit.record(&AuditEvent::logout(&caller.client).by(&caller.principal));
    let cookie = clear_cookie(caller.client.is_secure, app.gate.store.home_mark());
    let cookie = header_value(&cookie)?;
    Ok(([(header::SET_COOKIE, cookie)], Json(json!({ "login_url": "/login" }))).into_response())
}

async fn ticket(State(app): State<App>, caller: Caller) -> Result<Json<Value>, PageError> {
    let ticket = app.gate.tickets.issue((&caller).into(), Instant::now());
    let ticket = ticket.map_err(|error| PageError::internal(error.to_string()))?;
    Ok(Json(json!({ "ticket": ticket.expose(), "expires_in": TICKET_LIFE.as_secs() })))
}

/// What is wrong with a body, without a piece of it: it may be a secret.
fn bad_body(rejection: &JsonRejection) -> PageError {
    PageError::new(rejection.status(), "invalid", "the body is not the JSON that is asked for here")
}

fn unmade(error: LinkError) -> PageError {
    match error {
        LinkError::Store(error) => error.into(),
        LinkError::Random(error) => PageError::internal(error.to_string()),
    }
}

fn unchecked(error: PasswordError) -> PageError {
    match error {
        PasswordError::Store(error) => error.into(),
        other => PageError::internal(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_login_leads_back_to_pages_of_this_server_only() {
        for good in ["/", "/board", "/sandboxes/default/web?x=1"] {
            assert_eq!(safe_next(good), good);
        }
        for bad in [
            "",
            "//evil.example",
            "https://evil.example",
            "/\\evil.example",
            "/api/now",
            "/login?next=/",
            "javascript:alert(1)",
            "/a b",
            "/a\r\nset-cookie: x",
        ] {
            assert_eq!(safe_next(bad), "/", "{bad}");
        }
        assert_eq!(login_path("/board?x=<"), "/login?next=/board%3Fx%3D%3C");
    }
}
