//! Servers that have an address.

mod bounded;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use reqwest::{Client, NoProxy, Proxy, Url};
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use tokio::time::{Instant, sleep_until};

use crate::lines::LONGEST;
use crate::server::ServerError;
use bounded::Bounded;

/// How long a connection may take to be made.
const CONNECT_WITHIN: Duration = Duration::from_secs(15);

/// The longest wait before a failed stream of notifications is opened again; those sent
/// meanwhile are lost.
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// Headers that the protocol has for itself.
const OF_THE_PROTOCOL: &[&str] =
    &["accept", "content-type", "last-event-id", "mcp-protocol-version", "mcp-session-id"];

/// Addresses that are never asked through a proxy.
const LOOPBACK: &str = "localhost,127.0.0.0/8,::1";

/// Returns what asks a server, and how.
pub(crate) fn client_of(
    url: &str,
    headers: &[(String, String)],
    proxy: Option<&str>,
) -> Result<(Bounded, StreamableHttpClientTransportConfig), ServerError> {
    let parsed = Url::parse(url).map_err(|error| {
        ServerError::Settings(format!("its url cannot be understood ({error}); see mcp_servers"))
    })?;
    let mut named = HashMap::new();
    for (name, value) in headers {
        let wrong = |what: &str| ServerError::Settings(format!("its header {name} {what}"));
        let key =
            HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong("has no right name"))?;
        if OF_THE_PROTOCOL.contains(&key.as_str()) {
            return Err(wrong("is one that the protocol itself sets; take it out of mcp_servers"));
        }
        let mut value = HeaderValue::from_str(value)
            .map_err(|_| wrong("has a value that no header can carry"))?;
        value.set_sensitive(true);
        named.insert(key, value);
    }
    let client = client(&parsed, proxy)?;
    let mut retry = ExponentialBackoff::default();
    retry.max_delay = Some(LONGEST_WAIT);
    let mut config = StreamableHttpClientTransportConfig::with_uri(url)
        .custom_headers(named)
        .max_sse_event_size(LONGEST);
    config.retry_config = Arc::new(retry);
    Ok((Bounded::new(client), config))
}

fn client(url: &Url, proxy: Option<&str>) -> Result<Client, ServerError> {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Another task may be first between the check and this; its result is as good.
        drop(rustls::crypto::ring::default_provider().install_default());
    }
    let mut builder = Client::builder()
        .user_agent(concat!("vestal/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_WITHIN)
        .tcp_nodelay(true)
        // Following would carry the headers, and the keys in them, to wherever it points.
        .redirect(reqwest::redirect::Policy::none())
        // The environment is read by nobody but the configuration.
        .no_proxy();
    if let Some(proxy) = proxy {
        let proxy = Proxy::all(proxy.trim()).map_err(|_| {
            ServerError::Settings("the address of the proxy is not a URL".to_owned())
        })?;
        builder = builder.proxy(proxy.no_proxy(NoProxy::from_string(LOOPBACK)));
    }
    if url.scheme() == "http" && proxy.is_none() {
        // Reading the machine's certificates takes longer than everything else here.
        builder = builder.tls_certs_only([]);
    }
    builder.build().map_err(|error| {
        ServerError::Failed(format!(
            "the HTTP client could not be prepared: {}",
            error.without_url()
        ))
    })
}

/// Returns an address as it may be shown: without what may be a key in it.
pub fn public(url: &str) -> String {
    match Url::parse(url) {
        Ok(mut url) => {
            url.set_query(None);
            url.set_fragment(None);
            // What has no host has no password either.
            url.set_password(None).and_then(|()| url.set_username("")).ok();
            // A variable in it is still to be known as one.
            url.to_string().replace("$%7B", "${").replace("%7D", "}")
        }
        // A variable that stands for the address says no more than its name.
        Err(_) if url.starts_with("${") => {
            url.split(['?', '#', '@']).next().unwrap_or_default().to_owned()
        }
        Err(_) => "its url".to_owned(),
    }
}

/// The first wait, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A stream that lasted so long was none that ends at once.
const LASTED: Duration = Duration::from_mins(1);

/// Slows down who opens a stream again and again. A server decides when its
/// stream ends and how soon the transport comes back: without this, one that
/// ends it at once would be asked as fast as the network allows.
#[derive(Debug, Clone, Default)]
pub(super) struct Pace(Arc<Mutex<Option<LastOpened>>>);

#[derive(Debug)]
struct LastOpened {
    opened: Instant,
    /// How often in a row it was opened again at once.
    quick: u32,
}

impl Pace {
    /// Waits until the stream may be opened.
    pub(super) async fn keep(&self) {
        let when = self.next(Instant::now());
        sleep_until(when).await;
    }

    fn next(&self, now: Instant) -> Instant {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (when, quick) = match &*last {
            Some(last) if now.saturating_duration_since(last.opened) < LASTED => {
                let wait = FIRST_PAUSE.saturating_mul(1 << last.quick.min(16)).min(LONGEST_PAUSE);
                (now + wait, last.quick + 1)
            }
            _ => (now, 0),
        };
        *last = Some(LastOpened { opened: when, quick });
        when
    }
}

#[cfg(test)]
#[path = "web_tests.rs"]
mod tests;
