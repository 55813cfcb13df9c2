//! Passing a request on to a port inside a sandbox, and its answer back.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::response::Response;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use vestal_sandbox::connect_port;

use super::{COOKIE, Previewed};
use crate::app::App;
use crate::error::PageError;
use crate::events::KEEP_ALIVE;
use crate::gate::header_value;

/// Headers that belong to one connection, not to what is said over it.
const OF_CONNECTION: &[&str] = &[
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
];

/// Headers of an answer that would reach beyond the preview's own pages. `Clear-Site-Data` ends cookies
/// of the whole domain, which may be the dashboard's, too.
const BEYOND: &[&str] = &[
    "strict-transport-security",
    "alt-svc",
    "public-key-pins",
    "nel",
    "report-to",
    "reporting-endpoints",
    "clear-site-data",
];

/// What a proxy says about who asks begins with this, or is one of those.
const OF_PROXY: &str = "x-forwarded-";
const ALSO_OF_PROXY: &[&str] = &["forwarded", "x-real-ip"];

/// Cookies of the dashboard begin with this. None comes here; should one, it goes no further.
const OWN_COOKIES: &str = "vestal_";

/// Passes a request on and returns what the port answers.
pub(super) async fn pass_on(
    app: &App,
    of: &Previewed,
    request: Request,
) -> Result<Response, PageError> {
    let engine = app.data.engine(&of.profile).await?;
    let connection = engine.observe(&of.task).await?;
    let stream = connect_port(&connection, of.port).await?;
    let unreachable = |error: &dyn std::fmt::Display| {
        let detail = format!("port {} of sandbox {} does not answer: {error}", of.port, of.task);
        PageError::new(StatusCode::BAD_GATEWAY, "no_answer", detail)
            .advise("does its job still listen there? the page of the sandbox says")
    };
    let handshake = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| unreachable(&error))?;
    // Until the answer is read to its end, the browser is gone, or its session has ended.
    let left = has_left(app, of);
    tokio::spawn(async move {
        tokio::select! {
            () = left => {}
            ended = connection.with_upgrades() => if let Err(error) = ended {
                tracing::debug!(%error, "a connection of a preview ended");
            }
        }
    });
    let outside = host_of(request.headers());
    let (asked, upgrade) = asked(of, app.gate.proxy_header.as_ref(), request)?;
    let mut answer = sender.send_request(asked).await.map_err(|error| unreachable(&error))?;
    if let Some(upgrade) = upgrade.filter(|_| answer.status() == StatusCode::SWITCHING_PROTOCOLS) {
        let inside = hyper::upgrade::on(&mut answer);
        let left = has_left(app, of);
        tokio::spawn(async move {
            tokio::select! {
                () = left => {}
                () = join(upgrade, inside) => {}
            }
        });
    }
    let mut answer = answer.map(Body::new);
    clean_answer(answer.headers_mut(), of, &outside);
    Ok(answer)
}

/// Waits until the session that asked for a preview has ended. It is looked at as often as for every stream.
fn has_left(app: &App, of: &Previewed) -> impl Future<Output = ()> + Send + use<> {
    let (app, caller) = (Arc::clone(app), of.caller.clone());
    async move {
        loop {
            tokio::time::sleep(KEEP_ALIVE).await;
            if !app.gate.is_still_in(&caller).await {
                return;
            }
        }
    }
}

/// Copies in both directions between a browser and a port that agreed on another protocol.
async fn join(outside: hyper::upgrade::OnUpgrade, inside: hyper::upgrade::OnUpgrade) {
    let joined = async {
        let (outside, inside) = tokio::try_join!(outside, inside)?;
        let (mut outside, mut inside) = (TokioIo::new(outside), TokioIo::new(inside));
        tokio::io::copy_bidirectional(&mut outside, &mut inside).await?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    };
    if let Err(error) = joined.await {
        tracing::debug!(%error, "a socket of a preview ended");
    }
}

/// Returns the request as the port is to see it: to itself, without what is the dashboard's.
fn asked(
    of: &Previewed,
    names_user: Option<&HeaderName>,
    mut request: Request,
) -> Result<(Request, Option<hyper::upgrade::OnUpgrade>), PageError> {
    let is_upgrade = request.headers().contains_key(header::UPGRADE);
    let upgrade = is_upgrade.then(|| hyper::upgrade::on(&mut request));
    let path = request.uri().path_and_query().cloned();
    *request.uri_mut() = Uri::from(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
    // The sandbox must not learn who sent it and how it came here.
    request.extensions_mut().clear();
    let headers = request.headers_mut();
    let outside = host_of(headers);
    remove_of_connection(headers);
    remove_of_proxy(headers, of, names_user);
    if is_upgrade {
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    }
    let inside = format!("localhost:{}", of.port);
    // Servers for development answer to their own name only.
    headers.insert(header::HOST, header_value(&inside)?);
    for name in [header::ORIGIN, header::REFERER] {
        let own = |value: &HeaderValue| {
            let text = value.to_str().ok()?;
            let rest = text.strip_prefix(of.base.scheme())?.strip_prefix(outside.as_str())?;
            // Nothing of a longer name, or of another port that begins alike.
            if !(rest.is_empty() || rest.starts_with('/')) {
                return None;
            }
            HeaderValue::from_str(&format!("http://{inside}{rest}")).ok()
        };
        match headers.get(&name).map(own) {
            Some(Some(value)) => drop(headers.insert(name, value)),
            Some(None) => drop(headers.remove(name)),
            None => {}
        }
    }
    let cookies: Vec<String> = headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(';'))
        .map(str::trim)
        .filter(|pair| !pair.is_empty() && !is_own_cookie(pair))
        .map(str::to_owned)
        .collect();
    headers.remove(header::COOKIE);
    if !cookies.is_empty() {
        headers.insert(header::COOKIE, header_value(&cookies.join("; "))?);
    }
    Ok((request, upgrade))
}

/// Removes what belongs to one connection, also what is said to by `Connection` itself.
fn remove_of_connection(headers: &mut HeaderMap) {
    let lines = headers.get_all(header::CONNECTION).iter().filter_map(|line| line.to_str().ok());
    let named: Vec<HeaderName> = lines
        .flat_map(|line| line.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .filter(|name| *name != header::UPGRADE)
        .collect();
    for name in named {
        headers.remove(name);
    }
    for &name in OF_CONNECTION {
        headers.remove(name);
    }
}

/// Removes what a proxy has added about who asks, and the password with which it may have let them in:
/// what listens in the sandbox could use it.
fn remove_of_proxy(headers: &mut HeaderMap, of: &Previewed, names_user: Option<&HeaderName>) {
    let is_added = |name: &&HeaderName| {
        name.as_str().starts_with(OF_PROXY) || ALSO_OF_PROXY.contains(&name.as_str())
    };
    let added: Vec<HeaderName> = headers.keys().filter(is_added).cloned().collect();
    for name in added.iter().chain(names_user) {
        headers.remove(name);
    }
    let authorization = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    let is_basic = authorization
        .and_then(|value| value.get(..6))
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"basic "));
    if is_basic && of.caller.client.is_proxied {
        headers.remove(header::AUTHORIZATION);
    }
}

fn host_of(headers: &HeaderMap) -> String {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    host.unwrap_or_default().to_owned()
}

/// Reports whether a cookie, as `name=value`, is the dashboard's or the preview's own.
fn is_own_cookie(pair: &str) -> bool {
    let name = pair.split('=').next().unwrap_or_default().trim();
    let name = name.strip_prefix("__Host-").or(name.strip_prefix("__Secure-")).unwrap_or(name);
    name == COOKIE || name.starts_with(OWN_COOKIES)
}

/// Takes from an answer what would reach beyond the preview.
fn clean_answer(headers: &mut HeaderMap, of: &Previewed, outside: &str) {
    let is_upgrade = headers.contains_key(header::UPGRADE);
    remove_of_connection(headers);
    for &name in BEYOND {
        headers.remove(name);
    }
    if is_upgrade {
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    }
    let cookies: Vec<HeaderValue> =
        headers.get_all(header::SET_COOKIE).iter().filter_map(clean_cookie).collect();
    headers.remove(header::SET_COOKIE);
    for cookie in cookies {
        headers.append(header::SET_COOKIE, cookie);
    }
    // A redirect to itself leads to the preview again.
    let inside = [format!("http://localhost:{}", of.port), format!("http://127.0.0.1:{}", of.port)];
    let location = headers.get(header::LOCATION).and_then(|location| location.to_str().ok());
    let moved = location.and_then(|location| {
        let rest = inside.iter().find_map(|inside| location.strip_prefix(inside.as_str()))?;
        // Not a port that begins alike, nor a longer name.
        if !(rest.is_empty() || rest.starts_with(['/', '?', '#'])) {
            return None;
        }
        let scheme = of.base.scheme();
        HeaderValue::from_str(&format!("{scheme}{outside}{rest}")).ok()
    });
    if let Some(moved) = moved {
        headers.insert(header::LOCATION, moved);
    }
}

/// Returns a cookie that counts for this preview's host alone; nothing for one that would take the
/// place of its own.
fn clean_cookie(cookie: &HeaderValue) -> Option<HeaderValue> {
    let text = cookie.to_str().ok()?;
    if is_own_cookie(text) {
        return None;
    }
    let is_domain = |part: &&str| part.trim().to_ascii_lowercase().starts_with("domain");
    let mut parts = text.split(';');
    let pair = parts.next().into_iter();
    let kept: Vec<&str> = pair.chain(parts.filter(|part| !is_domain(part))).collect();
    HeaderValue::from_str(&kept.join(";")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::{Caller, Client, Principal, Right};
    use crate::preview::PreviewBase;

    #[test]
    fn no_cookie_of_the_dashboard_goes_into_a_sandbox_and_none_comes_out() {
        for own in ["vestal_preview=x", "vestal_session_ab12=x", "__Host-vestal_session_ab12=x"] {
            assert!(is_own_cookie(own), "{own}");
            assert_eq!(clean_cookie(&own.parse().unwrap()), None, "{own}");
        }
        assert!(!is_own_cookie("session=vestal_"));
    }

    #[test]
    fn a_cookie_counts_for_the_host_of_its_preview_alone() {
        let cookie = "a=b; Path=/; Domain=localhost; HttpOnly".parse().unwrap();
        assert_eq!(clean_cookie(&cookie).unwrap(), "a=b; Path=/; HttpOnly");
        let cookie = "domain_id=b; DOMAIN=localhost".parse().unwrap();
        assert_eq!(clean_cookie(&cookie).unwrap(), "domain_id=b");
    }

    fn previewed(is_proxied: bool) -> Previewed {
        let (base, origin) = if is_proxied {
            let public = "https://vestal.example.org";
            (PreviewBase::parse("https://*.preview.example.net", public).unwrap(), public)
        } else {
            (PreviewBase::localhost(Some(9119)), "http://127.0.0.1:9119")
        };
        let client = Client {
            address: [127, 0, 0, 1].into(),
            origin: origin.to_owned(),
            is_secure: is_proxied,
            is_proxied,
        };
        let name = "ann".to_owned();
        let principal = Principal { name, right: Right::Operator, method: "proxy" };
        Previewed {
            profile: vestal_config::ProfileName::default_profile(),
            task: "web".parse().unwrap(),
            port: 80,
            base,
            caller: Caller { principal, client, session: None },
        }
    }

    #[test]
    fn what_a_proxy_says_of_a_person_does_not_reach_the_sandbox() {
        let request = || {
            Request::builder()
                .uri("/page?x=1")
                .header("host", "p01.preview.example.net")
                .header("connection", "keep-alive, x-hop")
                .header("x-hop", "1")
                .header("x-forwarded-for", "203.0.113.9")
                .header("x-forwarded-access-token", "secret")
                .header("forwarded", "for=203.0.113.9")
                .header("x-real-ip", "203.0.113.9")
                .header("x-remote-user", "ann")
                .header("authorization", "Basic YW5uOnNlY3JldA==")
                .header("cookie", "__Host-vestal_preview=x; theme=dark")
                .header("x-of-page", "kept")
                .body(Body::empty())
                .unwrap()
        };
        let names_user = HeaderName::from_static("x-remote-user");
        let passed = |of: &Previewed| {
            let (asked, _) = asked(of, Some(&names_user), request()).unwrap();
            let header = |(name, value): (&HeaderName, &HeaderValue)| {
                format!("{name}: {}", value.to_str().unwrap())
            };
            let mut headers: Vec<String> = asked.headers().iter().map(header).collect();
            headers.sort();
            headers
        };
        let clean = ["cookie: theme=dark", "host: localhost:80", "x-of-page: kept"];
        assert_eq!(passed(&previewed(true)), clean);
        // Without a proxy, who logs in to what is previewed does so there.
        let basic = "authorization: Basic YW5uOnNlY3JldA==";
        assert_eq!(passed(&previewed(false)), [&[basic], &clean[..]].concat());
    }

    #[test]
    fn an_answer_leads_to_its_preview_and_reaches_nothing_beyond_it() {
        let cleaned = |name: &'static str, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            clean_answer(&mut headers, &previewed(true), "p01.preview.example.net");
            headers.get(name).map(|value| value.to_str().unwrap().to_owned())
        };
        let moved = |to: &str| cleaned("location", to).unwrap();
        assert_eq!(moved("http://localhost:80/a"), "https://p01.preview.example.net/a");
        for elsewhere in ["http://localhost:8080/a", "http://127.0.0.1:80@evil.example/", "/a"] {
            assert_eq!(moved(elsewhere), elsewhere);
        }
        for beyond in ["clear-site-data", "strict-transport-security", "reporting-endpoints"] {
            assert_eq!(cleaned(beyond, "x"), None, "{beyond}");
        }
    }
}
