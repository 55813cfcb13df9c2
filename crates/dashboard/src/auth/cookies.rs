//! The cookie that carries a session.

use axum::http::{HeaderMap, header};

use super::store::{Token, WHOLE_LIFE};

/// The prefix that makes a browser insist on TLS, on this host and on the whole path.
const HOST_PREFIX: &str = "__Host-";

/// Returns the cookie's name. Cookies know no ports, so homes on one machine need names of their own.
fn name(is_secure: bool, mark: &str) -> String {
    let prefix = if is_secure { HOST_PREFIX } else { "" };
    format!("{prefix}vestal_session_{mark}")
}

/// Returns what sets the cookie of a session.
pub(crate) fn session_cookie(token: &Token, is_secure: bool, mark: &str) -> String {
    let (name, life) = (name(is_secure, mark), WHOLE_LIFE.as_secs());
    let secure = if is_secure { "; Secure" } else { "" };
    let value = token.expose();
    format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={life}{secure}")
}

/// Returns what removes it.
pub(crate) fn clear_cookie(is_secure: bool, mark: &str) -> String {
    let name = name(is_secure, mark);
    let secure = if is_secure { "; Secure" } else { "" };
    format!("{name}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0{secure}")
}

/// How long a login at a provider may take.
const OIDC_LIFE: u32 = 600;

fn oidc_name(is_secure: bool, mark: &str) -> String {
    let prefix = if is_secure { HOST_PREFIX } else { "" };
    format!("{prefix}vestal_oidc_{mark}")
}

/// Returns what ties a login at a provider to the browser that began it. It is sent when the provider
/// leads back here, which a strict cookie is not, and lets nobody in by itself.
pub(crate) fn oidc_cookie(token: &Token, is_secure: bool, mark: &str) -> String {
    let (name, value) = (oidc_name(is_secure, mark), token.expose());
    let secure = if is_secure { "; Secure" } else { "" };
    format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={OIDC_LIFE}{secure}")
}

/// Returns what removes it.
pub(crate) fn clear_oidc_cookie(is_secure: bool, mark: &str) -> String {
    let name = oidc_name(is_secure, mark);
    let secure = if is_secure { "; Secure" } else { "" };
    format!("{name}=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0{secure}")
}

/// Returns the browser of a login at a provider.
pub(crate) fn oidc_cookies(headers: &HeaderMap, is_secure: bool, mark: &str) -> Option<Token> {
    only_cookie(headers, &oidc_name(is_secure, mark))
}

/// Returns the session that a request carries. Two cookies of the name mean that somebody else has
/// planted one: neither counts.
pub(crate) fn session_cookies(headers: &HeaderMap, is_secure: bool, mark: &str) -> Option<Token> {
    only_cookie(headers, &name(is_secure, mark))
}

fn only_cookie(headers: &HeaderMap, name: &str) -> Option<Token> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.split_once('='));
    let mut found = pairs.filter(|(key, _)| key.trim() == name).map(|(_, value)| value.trim());
    match (found.next(), found.next()) {
        (Some(value), None) if !value.is_empty() => Some(Token::given(value)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(cookie: &'static str) -> HeaderMap {
        [(header::COOKIE, axum::http::HeaderValue::from_static(cookie))].into_iter().collect()
    }

    #[test]
    fn where_tls_is_only_the_prefixed_cookie_counts() {
        let token = Token::given("secret");
        let cookie = session_cookie(&token, true, "ab");
        assert!(cookie.starts_with("__Host-vestal_session_ab=secret; Path=/; HttpOnly; "));
        assert!(cookie.contains("; SameSite=Strict;") && cookie.ends_with("; Secure"));
        assert!(!session_cookie(&token, false, "ab").contains("Secure"));
        let plain = headers("a=b; vestal_session_ab=secret");
        assert_eq!(session_cookies(&plain, false, "ab"), Some(token));
        assert_eq!(session_cookies(&plain, true, "ab"), None);
        assert_eq!(session_cookies(&plain, false, "cd"), None);
    }

    #[test]
    fn a_planted_second_cookie_makes_neither_count() {
        let twice = headers("vestal_session_ab=one; vestal_session_ab=two");
        assert_eq!(session_cookies(&twice, false, "ab"), None);
    }
}
