//! Previews: what listens inside a sandbox, in a browser, at a host of its own.
//!
//! A previewed page is hostile. It is served at `http://p<random>.localhost:<port>`, which browsers
//! hold for another site than the dashboard: the dashboard's cookie is not sent there, not sent along
//! from there, and cannot be set from there. The preview has a cookie of its own, which says nothing
//! to the dashboard, is not passed on to the sandbox, and counts as long as the session that asked for it.

mod proxy;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use vestal_config::ProfileName;
use vestal_sandbox::TaskName;

use crate::app::App;
use crate::auth::Token;
use crate::error::PageError;
use crate::gate::{Caller, HostAndPort, header_value};

/// What hosts of previews end with. Browsers find every name below it on their own machine.
const SUFFIX: &str = ".localhost";

/// Where a browser is sent first, with its ticket.
const ENTRANCE: &str = "/.vestal-preview";

/// The cookie of a preview.
const COOKIE: &str = "vestal_preview";

/// How long a ticket counts.
const TICKET_LIFE: Duration = Duration::from_secs(30);

/// Previews that are open; those that were asked for first go first.
const MAX_PREVIEWS: usize = 64;

/// What is previewed, and for whom.
#[derive(Debug, Clone)]
pub(crate) struct Previewed {
    pub(crate) profile: ProfileName,
    pub(crate) task: TaskName,
    pub(crate) port: u16,
    caller: Caller,
}

#[derive(Debug)]
struct Preview {
    of: Previewed,
    began: Instant,
    /// Lets a browser in once, soon.
    ticket: Option<(Token, Instant)>,
    /// What the browser shows after that.
    cookie: Option<Token>,
}

/// The previews that are open, by the first part of their hosts.
#[derive(Debug, Default)]
pub(crate) struct Previews(Mutex<HashMap<String, Preview>>);

/// Says why there are no previews at the address that a caller uses; nothing where there are.
pub(crate) fn why_none(caller: &Caller) -> Option<String> {
    let origin = &caller.client.origin;
    let host = origin.strip_prefix("http://").and_then(HostAndPort::parse);
    let is_near = host.is_some_and(|host| {
        let is_loopback = |ip: IpAddr| ip.is_loopback();
        host.host() == "localhost" || host.ip().is_some_and(is_loopback)
    });
    (!is_near).then(|| {
        "a previewed page gets a host of its own below localhost, so that it can do nothing with your \
         login; open the dashboard by a loopback address for it, through a tunnel if it is far: \
         ssh -L 9119:127.0.0.1:9119 HOST"
            .to_owned()
    })
}

impl Previews {
    /// Opens a preview and returns its address, which lets one browser in within half a minute.
    pub(crate) fn open(
        &self,
        profile: ProfileName,
        task: TaskName,
        port: u16,
        caller: Caller,
    ) -> Result<String, PageError> {
        if let Some(why) = why_none(&caller) {
            return Err(PageError::conflict(why));
        }
        let random = |error: getrandom::Error| PageError::internal(error.to_string());
        let mut name = [0; 16];
        getrandom::fill(&mut name).map_err(random)?;
        let name = u128::from_ne_bytes(name);
        let name = format!("p{name:032x}");
        let host = caller.client.origin.strip_prefix("http://").and_then(HostAndPort::parse);
        let own_port = host.and_then(|host| host.port()).unwrap_or(80);
        let ticket = Token::generate().map_err(random)?;
        let address =
            format!("http://{name}{SUFFIX}:{own_port}{ENTRANCE}?ticket={}", ticket.expose());
        let now = Instant::now();
        let of = Previewed { profile, task, port, caller };
        let preview = Preview { of, began: now, ticket: Some((ticket, now)), cookie: None };
        let mut all = self.lock();
        if all.len() >= MAX_PREVIEWS
            && let Some(oldest) = all.iter().min_by_key(|(_, preview)| preview.began)
        {
            let oldest = oldest.0.clone();
            all.remove(&oldest);
        }
        all.insert(name, preview);
        Ok(address)
    }

    /// Takes a ticket, which counts once. Returns what the browser has to show from now on.
    fn enter(&self, name: &str, ticket: &str, now: Instant) -> Result<Token, PageError> {
        let mut all = self.lock();
        let preview = all.get_mut(name).ok_or_else(over)?;
        let (known, issued) = preview.ticket.take().ok_or_else(over)?;
        if known.expose() != ticket || now.duration_since(issued) >= TICKET_LIFE {
            return Err(over());
        }
        let cookie = Token::generate().map_err(|error| PageError::internal(error.to_string()))?;
        preview.cookie = Some(Token::given(cookie.expose()));
        Ok(cookie)
    }

    /// Finds the preview that a browser was let in to.
    fn of(&self, name: &str, headers: &HeaderMap) -> Option<Previewed> {
        let all = self.lock();
        let preview = all.get(name)?;
        let expected = preview.cookie.as_ref()?.expose();
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
        let mut pairs =
            cookies.flat_map(|line| line.split(';')).filter_map(|p| p.trim().split_once('='));
        pairs.any(|(name, value)| name == COOKIE && value == expected).then(|| preview.of.clone())
    }

    fn end(&self, name: &str) {
        self.lock().remove(name);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Preview>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn over() -> PageError {
    let detail = "this preview has ended, or was opened in another browser";
    PageError::new(StatusCode::UNAUTHORIZED, "no_preview", detail)
        .advise("open it again from the page of its sandbox")
}

/// Returns the name of the preview that a request is for; nothing if it is for the dashboard.
fn preview_name(headers: &HeaderMap) -> Option<String> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return None };
    let host = HostAndPort::parse(host.to_str().ok()?)?;
    host.host().strip_suffix(SUFFIX).map(str::to_owned)
}

/// Takes requests to previews out of the way, before the gate of the dashboard. Nothing of the
/// dashboard is behind these hosts, and nothing of a preview behind the others.
pub(crate) async fn divert(State(app): State<App>, request: Request, next: Next) -> Response {
    match preview_name(request.headers()) {
        Some(name) => answer(&app, &name, request).await,
        None => next.run(request).await,
    }
}

async fn answer(app: &App, name: &str, request: Request) -> Response {
    if request.uri().path() == ENTRANCE {
        return entered(app, name, &request).unwrap_or_else(PageError::into_response);
    }
    let Some(of) = app.previews.of(name, request.headers()) else {
        return over().into_response();
    };
    // A session that has ended, or somebody who may not change anything any more, sees nothing more.
    if !app.gate.is_still_in(&of.caller).await {
        app.previews.end(name);
        return over().into_response();
    }
    let is_safe = matches!(*request.method(), Method::GET | Method::HEAD)
        && !request.headers().contains_key(header::UPGRADE);
    if !is_safe && !is_of_own_page(request.headers()) {
        let detail = "the request does not come from a page of this preview";
        return PageError::new(StatusCode::FORBIDDEN, "bad_origin", detail).into_response();
    }
    proxy::pass_on(app, &of, request).await.unwrap_or_else(PageError::into_response)
}

/// Reports whether what may change something comes from a page of the preview itself.
fn is_of_own_page(headers: &HeaderMap) -> bool {
    let origin = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    match (origin.and_then(|origin| origin.strip_prefix("http://")), host) {
        (Some(origin), Some(host)) => origin == host,
        _ => false,
    }
}

/// Lets a browser in, and takes the ticket out of its address.
fn entered(app: &App, name: &str, request: &Request) -> Result<Response, PageError> {
    let query = request.uri().query().unwrap_or_default();
    let ticket = query.split('&').find_map(|pair| pair.strip_prefix("ticket="));
    let cookie = app.previews.enter(name, ticket.unwrap_or_default(), Instant::now())?;
    // Lax, not strict: the browser comes from a page of another site, the dashboard.
    let cookie = format!("{COOKIE}={}; HttpOnly; SameSite=Lax; Path=/", cookie.expose());
    let mut response = (StatusCode::SEE_OTHER, [(header::LOCATION, "/")]).into_response();
    let headers = response.headers_mut();
    headers.insert(header::SET_COOKIE, header_value(&cookie)?);
    headers.insert(header::REFERRER_POLICY, header_value("no-referrer")?);
    headers.insert(header::CACHE_CONTROL, header_value("no-store")?);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn only_hosts_below_localhost_are_previews() {
        let name = |host: &str| preview_name(&headers(&[("host", host)]));
        assert_eq!(name("p01.localhost:9119"), Some("p01".to_owned()));
        for host in ["localhost:9119", "127.0.0.1:9119", "p01.localhost.example.org", "evil"] {
            assert_eq!(name(host), None, "{host}");
        }
        let two = headers(&[("host", "p01.localhost"), ("host", "127.0.0.1")]);
        assert_eq!(preview_name(&two), None, "the gate refuses it");
    }

    #[test]
    fn a_change_comes_from_a_page_of_the_same_preview() {
        let host = ("host", "p01.localhost:9119");
        assert!(is_of_own_page(&headers(&[host, ("origin", "http://p01.localhost:9119")])));
        for origin in [
            "http://p02.localhost:9119",
            "http://127.0.0.1:9119",
            "null",
            "https://p01.localhost:9119",
        ] {
            assert!(!is_of_own_page(&headers(&[host, ("origin", origin)])), "{origin}");
        }
        assert!(!is_of_own_page(&headers(&[host])), "an absent origin is not the right one");
    }
}
