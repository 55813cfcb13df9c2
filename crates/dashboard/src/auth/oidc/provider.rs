//! What is asked of a provider: its addresses and keys, a token for a code, and who a person is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE};
use reqwest::{Client, RequestBuilder, Url};
use serde::Deserialize;
use tokio::sync::Mutex;

use super::token::{KeySet, ProfileClaims};
use super::{OidcError, OidcSettings};

/// How long the provider may take over an answer, and how long its answers may be.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
const MAX_ANSWER: usize = 1 << 20;

/// How long its addresses and keys are kept. Keys that it changes before are asked for when a token has
/// one that is not known, but not more often than that.
const KEPT_FOR: Duration = Duration::from_hours(1);
const KEYS_AGAIN_AFTER: Duration = Duration::from_mins(1);

/// Characters of what the provider says that are repeated.
const MAX_WORDS: usize = 300;

/// What a provider publishes about itself.
#[derive(Debug, Deserialize)]
struct Published {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    #[serde(default)]
    userinfo_endpoint: Option<String>,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

/// The same once it was checked.
#[derive(Debug)]
pub(super) struct ProviderMetadata {
    pub(super) authorization_endpoint: Url,
    token_endpoint: Url,
    jwks_uri: Url,
    userinfo_endpoint: Option<Url>,
    /// Whether a client may prove itself by a header; otherwise it does so in the body.
    takes_basic: bool,
    /// Whether every answer says which provider it is of.
    pub(super) names_itself: bool,
}

/// What comes for a code.
#[derive(Deserialize)]
pub(super) struct Tokens {
    pub(super) id_token: Option<String>,
    pub(super) access_token: Option<String>,
}

#[derive(Deserialize)]
struct RefusalBody {
    error: String,
    #[serde(default)]
    error_description: Option<String>,
}

#[derive(Deserialize)]
struct UserInfo {
    sub: String,
    #[serde(flatten)]
    profile: ProfileClaims,
}

#[derive(Default)]
struct Kept {
    metadata: Option<(Instant, Arc<ProviderMetadata>)>,
    keys: Option<(Instant, Arc<KeySet>)>,
}

/// A provider, asked when somebody logs in and not before.
pub(super) struct OidcProvider {
    settings: OidcSettings,
    client: Mutex<Option<Client>>,
    kept: Mutex<Kept>,
}

impl OidcProvider {
    pub(super) fn new(settings: OidcSettings) -> Self {
        Self { settings, client: Mutex::new(None), kept: Mutex::new(Kept::default()) }
    }

    pub(super) fn settings(&self) -> &OidcSettings {
        &self.settings
    }

    /// Returns what the provider publishes about itself.
    pub(super) async fn metadata(&self) -> Result<Arc<ProviderMetadata>, OidcError> {
        let mut kept = self.kept.lock().await;
        if let Some((at, metadata)) = &kept.metadata
            && at.elapsed() < KEPT_FOR
        {
            return Ok(Arc::clone(metadata));
        }
        let issuer = self.settings.issuer_name();
        let address = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let address = Url::parse(&address).map_err(|error| self.unusable(error.to_string()))?;
        let published: Published = self.read(self.client().await?.get(address)).await?;
        let metadata = Arc::new(self.checked(&published)?);
        kept.metadata = Some((Instant::now(), Arc::clone(&metadata)));
        Ok(metadata)
    }

    /// Checks what the provider publishes: that it is the one of the settings, and that nobody on the way
    /// to its addresses can change what they say.
    fn checked(&self, published: &Published) -> Result<ProviderMetadata, OidcError> {
        if published.issuer != self.settings.issuer_name() {
            return Err(self.unusable(format!(
                "it calls itself {:?}; set dashboard.oidc_issuer to exactly that if it is right",
                shortened(&published.issuer)
            )));
        }
        let address = |text: &String| match Url::parse(text) {
            Ok(address) if is_trustworthy(&address) => Ok(address),
            _ => Err(self.unusable(format!("its address {} is not https", shortened(text)))),
        };
        let methods = published.token_endpoint_auth_methods_supported.as_deref();
        Ok(ProviderMetadata {
            authorization_endpoint: address(&published.authorization_endpoint)?,
            token_endpoint: address(&published.token_endpoint)?,
            jwks_uri: address(&published.jwks_uri)?,
            userinfo_endpoint: published.userinfo_endpoint.as_ref().map(address).transpose()?,
            // Where nothing is said, it is this way.
            takes_basic: methods
                .is_none_or(|methods| methods.iter().any(|one| one == "client_secret_basic")),
            names_itself: published.authorization_response_iss_parameter_supported,
        })
    }

    /// Returns the provider's keys. `again`: a token has one that is not among those that are kept.
    pub(super) async fn keys(&self, again: bool) -> Result<Arc<KeySet>, OidcError> {
        let metadata = self.metadata().await?;
        let mut kept = self.kept.lock().await;
        let fresh_for = if again { KEYS_AGAIN_AFTER } else { KEPT_FOR };
        if let Some((at, keys)) = &kept.keys
            && at.elapsed() < fresh_for
        {
            return Ok(Arc::clone(keys));
        }
        let request = self.client().await?.get(metadata.jwks_uri.clone());
        let keys = Arc::new(self.read::<KeySet>(request).await?);
        kept.keys = Some((Instant::now(), Arc::clone(&keys)));
        Ok(keys)
    }

    /// Exchanges a code for what it stands for.
    pub(super) async fn exchange(
        &self,
        code: &str,
        redirect: &str,
        verifier: &str,
    ) -> Result<Tokens, OidcError> {
        let metadata = self.metadata().await?;
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", redirect),
            ("code_verifier", verifier),
        ];
        let OidcSettings { client_id, client_secret, .. } = &self.settings;
        let mut request = self.client().await?.post(metadata.token_endpoint.clone());
        match client_secret {
            Some(secret) if metadata.takes_basic => {
                let value = basic(client_id, secret);
                let mut value = reqwest::header::HeaderValue::from_str(&value).map_err(|_| {
                    self.unusable("the client's id or secret cannot be sent".to_owned())
                })?;
                value.set_sensitive(true);
                request = request.header(AUTHORIZATION, value);
            }
            Some(secret) => {
                form.extend([("client_id", client_id.as_str()), ("client_secret", secret)]);
            }
            None => form.push(("client_id", client_id)),
        }
        let request = request
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(encoded_form(&form));
        self.read(request).await
    }

    /// Asks what the provider knows of a person of this subject, where it says so in no token.
    pub(super) async fn profile(
        &self,
        access_token: &str,
        subject: &str,
    ) -> Result<Option<ProfileClaims>, OidcError> {
        let metadata = self.metadata().await?;
        let Some(address) = metadata.userinfo_endpoint.clone() else { return Ok(None) };
        let found: UserInfo =
            self.read(self.client().await?.get(address).bearer_auth(access_token)).await?;
        // Of anybody else it is not an answer.
        Ok((found.sub == subject).then_some(found.profile))
    }

    /// Sends a request and reads its answer; what the provider says against it is its own words.
    async fn read<T: serde::de::DeserializeOwned>(
        &self,
        request: RequestBuilder,
    ) -> Result<T, OidcError> {
        let sent = request.header("accept", "application/json").send().await;
        let mut response = sent.map_err(|error| self.unusable(chain(&error.without_url())))?;
        let status = response.status();
        let mut body = Vec::new();
        while let Some(piece) =
            response.chunk().await.map_err(|error| self.unusable(chain(&error.without_url())))?
        {
            body.extend_from_slice(&piece);
            if body.len() > MAX_ANSWER {
                return Err(self.unusable("its answer is longer than one can be".to_owned()));
            }
        }
        if !status.is_success() {
            if let Ok(refusal) = serde_json::from_slice::<RefusalBody>(&body) {
                return Err(refused(&refusal.error, refusal.error_description.as_deref()));
            }
            return Err(self.unusable(format!("it answers {status}")));
        }
        serde_json::from_slice(&body)
            .map_err(|error| self.unusable(format!("its answer cannot be read: {error}")))
    }

    /// Returns what speaks to the provider. Made when it is first needed: it reads the certificates of
    /// this machine.
    async fn client(&self) -> Result<Client, OidcError> {
        let mut slot = self.client.lock().await;
        if let Some(client) = slot.as_ref() {
            return Ok(client.clone());
        }
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            // Somebody else may be first between the question and this; then theirs is as good.
            drop(rustls::crypto::ring::default_provider().install_default());
        }
        let builder = Client::builder()
            .connect_timeout(CONNECT_WITHIN)
            .timeout(ANSWER_WITHIN)
            // A provider's answer comes from its own address, or it is not the provider's.
            .redirect(reqwest::redirect::Policy::none())
            // The environment is read by nobody but the configuration.
            .no_proxy();
        let builder = if self.settings.issuer.scheme() == "http" {
            builder.tls_certs_only([])
        } else {
            builder.https_only(true)
        };
        let client = builder.build().map_err(|error| self.unusable(chain(&error)))?;
        *slot = Some(client.clone());
        Ok(client)
    }

    pub(super) fn unusable(&self, reason: String) -> OidcError {
        OidcError::Provider { provider: self.settings.issuer_name().to_owned(), reason }
    }
}

impl std::fmt::Debug for OidcProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Provider").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// Returns a refusal in the provider's own words, cut where they are too many.
pub(super) fn refused(code: &str, description: Option<&str>) -> OidcError {
    let description = description.filter(|text| !text.is_empty()).map(shortened);
    OidcError::Refused { code: shortened(code), description }
}

/// Reports whether nobody on the way can change what an address says: it is https, or on this machine.
pub(crate) fn is_trustworthy(address: &Url) -> bool {
    match address.scheme() {
        "https" => true,
        "http" => {
            let host = address.host_str().unwrap_or_default();
            let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
            host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
        }
        _ => false,
    }
}

fn shortened(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MAX_WORDS).collect()
}

/// Returns an error with what has caused it.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    shortened(&text)
}

/// Returns the value of the header that proves a client: both halves are encoded first (RFC 6749, 2.3.1).
fn basic(client_id: &str, secret: &str) -> String {
    use base64::Engine as _;
    let pair = format!("{}:{}", encoded(client_id), encoded(secret));
    format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair))
}

fn encoded_form(pairs: &[(&str, &str)]) -> String {
    let pairs = pairs.iter().map(|(name, value)| format!("{name}={}", encoded(value)));
    pairs.collect::<Vec<_>>().join("&")
}

/// Encodes a text for a form.
fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                char::from(byte).to_string()
            }
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_and_this_machine_are_trusted() {
        let is_fine = |text: &str| is_trustworthy(&Url::parse(text).unwrap());
        for fine in
            ["https://id.example/x", "http://127.0.0.1:3000", "http://[::1]:1", "http://localhost"]
        {
            assert!(is_fine(fine), "{fine}");
        }
        for bad in
            ["http://id.example", "http://127.0.0.1.evil.example", "ftp://localhost", "file:///x"]
        {
            assert!(!is_fine(bad), "{bad}");
        }
    }

    #[test]
    fn a_client_proves_itself_with_encoded_halves() {
        assert_eq!(basic("a b", "p:%"), "Basic YSUyMGI6cCUzQSUyNQ==");
        assert_eq!(encoded_form(&[("code", "a&b=c")]), "code=a%26b%3Dc");
    }
}
