//! Previews: what listens inside a sandbox, in a browser, at a host of its own.
//!
//! A previewed page is hostile. It is served at a host that browsers hold for another site than the
//! dashboard: the dashboard's cookie is not sent there, not sent along from there, and cannot be set from
//! there. That is `http://p<random>.localhost:<port>` for who is at the machine, and a name below
//! `dashboard.preview_url` for who comes through a proxy. The preview has a cookie of its own, which says
//! nothing to the dashboard, is not passed on to the sandbox, and counts as long as the session that asked
//! for it.

mod base;
mod proxy;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use vestal_config::ProfileName;
use vestal_sandbox::TaskName;

pub(crate) use base::{InvalidPreviewUrl, PreviewBase};

use crate::app::App;
use crate::auth::Token;
use crate::error::PageError;
use crate::gate::{Caller, FETCH_SITE, HostAndPort, header_value};

/// Where a browser is sent first, with its ticket.
const ENTRANCE: &str = "/.vestal-preview";

/// The cookie of a preview. Where there is TLS it insists on that, and on its one host.
const COOKIE: &str = "vestal_preview";
const SECURE_COOKIE: &str = "__Host-vestal_preview";

const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

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
    /// Where it is for browsers.
    base: PreviewBase,
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
pub(crate) struct Previews {
    open: Mutex<HashMap<String, Preview>>,
    /// Where previews are for who comes through a proxy, to the address after it.
    proxied: Option<(PreviewBase, String)>,
}

impl Previews {
    /// Returns none that are open. Both are what the settings say.
    pub(crate) fn new(base: Option<PreviewBase>, public_url: Option<String>) -> Self {
        Self { open: Mutex::default(), proxied: base.zip(public_url) }
    }

    /// Returns where previews are for a caller, or why there are none.
    fn base(&self, caller: &Caller) -> Result<PreviewBase, String> {
        let origin = &caller.client.origin;
        if let Some((base, public)) = &self.proxied
            && caller.client.is_proxied
            && origin == public
        {
            return Ok(base.clone());
        }
        let host = origin.strip_prefix("http://").and_then(HostAndPort::parse);
        let is_near = |host: &HostAndPort| {
            let is_loopback = |ip: IpAddr| ip.is_loopback();
            host.host() == "localhost" || host.ip().is_some_and(is_loopback)
        };
        match host.filter(is_near) {
            Some(host) => Ok(PreviewBase::localhost(host.port())),
            None => Err("a previewed page gets a host of its own, so that it can do nothing with your login; \
                 name one in dashboard.preview_url, or open the dashboard by a loopback address, through \
                 a tunnel if it is far: ssh -L 9119:127.0.0.1:9119 HOST"
                .to_owned()),
        }
    }

    /// Says why there are no previews at the address that a caller uses; nothing where there are.
    pub(crate) fn unavailable_reason(&self, caller: &Caller) -> Option<String> {
        self.base(caller).err()
    }

    /// Opens a preview and returns its address, which lets one browser in within half a minute.
    pub(crate) fn open(
        &self,
        profile: ProfileName,
        task: TaskName,
        port: u16,
        caller: Caller,
    ) -> Result<String, PageError> {
        let base = self.base(&caller).map_err(PageError::conflict)?;
        let random = |error: getrandom::Error| PageError::internal(error.to_string());
        let mut name = [0; 16];
        getrandom::fill(&mut name).map_err(random)?;
        let name = u128::from_ne_bytes(name);
        let name = format!("p{name:032x}");
        let ticket = Token::generate().map_err(random)?;
        let address = format!("{}{ENTRANCE}?ticket={}", base.origin(&name), ticket.expose());
        let now = Instant::now();
        let of = Previewed { profile, task, port, base, caller };
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
    fn enter(&self, at: &PreviewHost, ticket: &str, now: Instant) -> Result<Token, PageError> {
        let mut all = self.lock();
        let preview = all.get_mut(&at.name).filter(|open| open.of.base == at.base);
        let preview = preview.ok_or_else(over)?;
        let (known, issued) = preview.ticket.take().ok_or_else(over)?;
        if known.expose() != ticket || now.duration_since(issued) >= TICKET_LIFE {
            return Err(over());
        }
        let cookie = Token::generate().map_err(|error| PageError::internal(error.to_string()))?;
        preview.cookie = Some(Token::given(cookie.expose()));
        Ok(cookie)
    }

    /// Finds the preview that a browser was let in to.
    fn of(&self, at: &PreviewHost, headers: &HeaderMap) -> Option<Previewed> {
        let all = self.lock();
        let preview = all.get(&at.name).filter(|open| open.of.base == at.base)?;
        let expected = preview.cookie.as_ref()?.expose();
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
        let mut pairs =
            cookies.flat_map(|line| line.split(';')).filter_map(|p| p.trim().split_once('='));
        let own = at.base.cookie();
        pairs.any(|(name, value)| name == own && value == expected).then(|| preview.of.clone())
    }

    fn end(&self, name: &str) {
        self.lock().remove(name);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Preview>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn over() -> PageError {
    let detail = "this preview has ended, or was opened in another browser";
    PageError::new(StatusCode::UNAUTHORIZED, "no_preview", detail)
        .advise("open it again from the page of its sandbox")
}

/// The host of a preview.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PreviewHost {
    base: PreviewBase,
    /// The part that is made anew for each.
    name: String,
}

/// Returns the preview that a request is for; nothing if it is for the dashboard. Names that only a
/// proxy leads here are taken from a listed one only.
fn preview_host(
    headers: &HeaderMap,
    proxied: Option<&PreviewBase>,
    is_proxy: bool,
) -> Option<PreviewHost> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return None };
    let host = HostAndPort::parse(host.to_str().ok()?)?;
    let near = PreviewBase::localhost(host.port());
    let bases = [Some(near), proxied.filter(|_| is_proxy).cloned()];
    bases.into_iter().flatten().find_map(|base| {
        let name = base.name_in(&host)?;
        Some(PreviewHost { base, name })
    })
}

/// Takes requests to previews out of the way, before the gate of the dashboard. Nothing of the
/// dashboard is behind these hosts, and nothing of a preview behind the others.
pub(crate) async fn divert(State(app): State<App>, request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip());
    let is_proxy = peer.is_some_and(|peer| app.gate.peers.is_proxy(peer));
    let proxied = app.previews.proxied.as_ref().map(|(base, _)| base);
    match preview_host(request.headers(), proxied, is_proxy) {
        Some(at) => answer(&app, &at, request).await,
        None => next.run(request).await,
    }
}

async fn answer(app: &App, at: &PreviewHost, request: Request) -> Response {
    if is_asked_by_another_page(request.headers()) {
        let detail = "a preview is opened in a window of its own";
        return PageError::new(StatusCode::FORBIDDEN, "bad_origin", detail).into_response();
    }
    if request.uri().path() == ENTRANCE {
        return entered(app, at, &request).unwrap_or_else(PageError::into_response);
    }
    let Some(of) = app.previews.of(at, request.headers()) else {
        return over().into_response();
    };
    // A session that has ended, or somebody who may not change anything any more, sees nothing more.
    if !app.gate.is_still_in(&of.caller).await {
        app.previews.end(&at.name);
        return over().into_response();
    }
    let is_safe = matches!(*request.method(), Method::GET | Method::HEAD)
        && !request.headers().contains_key(header::UPGRADE);
    if !is_safe && !is_of_own_page(request.headers(), &of.base) {
        let detail = "the request does not come from a page of this preview";
        return PageError::new(StatusCode::FORBIDDEN, "bad_origin", detail).into_response();
    }
    proxy::pass_on(app, &of, request).await.unwrap_or_else(PageError::into_response)
}

/// Reports whether a page of another host asks, and not for somebody who goes there: previews below one
/// name are of one site for a browser, which sends the cookie of one along when the page of another, of
/// another sandbox, asks or frames it.
fn is_asked_by_another_page(headers: &HeaderMap) -> bool {
    let value_of = |name: &HeaderName| headers.get(name).map(HeaderValue::as_bytes);
    let is_foreign =
        value_of(&FETCH_SITE).is_some_and(|site| !matches!(site, b"same-origin" | b"none"));
    let is_visit =
        value_of(&FETCH_MODE) == Some(b"navigate") && value_of(&FETCH_DEST) == Some(b"document");
    is_foreign && !is_visit
}

/// Reports whether what may change something comes from a page of the preview itself.
fn is_of_own_page(headers: &HeaderMap, base: &PreviewBase) -> bool {
    let origin = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    match (origin.and_then(|origin| origin.strip_prefix(base.scheme())), host) {
        (Some(origin), Some(host)) => origin == host,
        _ => false,
    }
}

/// Lets a browser in, and takes the ticket out of its address.
fn entered(app: &App, at: &PreviewHost, request: &Request) -> Result<Response, PageError> {
    let query = request.uri().query().unwrap_or_default();
    let ticket = query.split('&').find_map(|pair| pair.strip_prefix("ticket="));
    let cookie = app.previews.enter(at, ticket.unwrap_or_default(), Instant::now())?;
    // Lax, not strict: the browser comes from a page of another site, the dashboard.
    let secure = if at.base.is_secure() { "; Secure" } else { "" };
    let (name, value) = (at.base.cookie(), cookie.expose());
    let cookie = format!("{name}={value}; HttpOnly; SameSite=Lax; Path=/{secure}");
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

    fn far() -> PreviewBase {
        PreviewBase::parse("https://*.preview.example.net", "https://vestal.example.org").unwrap()
    }

    #[test]
    fn only_hosts_below_localhost_are_previews() {
        let name = |host: &str| {
            let found = preview_host(&headers(&[("host", host)]), None, false);
            found.map(|found| found.name)
        };
        assert_eq!(name("p01.localhost:9119"), Some("p01".to_owned()));
        for host in ["localhost:9119", "127.0.0.1:9119", "p01.localhost.example.org", "evil"] {
            assert_eq!(name(host), None, "{host}");
        }
        let two = headers(&[("host", "p01.localhost"), ("host", "127.0.0.1")]);
        assert_eq!(preview_host(&two, None, false), None, "the gate refuses it");
    }

    #[test]
    fn names_that_a_proxy_leads_here_are_believed_of_a_listed_one_only() {
        let base = far();
        let name = |host: &str, is_proxy| {
            let found = preview_host(&headers(&[("host", host)]), Some(&base), is_proxy);
            found.map(|found| (found.name, found.base == base))
        };
        let host = "p01.preview.example.net";
        assert_eq!(name(host, true), Some(("p01".to_owned(), true)));
        assert_eq!(name(host, false), None);
        for other in [
            "preview.example.net",
            "a.b.preview.example.net",
            "p01.preview.example.net:81",
            "p01.example.net",
            "vestal.example.org",
        ] {
            assert_eq!(name(other, true), None, "{other}");
        }
    }

    #[test]
    fn a_change_comes_from_a_page_of_the_same_preview() {
        let host = ("host", "p01.localhost:9119");
        let near = PreviewBase::localhost(Some(9119));
        let own = headers(&[host, ("origin", "http://p01.localhost:9119")]);
        assert!(is_of_own_page(&own, &near));
        for origin in [
            "http://p02.localhost:9119",
            "http://127.0.0.1:9119",
            "null",
            "https://p01.localhost:9119",
        ] {
            assert!(!is_of_own_page(&headers(&[host, ("origin", origin)]), &near), "{origin}");
        }
        assert!(!is_of_own_page(&headers(&[host]), &near), "an absent origin is not the right one");
        let host = ("host", "p01.preview.example.net");
        let own = headers(&[host, ("origin", "https://p01.preview.example.net")]);
        assert!(is_of_own_page(&own, &far()));
        assert!(!is_of_own_page(&own, &near), "another scheme");
    }

    #[test]
    fn a_page_of_another_host_neither_asks_a_preview_nor_frames_it() {
        let foreign = |site: &str, mode: &str, dest: &str| {
            let sent =
                [("sec-fetch-site", site), ("sec-fetch-mode", mode), ("sec-fetch-dest", dest)];
            is_asked_by_another_page(&headers(&sent))
        };
        for site in ["same-site", "cross-site"] {
            for (mode, dest) in [
                ("no-cors", "image"),
                ("no-cors", "script"),
                ("cors", "empty"),
                ("navigate", "iframe"),
                ("navigate", "object"),
                ("websocket", "websocket"),
            ] {
                assert!(foreign(site, mode, dest), "{site} {mode} {dest}");
            }
            assert!(!foreign(site, "navigate", "document"), "somebody follows a link");
        }
        assert!(!foreign("same-origin", "cors", "empty"), "its own page");
        assert!(!foreign("same-origin", "navigate", "iframe"), "its own frame");
        assert!(!foreign("none", "navigate", "document"), "somebody has typed the address");
        assert!(!is_asked_by_another_page(&headers(&[])), "a program that is no browser");
    }
}
