//! Logging in at a provider of `OpenID` Connect: the authorization code flow with PKCE.
//!
//! The browser is sent to the provider with a state, a nonce and the hash of a verifier, all of which are
//! made for this one attempt and kept here; a cookie ties the attempt to the browser that began it. What
//! the provider says of a person is believed only where its signature, issuer, audience, nonce and times
//! are right, and lets nobody in who is not on the list.

mod flow;
mod people;
mod provider;
mod routes;
mod token;

#[cfg(test)]
mod testing;

pub(crate) use flow::Oidc;
pub use people::People;
pub(crate) use provider::is_trustworthy;
pub(crate) use routes::routes;

use reqwest::Url;

/// How a provider is spoken to.
#[derive(Clone, PartialEq, Eq)]
pub struct OidcSettings {
    /// Who the provider is: its tokens name it, and its addresses are found below it.
    pub issuer: Url,
    /// Who this dashboard is to the provider.
    pub client_id: String,
    /// What proves it; providers of public clients need none.
    pub client_secret: Option<String>,
    /// What the provider is asked for.
    pub scopes: String,
    /// Who may log in.
    pub people: People,
}

impl OidcSettings {
    /// Returns the issuer as tokens name it: without the slash that a parsed address gets.
    pub(crate) fn issuer_name(&self) -> &str {
        let text = self.issuer.as_str();
        if self.issuer.path() == "/" { text.trim_end_matches('/') } else { text }
    }
}

/// Leaves the secret out.
impl std::fmt::Debug for OidcSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OidcSettings")
            .field("issuer", &self.issuer.as_str())
            .field("client_id", &self.client_id)
            .field("people", &self.people)
            .finish_non_exhaustive()
    }
}

/// Why nobody was logged in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OidcError {
    /// The provider cannot be asked, or does not answer as one does.
    #[error("the provider {provider} cannot be used: {reason}")]
    Provider {
        /// Its name.
        provider: String,
        /// What is wrong.
        reason: String,
    },
    /// The provider has refused the person or the request.
    #[error("the provider says {code}{}", description.as_ref().map(|text| format!(": {text}")).unwrap_or_default())]
    Refused {
        /// In its own short word.
        code: String,
        /// In its own words.
        description: Option<String>,
    },
    /// The answer belongs to no login that was begun here in this browser.
    #[error(
        "this login was not started in this browser, was used already, or took longer than ten minutes"
    )]
    Unknown,
    /// What the provider says about the person cannot be believed.
    #[error("the claims of the provider about you are invalid: {0}")]
    Token(#[from] token::TokenError),
    /// The person is not on the list.
    #[error("{name} may not use this dashboard")]
    Stranger {
        /// Who it is.
        name: String,
    },
    /// The system has no random numbers.
    #[error("make a random number: {0}")]
    Random(String),
}
