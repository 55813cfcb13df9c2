//! What is checked of a request, from outside in: its host and origin, who asks, and their right.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{ConnectInfo, FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Redirect, Response};
use jiff::Timestamp;

use super::peer::{Client, HostAndPort, PeerPolicy};
use super::routes::{Principal, Right, RouteKind};
use crate::auth::{
    Audit, AuditEvent, AuthStore, Oidc, People, SessionId, Tickets, login_path, session_cookies,
};
use crate::body;
use crate::error::PageError;

pub(crate) const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The longest name that is taken from a proxy.
const MAX_NAME: usize = 200;

/// What decides about requests.
#[derive(Debug)]
pub struct Gate {
    pub(crate) peers: PeerPolicy,
    pub(crate) store: AuthStore,
    pub(crate) tickets: Tickets,
    pub(crate) audit: Audit,
    /// The header in which a listed proxy names who has logged in there.
    pub(crate) proxy_header: Option<HeaderName>,
    /// What people may do whom it names.
    pub(crate) proxy_people: People,
    /// The provider that people log in at.
    pub(crate) oidc: Option<Oidc>,
    /// What browsers call the server, where that is set.
    pub(crate) public_origin: Option<String>,
    /// Whether everybody who reaches the server is let in; only because somebody said so.
    pub(crate) is_insecure: bool,
}

/// Who calls a handler, and from where.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Who it is.
    pub principal: Principal,
    /// Where they are.
    pub client: Client,
    pub(crate) session: Option<SessionId>,
}

/// What a route asks, for the check around it.
#[derive(Debug, Clone)]
pub(super) struct RouteCheck {
    pub(super) gate: Arc<Gate>,
    pub(super) right: Right,
    pub(super) kind: RouteKind,
}

/// Why nobody was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// There was no credential.
    Credential,
    /// There was one, and it does not count, or not any more.
    Session,
}

impl Gate {
    /// Finds out who sends a request. An error is the store's: nobody is let in or thrown out.
    pub(crate) async fn identify(
        &self,
        headers: &HeaderMap,
        client: &Client,
    ) -> Result<Result<Caller, Missing>, PageError> {
        let known = |principal, session| Caller { principal, client: client.clone(), session };
        if let Some(name) = self.proxied_name(headers, client) {
            let right = self.proxy_people.right_of_proxied(&name);
            let principal = Principal { name, right, method: "proxy" };
            return Ok(Ok(known(principal, None)));
        }
        let found = match session_cookies(headers, client.is_secure, self.store.home_mark()) {
            Some(token) => match self.store.session(&token, Timestamp::now()).await? {
                Some((id, principal)) => {
                    let named = self.still_named(principal);
                    named.map(|principal| known(principal, Some(id))).ok_or(Missing::Session)
                }
                None => Err(Missing::Session),
            },
            None => Err(Missing::Credential),
        };
        if self.is_insecure && found.is_err() {
            let name = "anyone".to_owned();
            let principal = Principal { name, right: Right::Operator, method: "insecure" };
            return Ok(Ok(known(principal, None)));
        }
        Ok(found)
    }

    /// Looks somebody up who has logged in at a provider: they may have been taken off the list, or off
    /// that of operators, since.
    fn still_named(&self, principal: Principal) -> Option<Principal> {
        if principal.method != "oidc" {
            return Some(principal);
        }
        let right = self.oidc.as_ref()?.right_of(&principal.name)?;
        Some(Principal { right: right.min(principal.right), ..principal })
    }

    /// Reports whether somebody who was let in still is: a session may end while a stream goes on.
    pub(crate) async fn is_still_in(&self, caller: &Caller) -> bool {
        match &caller.session {
            Some(id) => self.store.is_valid(id, Timestamp::now()).await.unwrap_or(false),
            None => true,
        }
    }

    fn proxied_name(&self, headers: &HeaderMap, client: &Client) -> Option<String> {
        let header = self.proxy_header.as_ref().filter(|_| client.is_proxied)?;
        let mut values = headers.get_all(header).iter();
        let (name, None) = (values.next()?, values.next()) else { return None };
        let name = name.to_str().ok()?.trim();
        (!name.is_empty() && name.len() <= MAX_NAME).then(|| name.to_owned())
    }
}

/// The outermost check: is this server meant, and does the request come from one of its own pages?
pub(super) async fn enter(
    State(gate): State<Arc<Gate>>,
    mut request: Request,
    next: Next,
) -> Response {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0);
    let headers = request.headers();
    let client = peer.and_then(|peer| gate.peers.client(peer, headers));
    let Some(client) = client.filter(|_| is_target_of_host(&request)) else {
        return PageError::new(
            StatusCode::BAD_REQUEST,
            "bad_host",
            "this host is not one of this dashboard; open it by the address that `vestal dashboard \
             --status` prints, or set dashboard.public_url",
        )
        .into_response();
    };
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let is_upgrade = headers.contains_key(header::UPGRADE);
    if (!is_read || is_upgrade) && !is_own_origin(headers, &client) {
        let event = AuditEvent::refused("bad_origin", &client, request.uri().path());
        gate.audit.record(&event);
        return PageError::new(
            StatusCode::FORBIDDEN,
            "bad_origin",
            "the request does not come from a page of this dashboard",
        )
        .into_response();
    }
    // Another program's page on this machine is of the same site, and sends the cookie along. It
    // could not read the answer; it does not get one either.
    let is_api = request.uri().path().starts_with("/api/");
    let is_foreign = headers
        .get(FETCH_SITE)
        .is_some_and(|site| !matches!(site.as_bytes(), b"same-origin" | b"none"));
    if is_api && is_foreign {
        return PageError::new(
            StatusCode::FORBIDDEN,
            "bad_origin",
            "the request comes from a page of another site",
        )
        .into_response();
    }
    request.extensions_mut().insert(client);
    next.run(request).await
}

/// Reports whether a request line that names a host, as those for proxies do, names the same as the
/// `Host` header that is checked.
fn is_target_of_host(request: &Request) -> bool {
    let Some(target) = request.uri().authority() else { return true };
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    host.and_then(HostAndPort::parse) == HostAndPort::parse(target.as_str())
}

/// Reports whether the one `Origin` is the server's own. An absent one is not.
fn is_own_origin(headers: &HeaderMap, client: &Client) -> bool {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let (Some(origin), None) = (origins.next(), origins.next()) else { return false };
    origin.as_bytes() == client.origin.as_bytes()
}

/// The check around each route.
pub(super) async fn admit(
    State(RouteCheck { gate, right, kind }): State<RouteCheck>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(client) = request.extensions().get::<Client>().cloned() else {
        return PageError::internal("the request did not pass the gate").into_response();
    };
    if right == Right::Public && kind == RouteKind::Http {
        // A client that is not logged in cannot keep a connection by sending a byte from time to time.
        let request = request.map(|body| body::within(body, body::WHOLE_WITHIN));
        return next.run(request).await;
    }
    let caller = match gate.identify(request.headers(), &client).await {
        Ok(Ok(caller)) => caller,
        Ok(Err(missing)) => {
            return unauthenticated(missing, request.method(), request.uri().path());
        }
        Err(error) => return error.into_response(),
    };
    if caller.principal.right < right {
        let event = AuditEvent::refused("forbidden", &client, request.uri().path());
        gate.audit.record(&event.by(&caller.principal));
        return PageError::new(
            StatusCode::FORBIDDEN,
            "forbidden",
            "you may look and not change anything here; log in with a link for operators: vestal \
             dashboard link",
        )
        .into_response();
    }
    if kind == RouteKind::WebSocket && !has_ticket(&gate, &request, &caller) {
        return PageError::new(
            StatusCode::UNAUTHORIZED,
            "bad_ticket",
            "the ticket is missing, was used or is too old; ask for one at /api/auth/ws-ticket",
        )
        .into_response();
    }
    let recorded = (right == Right::Operator).then(|| {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        (caller.principal.clone(), method, path)
    });
    request.extensions_mut().insert(caller);
    let response = next.run(request).await;
    if let Some((principal, method, path)) = recorded {
        let is_read = kind == RouteKind::Http && matches!(method, Method::GET | Method::HEAD);
        let what = if is_read { "read" } else { "change" };
        let event = AuditEvent::done(what, &client, &method, &path, response.status());
        gate.audit.record(&event.by(&principal));
    }
    response
}

/// Takes the ticket of a WebSocket. It counts once, and for the session it was made for.
fn has_ticket(gate: &Gate, request: &Request, caller: &Caller) -> bool {
    let query = request.uri().query().unwrap_or_default();
    let ticket = query.split('&').find_map(|pair| pair.strip_prefix("ticket="));
    ticket.is_some_and(|ticket| gate.tickets.redeem(ticket, &caller.into(), Instant::now()))
}

/// Sends somebody to the login: a page by a redirect, a program by an answer that says where it is.
pub(crate) fn unauthenticated(missing: Missing, method: &Method, path: &str) -> Response {
    let is_page = *method == Method::GET && !path.starts_with("/api/");
    if is_page {
        return Redirect::to(&login_path(path)).into_response();
    }
    let (code, detail) = match missing {
        Missing::Credential => ("unauthenticated", "log in first"),
        Missing::Session => ("session_expired", "the session has ended; log in again"),
    };
    let error = PageError::new(StatusCode::UNAUTHORIZED, code, detail).login_url("/login");
    error.into_response()
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, PageError> {
        // Only `admit` puts it there, so a handler of a public route cannot have it by mistake.
        let caller = parts.extensions.get::<Self>().cloned();
        caller.ok_or_else(|| PageError::internal("a public route has no caller"))
    }
}

impl<S: Sync> FromRequestParts<S> for Client {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, PageError> {
        let client = parts.extensions.get::<Self>().cloned();
        client.ok_or_else(|| PageError::internal("the request did not pass the gate"))
    }
}

/// Returns a header that can be sent, of text that this program made.
pub(crate) fn header_value(text: &str) -> Result<HeaderValue, PageError> {
    HeaderValue::from_str(text).map_err(|_| PageError::internal("a header cannot be sent"))
}

/// Files of this server only: no inline script or style, no frame, no plug-in, no other origin.
/// Trusted types with no policy at all make `innerHTML` and its like throw.
pub(crate) const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; \
style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; \
frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

const PERMISSIONS_POLICY: &str = "accelerometer=(), camera=(), display-capture=(), \
geolocation=(), gyroscope=(), magnetometer=(), microphone=(), midi=(), payment=(), usb=()";

const HARDENED: &[(&str, &str)] = &[
    ("content-security-policy", CONTENT_SECURITY_POLICY),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("permissions-policy", PERMISSIONS_POLICY),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("x-robots-tag", "noindex"),
];

/// Puts them on an answer. What a handler says about caching stays; otherwise nothing is kept.
pub(super) async fn harden(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in HARDENED {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
