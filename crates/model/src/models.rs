//! The one HTTP client of a process, and what it has learned of the models.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::{Client, NoProxy, Proxy, Url};

use crate::chat::ModelChain;
use crate::endpoint::Endpoint;
use crate::error::chain;
use crate::listing::ListCache;
use crate::quirks::QuirkMemory;

/// A proxy has no way to a model on this machine.
const LOOPBACK: &str = "localhost,127.0.0.0/8,::1";

/// How often an HTTP/2 connection in use is asked whether it still lives.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// How models are asked.
#[derive(Clone)]
pub struct ModelOptions {
    /// How often a failed call is tried again at an endpoint that is busy; after
    /// other failures, and where another endpoint follows, at most three times.
    pub retries: u32,
    /// How long may pass without a byte before a call counts as stalled.
    pub idle_timeout: Duration,
    /// How long a connection may take to come about.
    pub connect_timeout: Duration,
    /// The longest pause that may lie before the first retry; it doubles with
    /// each. For a busy endpoint that no other follows it is four times as long.
    pub backoff_base: Duration,
    /// The longest pause that may lie before any retry.
    pub backoff_cap: Duration,
    /// The longest pause that is granted to a provider which asks for one; a
    /// minute at most where another endpoint follows.
    pub retry_after_cap: Duration,
    /// How long a conversation stays with the model it fell back to.
    pub fallback_hold: Duration,
    /// The `User-Agent` header.
    pub user_agent: String,
    /// The proxy to go through, but to this machine itself; none is used
    /// unless it is named here.
    pub proxy: Option<String>,
    /// Where it is looked up how much a model can hold; without it only a
    /// refusal says so.
    pub lists: Option<ListCache>,
}

impl Default for ModelOptions {
    fn default() -> Self {
        Self {
            retries: 8,
            idle_timeout: Duration::from_mins(5),
            connect_timeout: Duration::from_secs(10),
            backoff_base: Duration::from_millis(500),
            backoff_cap: Duration::from_mins(1),
            retry_after_cap: Duration::from_mins(5),
            fallback_hold: Duration::from_mins(1),
            user_agent: concat!("vestal/", env!("CARGO_PKG_VERSION")).to_owned(),
            proxy: None,
            lists: None,
        }
    }
}

/// Shows that there is a proxy, not where: its address may hold a password.
impl fmt::Debug for ModelOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelOptions")
            .field("retries", &self.retries)
            .field("idle_timeout", &self.idle_timeout)
            .field("connect_timeout", &self.connect_timeout)
            .field("backoff_base", &self.backoff_base)
            .field("backoff_cap", &self.backoff_cap)
            .field("retry_after_cap", &self.retry_after_cap)
            .field("fallback_hold", &self.fallback_hold)
            .field("user_agent", &self.user_agent)
            .field("proxy", &self.proxy.is_some())
            .field("lists", &self.lists)
            .finish()
    }
}

/// Why models cannot be asked at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// The proxy's address is none.
    #[error("the address of the proxy is not a URL")]
    Proxy,
    /// The name we go by cannot be sent.
    #[error("the user agent has characters that a header cannot carry")]
    UserAgent,
    /// The HTTP client could not be made.
    #[error("failed to prepare the HTTP client: {message}")]
    Client {
        /// Why.
        message: String,
    },
}

/// Asks models; one for a whole process, shared by all its conversations, so
/// that they share connections and what was learned. Cloning it is cheap.
#[derive(Clone)]
pub struct Models {
    shared: Arc<ModelsShared>,
}

pub(crate) struct ModelsShared {
    pub(crate) options: ModelOptions,
    pub(crate) memory: QuirkMemory,
    plain: Client,
    /// Made when it is first needed: reading the machine's certificates takes
    /// longer than everything else here together.
    secure: OnceLock<Result<Client, SetupError>>,
    preparing: AtomicBool,
}

impl Models {
    /// Prepares to ask models. Nothing is connected to and no certificate read yet.
    pub fn new(options: ModelOptions) -> Result<Self, SetupError> {
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            // Somebody else may be first between the question and this; then
            // theirs is as good.
            drop(rustls::crypto::ring::default_provider().install_default());
        }
        let plain = client(&options, Roots::None)?;
        let memory = QuirkMemory::default();
        let (secure, preparing) = (OnceLock::new(), AtomicBool::new(false));
        Ok(Self { shared: Arc::new(ModelsShared { options, memory, plain, secure, preparing }) })
    }

    /// Returns a way to ask the first of `chain` and, where it fails, the next.
    pub fn chat(&self, chain: Vec<Endpoint>) -> ModelChain {
        if chain.iter().any(|endpoint| endpoint.base_url.trim_start().starts_with("https:")) {
            ModelsShared::prepare(&self.shared);
        }
        if let Some(lists) = &self.shared.options.lists {
            for endpoint in &chain {
                lists.look_up(self, endpoint);
            }
        }
        ModelChain::new(Arc::clone(&self.shared), chain)
    }

    pub(crate) fn shared(&self) -> &ModelsShared {
        &self.shared
    }
}

impl fmt::Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Models").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

impl ModelsShared {
    /// Reads the machine's certificates beside whatever the caller does until
    /// it asks; asking waits for the rest of it.
    fn prepare(shared: &Arc<Self>) {
        if shared.preparing.swap(true, Ordering::Relaxed) {
            return;
        }
        let prepared = Arc::clone(shared);
        let thread = std::thread::Builder::new().name("certificates".to_owned());
        let spawned = thread.spawn(move || {
            prepared.secure();
        });
        if let Err(error) = spawned {
            // Then it is done when the first request needs it.
            tracing::debug!(%error, "no thread to read the certificates");
        }
    }

    fn secure(&self) -> &Result<Client, SetupError> {
        self.secure.get_or_init(|| client(&self.options, Roots::Machine))
    }

    /// Returns the client for an address.
    pub(crate) fn client(&self, url: &Url) -> Result<&Client, SetupError> {
        let proxy = self.options.proxy.as_deref().unwrap_or_default();
        if url.scheme() == "http" && !proxy.trim_start().starts_with("https:") {
            return Ok(&self.plain);
        }
        self.secure().as_ref().map_err(Clone::clone)
    }
}

/// Whose word is taken for who a server is.
#[derive(Clone, Copy)]
enum Roots {
    /// Nobody's: for connections without TLS.
    None,
    /// That of the certificates installed on this machine.
    Machine,
}

fn client(options: &ModelOptions, roots: Roots) -> Result<Client, SetupError> {
    let agent = reqwest::header::HeaderValue::from_str(&options.user_agent)
        .map_err(|_| SetupError::UserAgent)?;
    let mut builder = Client::builder()
        .user_agent(agent)
        .connect_timeout(options.connect_timeout)
        .tcp_nodelay(true)
        // A connection that died unnoticed must not cost a whole idle timeout.
        .http2_keep_alive_interval(KEEP_ALIVE)
        // A provider that moved is asked at its new address once that is
        // configured: following would carry the key to wherever it points.
        .redirect(reqwest::redirect::Policy::none())
        // The environment is read by nobody but the configuration.
        .no_proxy();
    if let Some(proxy) = &options.proxy {
        let proxy = Proxy::all(proxy.trim()).map_err(|_| SetupError::Proxy)?;
        builder = builder.proxy(proxy.no_proxy(NoProxy::from_string(LOOPBACK)));
    }
    if matches!(roots, Roots::None) {
        builder = builder.tls_certs_only([]);
    }
    builder.build().map_err(|error| SetupError::Client { message: chain(error) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_that_is_no_address_is_refused_without_showing_it() {
        let options = ModelOptions {
            proxy: Some("pa55word at nowhere:::".to_owned()),
            ..ModelOptions::default()
        };
        assert!(!format!("{options:?}").contains("pa55word"));
        let error = Models::new(options).map(|_| ()).unwrap_err();
        assert_eq!(error, SetupError::Proxy);
    }

    #[test]
    fn certificates_are_read_for_the_first_https_address_and_not_before() {
        let models = Models::new(ModelOptions::default()).unwrap();
        let url = |text: &str| Url::parse(text).unwrap();
        models.shared.client(&url("http://127.0.0.1:1/v1")).unwrap();
        assert!(models.shared.secure.get().is_none());
        // A machine may have none; then the error says so instead of a panic.
        drop(models.shared.client(&url("https://127.0.0.1:1/v1")));
        assert!(models.shared.secure.get().is_some());
    }
}
