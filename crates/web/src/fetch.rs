//! Requests to the web: checked, bounded, one redirect after the other.

use std::error::Error;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::header::{
    ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION,
};
use reqwest::{Client, Response, Url};
use tokio::time::timeout;

use crate::addresses::{NotPublic, PublicResolver, check};
use crate::networks::AllowedNetworks;

/// Redirects that are followed.
pub(crate) const MOST_REDIRECTS: usize = 5;

/// Characters of an address.
const LONGEST_URL: usize = 8192;

/// What a page may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchLimits {
    /// Time, for each step of the way.
    pub timeout: Duration,
    /// Bytes.
    pub max_bytes: u64,
}

/// Gets pages from the public internet.
pub struct Fetcher {
    allowed: Arc<AllowedNetworks>,
    limits: FetchLimits,
    /// Made when it is first needed: the machine's certificates take time to read.
    client: OnceLock<Result<Client, String>>,
}

/// One step of the way to a page.
#[derive(Debug)]
pub(crate) enum FetchStep {
    /// The page is elsewhere.
    Moved(Url),
    /// Here it is.
    Page(FetchedPage),
}

/// What came for an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedPage {
    /// Where it is in the end.
    pub url: Url,
    /// The status.
    pub status: u16,
    /// What kind of content it is, as the server says.
    pub content_type: String,
    /// The content.
    pub body: Bytes,
    /// Whether there is more than was taken.
    pub is_cut: bool,
}

/// Why there is no page.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// It is not an address of the web.
    #[error("{0}")]
    Address(String),
    /// It is not on the public internet.
    #[error(
        "{host} is not on the public internet ({address}), and pages of this machine and its network are not fetched; \
         the user can allow it with web.allowed_networks"
    )]
    NotPublic {
        /// The host.
        host: String,
        /// Its address.
        address: IpAddr,
    },
    /// It took too long.
    #[error("no answer came within {0} s (web.timeout)")]
    Timeout(u64),
    /// It was moved too often.
    #[error("the page was moved more than {MOST_REDIRECTS} times")]
    Redirects,
    /// Something failed on the way.
    #[error("{0}")]
    Failed(String),
}

impl From<NotPublic> for FetchError {
    fn from(NotPublic { host, address }: NotPublic) -> Self {
        Self::NotPublic { host, address }
    }
}

impl Fetcher {
    /// Returns what fetches pages within these limits, from the public internet and what is allowed.
    pub fn new(allowed: Arc<AllowedNetworks>, limits: FetchLimits) -> Self {
        Self { allowed, limits, client: OnceLock::new() }
    }

    /// Fetches a page, wherever it was moved to.
    pub async fn fetch(&self, url: &str) -> Result<FetchedPage, FetchError> {
        let mut url = address(url)?;
        for _ in 0..=MOST_REDIRECTS {
            match self.step(&url).await? {
                FetchStep::Moved(elsewhere) => url = elsewhere,
                FetchStep::Page(page) => return Ok(page),
            }
        }
        Err(FetchError::Redirects)
    }

    /// Asks for one address and follows nothing.
    pub(crate) async fn step(&self, url: &Url) -> Result<FetchStep, FetchError> {
        let limit = self.limits.timeout;
        let late = FetchError::Timeout(limit.as_secs());
        timeout(limit, self.ask(url)).await.unwrap_or(Err(late))
    }

    async fn ask(&self, url: &Url) -> Result<FetchStep, FetchError> {
        // A name is checked when it is resolved; what is an address already is not resolved.
        if let Some(address) = literal(url) {
            check(&self.allowed, url.host_str().unwrap_or_default(), address)?;
        }
        let client = self.client().map_err(FetchError::Failed)?;
        let response = client.get(url.clone()).send().await.map_err(failure)?;
        let status = response.status();
        if status.is_redirection()
            && let Some(elsewhere) = response.headers().get(LOCATION)
        {
            let elsewhere = elsewhere.to_str().unwrap_or_default();
            let joined = url.join(elsewhere).map_err(|error| {
                FetchError::Failed(format!("the page was moved to no address: {error}"))
            })?;
            return address(joined.as_str()).map(FetchStep::Moved);
        }
        let content_type = response.headers().get(CONTENT_TYPE);
        let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
        let content_type = content_type.to_owned();
        let url = response.url().clone();
        let most = usize::try_from(self.limits.max_bytes).unwrap_or(usize::MAX);
        let (body, is_cut) = read(response, most).await?;
        let status = status.as_u16();
        Ok(FetchStep::Page(FetchedPage { url, status, content_type, body, is_cut }))
    }

    fn client(&self) -> Result<&Client, String> {
        let allowed = &self.allowed;
        let made = self.client.get_or_init(|| {
            let resolver = PublicResolver { allowed: Arc::clone(allowed) };
            client(self.limits.timeout)
                .dns_resolver(Arc::new(resolver))
                .build()
                .map_err(|error| format!("the HTTP client cannot be made: {}", chain(&error)))
        });
        made.as_ref().map_err(Clone::clone)
    }
}

impl fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetcher")
            .field("allowed", &self.allowed)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// Returns a client that sends nothing but what it is told and goes nowhere by itself.
pub(crate) fn client(connect_timeout: Duration) -> reqwest::ClientBuilder {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Somebody else may be first between the question and this; theirs is as good.
        drop(rustls::crypto::ring::default_provider().install_default());
    }
    let mut headers = HeaderMap::new();
    headers.insert(
        ACCEPT,
        HeaderValue::from_static(
            "text/html, text/markdown, text/plain, application/json, */*;q=0.5",
        ),
    );
    // What is small on the way may be anything here.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.insert(ACCEPT_LANGUAGE, HeaderValue::from_static("en, *;q=0.5"));
    Client::builder()
        .user_agent(concat!("vestal/", env!("CARGO_PKG_VERSION")))
        .default_headers(headers)
        .connect_timeout(connect_timeout)
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        // A proxy would look names up itself: what was checked would not be what is reached.
        .no_proxy()
}

/// Returns an address of the web.
pub(crate) fn address(text: &str) -> Result<Url, FetchError> {
    let refused = |why: String| Err(FetchError::Address(why));
    let text = text.trim();
    if text.len() > LONGEST_URL {
        return refused(format!("the address is longer than {LONGEST_URL} bytes"));
    }
    let Ok(mut url) = Url::parse(text) else {
        return refused("the address is not a URL; it begins with https:// or http://".to_owned());
    };
    if !matches!(url.scheme(), "http" | "https") {
        return refused(format!(
            "addresses of {}: are not fetched, only http and https",
            url.scheme()
        ));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return refused(
            "the address has a user or a password in it, which are not sent".to_owned(),
        );
    }
    if !url.has_host() {
        return refused("the address has no host".to_owned());
    }
    url.set_fragment(None);
    Ok(url)
}

/// Returns the address that stands in a URL in the place of a name. The URL's parser knows every
/// notation, such as `0x7f.1`.
fn literal(url: &Url) -> Option<IpAddr> {
    url.host_str()?.trim_matches(['[', ']']).parse().ok()
}

/// Reads a body, but not beyond its limit. Reports whether there is more.
pub(crate) async fn read(mut response: Response, most: usize) -> Result<(Bytes, bool), FetchError> {
    let mut body = BytesMut::new();
    while let Some(bytes) = response.chunk().await.map_err(failure)? {
        let room = most - body.len();
        if bytes.len() > room {
            body.extend_from_slice(&bytes[..room]);
            return Ok((body.freeze(), true));
        }
        body.extend_from_slice(&bytes);
    }
    Ok((body.freeze(), false))
}

/// Says why a request failed.
pub(crate) fn failure(error: reqwest::Error) -> FetchError {
    let mut source: Option<&(dyn Error + 'static)> = Some(&error);
    while let Some(cause) = source {
        if let Some(refused) = cause.downcast_ref::<NotPublic>() {
            return refused.clone().into();
        }
        source = cause.source();
    }
    FetchError::Failed(chain(&error.without_url()))
}

/// Returns an error with its causes.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let more = cause.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_web_are_fetched() {
        for wrong in [
            "",
            "example.org",
            "file:///etc/passwd",
            "ftp://example.org/",
            "data:text/plain,x",
            "https://user@example.org/",
            "https://user:word@example.org/",
            "http://",
        ] {
            assert!(matches!(address(wrong), Err(FetchError::Address(_))), "{wrong}");
        }
        assert!(address(&format!("https://h/{}", "x".repeat(9000))).is_err());
        assert_eq!(address(" https://example.org/a#b ").unwrap().as_str(), "https://example.org/a");
    }

    #[tokio::test]
    async fn an_address_inside_is_refused_in_every_notation_without_a_connection() {
        let limits = FetchLimits { timeout: Duration::from_secs(5), max_bytes: 1 };
        let fetcher = Fetcher::new(Arc::new(AllowedNetworks::EMPTY), limits);
        for url in [
            "http://127.0.0.1:1/",
            "http://2130706433:1/",
            "http://0x7f.1:1/",
            "http://0177.0.0.1:1/",
            "http://[::1]:1/",
            "http://[::ffff:127.0.0.1]:1/",
            "http://169.254.169.254/latest/meta-data/",
            "http://localhost:1/",
            "http://0:1/",
        ] {
            let refused = fetcher.fetch(url).await.unwrap_err();
            assert!(matches!(refused, FetchError::NotPublic { .. }), "{url}: {refused:?}");
        }
    }
}
