//! Where previews are for browsers: one name for each, below one that leads here.

use crate::gate::HostAndPort;

use super::{COOKIE, SECURE_COOKIE};

/// The name below which browsers find every name on their own machine.
const LOCALHOST: &str = "localhost";

/// Where previews are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PreviewBase {
    is_secure: bool,
    /// What stands behind the part that is made anew for each, without a dot before it.
    domain: String,
    /// The port, unless it is the usual one of the scheme.
    port: Option<u16>,
}

/// A text that is no address of previews.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPreviewUrl {
    /// It is written in another way.
    #[error(
        "{0:?} is not an address with a star for a name; write it as https://*.preview.example.net"
    )]
    Form(String),
    /// The dashboard is there.
    #[error(
        "{0:?} is where the dashboard is; choose names of another domain than dashboard.public_url"
    )]
    Dashboard(String),
    /// It is less safe than the dashboard.
    #[error(
        "{0:?} has no TLS and dashboard.public_url has it; browsers would send the cookie of a preview in the clear"
    )]
    Plain(String),
}

impl PreviewBase {
    /// Returns where previews are for who is at the machine, at a port.
    pub(super) fn localhost(port: Option<u16>) -> Self {
        let port = port.filter(|port| *port != 80);
        Self { is_secure: false, domain: LOCALHOST.to_owned(), port }
    }

    /// Reads an address with a star for a name. Browsers open the dashboard at `public_url`.
    pub(crate) fn parse(url: &str, public_url: &str) -> Result<Self, InvalidPreviewUrl> {
        let form = || InvalidPreviewUrl::Form(url.to_owned());
        let (is_secure, rest) = match url.trim().trim_end_matches('/').split_once("://") {
            Some(("https", rest)) => (true, rest),
            Some(("http", rest)) => (false, rest),
            Some(_) | None => return Err(form()),
        };
        let host = rest.strip_prefix("*.").and_then(HostAndPort::parse).ok_or_else(form)?;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
        let domain = host.host().to_owned();
        if host.ip().is_some()
            || !domain.contains('.')
            || !domain.bytes().all(is_name)
            || domain.ends_with(".localhost")
        {
            return Err(form());
        }
        let (_, public) = public_url.split_once("://").ok_or_else(form)?;
        let public = HostAndPort::parse(public).ok_or_else(form)?;
        if public.host() == domain || public.host().ends_with(&format!(".{domain}")) {
            return Err(InvalidPreviewUrl::Dashboard(url.to_owned()));
        }
        if public_url.starts_with("https://") && !is_secure {
            return Err(InvalidPreviewUrl::Plain(url.to_owned()));
        }
        let usual = if is_secure { 443 } else { 80 };
        Ok(Self { is_secure, domain, port: host.port().filter(|port| *port != usual) })
    }

    pub(super) fn is_secure(&self) -> bool {
        self.is_secure
    }

    /// Returns what addresses begin with.
    pub(super) fn scheme(&self) -> &'static str {
        if self.is_secure { "https://" } else { "http://" }
    }

    /// Returns the name of the cookie of a preview.
    pub(super) fn cookie(&self) -> &'static str {
        if self.is_secure { SECURE_COOKIE } else { COOKIE }
    }

    /// Returns the origin of a preview.
    pub(super) fn origin(&self, name: &str) -> String {
        let Self { domain, port, .. } = self;
        let port = port.map(|port| format!(":{port}")).unwrap_or_default();
        format!("{}{name}.{domain}{port}", self.scheme())
    }

    /// Returns the name of the preview that a host is of, if it is of one.
    pub(super) fn name_in(&self, host: &HostAndPort) -> Option<String> {
        let usual = if self.is_secure { 443 } else { 80 };
        let port = host.port().filter(|port| *port != usual);
        let name = host.host().strip_suffix(self.domain.as_str())?.strip_suffix('.')?;
        (port == self.port && !name.is_empty() && !name.contains('.')).then(|| name.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_a_preview_is_found_again() {
        for url in ["https://*.b.example", "https://*.b.example:8443", "http://*.b.example/"] {
            let public =
                if url.starts_with("https") { "https://a.example" } else { "http://a.example" };
            let base = PreviewBase::parse(url, public).unwrap();
            let origin = base.origin("p01");
            let host = HostAndPort::parse(origin.split_once("://").unwrap().1).unwrap();
            assert_eq!(base.name_in(&host).as_deref(), Some("p01"), "{origin}");
        }
        let near = PreviewBase::localhost(Some(9119));
        assert_eq!(near.origin("p01"), "http://p01.localhost:9119");
    }
}
