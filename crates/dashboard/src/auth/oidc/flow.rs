//! One login from its beginning to its end.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

use super::provider::{OidcProvider, refused};
use super::token::{self, OidcUser, TokenError, TokenRequirements};
use super::{OidcError, OidcSettings};
use crate::auth::Token;
use crate::gate::{Principal, Right};

/// How long a login may take at the provider.
const ATTEMPT_LIFE: Duration = Duration::from_mins(10);

/// Logins that may be under way; the oldest go first.
const MAX_ATTEMPTS: usize = 256;

/// Where the provider sends browsers back to.
pub(crate) const CALLBACK: &str = "/login/callback";

/// A login that was begun.
struct LoginAttempt {
    begun: Instant,
    /// What the cookie of the browser has to be.
    browser: Token,
    nonce: Token,
    verifier: Token,
    redirect: String,
    next: String,
}

/// Where a browser is to go, and what it has to bring back.
pub(super) struct LoginRedirect {
    pub(super) address: String,
    pub(super) browser: Token,
}

/// What the provider sends a browser back with.
#[derive(Debug, Default, serde::Deserialize)]
pub(super) struct Callback {
    #[serde(default)]
    pub(super) state: String,
    #[serde(default)]
    code: Option<String>,
    #[serde(default)]
    iss: Option<String>,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    error_description: Option<String>,
}

/// Somebody who may come in, and the page they wanted.
pub(super) struct Arrived {
    pub(super) principal: Principal,
    pub(super) next: String,
}

/// The login at a provider.
#[derive(Debug)]
pub(crate) struct Oidc {
    provider: OidcProvider,
    attempts: LoginAttempts,
}

#[derive(Default)]
struct LoginAttempts(Mutex<HashMap<String, LoginAttempt>>);

impl Oidc {
    pub(crate) fn new(settings: OidcSettings) -> Self {
        Self { provider: OidcProvider::new(settings), attempts: LoginAttempts::default() }
    }

    /// Returns the name of the provider, for the button of the login.
    pub(crate) fn provider_name(&self) -> &str {
        let settings = self.provider.settings();
        settings.issuer.host_str().unwrap_or_else(|| settings.issuer_name())
    }

    /// Returns what somebody of this name may do now: the list may have changed since they came in.
    pub(crate) fn right_of(&self, name: &str) -> Option<Right> {
        self.provider.settings().people.right_of(name)
    }

    /// Begins a login. `origin` is what the browser calls this dashboard.
    pub(super) async fn begin(&self, origin: &str, next: &str) -> Result<LoginRedirect, OidcError> {
        let metadata = self.provider.metadata().await?;
        let random = || Token::generate().map_err(|error| OidcError::Random(error.to_string()));
        let (state, browser) = (random()?, random()?);
        let attempt = LoginAttempt {
            begun: Instant::now(),
            browser: browser.clone(),
            nonce: random()?,
            verifier: random()?,
            redirect: format!("{origin}{CALLBACK}"),
            next: next.to_owned(),
        };
        let challenge =
            URL_SAFE_NO_PAD.encode(Sha256::digest(attempt.verifier.expose().as_bytes()));
        let OidcSettings { client_id, scopes, .. } = self.provider.settings();
        let mut address = metadata.authorization_endpoint.clone();
        address
            .query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", client_id)
            .append_pair("redirect_uri", &attempt.redirect)
            .append_pair("scope", scopes)
            .append_pair("state", state.expose())
            .append_pair("nonce", attempt.nonce.expose())
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        self.attempts.keep(state.expose(), attempt);
        Ok(LoginRedirect { address: address.into(), browser })
    }

    /// Ends a login with what the browser has brought back.
    pub(super) async fn finish(
        &self,
        callback: &Callback,
        browser: Option<&Token>,
        now: i64,
    ) -> Result<Arrived, OidcError> {
        let attempt = self.attempts.take(&callback.state, browser).ok_or(OidcError::Unknown)?;
        let metadata = self.provider.metadata().await?;
        let issuer = self.provider.settings().issuer_name();
        // An answer of another provider is not sent to this one (RFC 9207).
        match &callback.iss {
            Some(iss) if iss != issuer => return Err(TokenError::Issuer(iss.clone()).into()),
            None if metadata.names_itself => {
                return Err(TokenError::Issuer(String::new()).into());
            }
            _ => {}
        }
        if let Some(error) = &callback.error {
            return Err(refused(error, callback.error_description.as_deref()));
        }
        let code = callback.code.as_deref().ok_or(OidcError::Unknown)?;
        let verifier = attempt.verifier.expose();
        let tokens = self.provider.exchange(code, &attempt.redirect, verifier).await?;
        let id_token = tokens.id_token.ok_or_else(|| {
            self.provider.unusable("it sends no id token; do the scopes have `openid`?".to_owned())
        })?;
        let person = self.verified(&id_token, attempt.nonce.expose(), now).await?;
        let principal = self.admitted(person, tokens.access_token.as_deref()).await?;
        Ok(Arrived { principal, next: attempt.next })
    }

    async fn verified(&self, id_token: &str, nonce: &str, now: i64) -> Result<OidcUser, OidcError> {
        let settings = self.provider.settings();
        let (issuer, client_id) = (settings.issuer_name(), settings.client_id.as_str());
        let expected = TokenRequirements { issuer, client_id, nonce, now };
        let keys = self.provider.keys(false).await?;
        match token::verify(id_token, &keys, &expected) {
            // It may have made a new one since its keys were read.
            Err(TokenError::Key | TokenError::Signature) => {
                let keys = self.provider.keys(true).await?;
                Ok(token::verify(id_token, &keys, &expected)?)
            }
            verified => Ok(verified?),
        }
    }

    /// Looks somebody up. Their address is asked for where the token does not say it and people are
    /// named by it.
    async fn admitted(
        &self,
        person: OidcUser,
        access_token: Option<&str>,
    ) -> Result<Principal, OidcError> {
        let OidcUser { subject, mut profile } = person;
        let people = &self.provider.settings().people;
        if let Some(access_token) = access_token.filter(|_| people.has_mail())
            && profile.verified_mail().is_none()
        {
            profile = self.provider.profile(access_token, &subject).await?.unwrap_or_default();
        }
        match people.find(&subject, profile.verified_mail()) {
            Some((name, right)) => Ok(Principal { name: name.to_owned(), right, method: "oidc" }),
            None => {
                let name = profile.verified_mail().unwrap_or(&subject);
                Err(OidcError::Stranger {
                    name: name.chars().filter(|c| !c.is_control()).collect(),
                })
            }
        }
    }
}

impl LoginAttempts {
    fn keep(&self, state: &str, attempt: LoginAttempt) {
        let mut attempts = self.lock();
        attempts.retain(|_, attempt| attempt.begun.elapsed() < ATTEMPT_LIFE);
        if attempts.len() >= MAX_ATTEMPTS
            && let Some(oldest) = attempts.iter().min_by_key(|(_, attempt)| attempt.begun)
        {
            let oldest = oldest.0.clone();
            attempts.remove(&oldest);
        }
        attempts.insert(state.to_owned(), attempt);
    }

    /// Takes the attempt of a state, which counts once, and only in the browser that began it.
    fn take(&self, state: &str, browser: Option<&Token>) -> Option<LoginAttempt> {
        let attempt = self.lock().remove(state)?;
        let is_own = browser == Some(&attempt.browser);
        (is_own && attempt.begun.elapsed() < ATTEMPT_LIFE).then_some(attempt)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, LoginAttempt>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for LoginAttempts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attempts").field("count", &self.lock().len()).finish()
    }
}

#[cfg(test)]
#[path = "flow_tests.rs"]
mod tests;
