//! Passing a request on to a port inside a sandbox, and its answer back.

use axum::body::Body;
use axum::extract::Request;
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::Response;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use vestal_sandbox::connect_port;

use super::{COOKIE, Previewed};
use crate::app::App;
use crate::error::PageError;
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

/// Headers of an answer that would reach beyond the preview's own pages.
const BEYOND: &[&str] =
    &["strict-transport-security", "alt-svc", "public-key-pins", "nel", "report-to"];

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
    // Until the answer is read to its end, or the browser is gone.
    tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "a connection of a preview ended");
        }
    });
    let outside = host_of(request.headers());
    let (asked, upgrade) = asked(of, request)?;
    let mut answer = sender.send_request(asked).await.map_err(|error| unreachable(&error))?;
    if let Some(upgrade) = upgrade.filter(|_| answer.status() == StatusCode::SWITCHING_PROTOCOLS) {
        let inside = hyper::upgrade::on(&mut answer);
        tokio::spawn(join(upgrade, inside));
    }
    let mut answer = answer.map(Body::new);
    clean_answer(answer.headers_mut(), of, &outside);
    Ok(answer)
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
    mut request: Request,
) -> Result<(Request, Option<hyper::upgrade::OnUpgrade>), PageError> {
    let is_upgrade = request.headers().contains_key(header::UPGRADE);
    let upgrade = is_upgrade.then(|| hyper::upgrade::on(&mut request));
    let path = request.uri().path_and_query().cloned();
    *request.uri_mut() = Uri::from(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
    // Who sent it, and how it came here, is nothing to the sandbox.
    request.extensions_mut().clear();
    let headers = request.headers_mut();
    let outside = host_of(headers);
    for &name in OF_CONNECTION {
        headers.remove(name);
    }
    if is_upgrade {
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    }
    let inside = format!("localhost:{}", of.port);
    // Servers for development answer to their own name only.
    headers.insert(header::HOST, header_value(&inside)?);
    for name in [header::ORIGIN, header::REFERER] {
        let own = |value: &HeaderValue| {
            let text = value.to_str().ok()?;
            let rest = text.strip_prefix("http://")?.strip_prefix(outside.as_str())?;
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
    for &name in OF_CONNECTION.iter().chain(BEYOND) {
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
        HeaderValue::from_str(&format!("http://{outside}{rest}")).ok()
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
    let parts: Vec<&str> = text.split(';').filter(|part| !is_domain(part)).collect();
    HeaderValue::from_str(&parts.join(";")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

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
    }
}
