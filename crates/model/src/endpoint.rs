//! Where a model is asked, and what is known of it beforehand.

use std::fmt;

use reqwest::Url;
use serde::{Deserialize, Serialize};

use crate::error::ModelError;
use crate::message::Api;
use crate::secret::{Mask, Secret};
use crate::usage::{Cost, CostSource, Usage};

/// A model at a provider.
#[derive(Clone)]
pub struct Endpoint {
    /// The provider, as the configuration names it.
    pub name: String,
    /// The shape of its API.
    pub api: Api,
    /// Its address, up to where `/chat/completions` or `/messages` follows.
    pub base_url: String,
    /// The key it asks for; many local servers ask for none.
    pub key: Option<Secret>,
    /// The model, as the provider names it.
    pub model: String,
    /// Tokens the model can hold, as configured.
    pub context_length: Option<u64>,
    /// What its tokens cost, as configured.
    pub prices: Option<Prices>,
}

/// Prices in US dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Prices {
    /// Tokens read.
    pub input: f64,
    /// Tokens written.
    pub output: f64,
    /// Tokens read from the provider's cache; `None`: as those read.
    #[serde(default)]
    pub cache_read: Option<f64>,
    /// Tokens written to the provider's cache; `None`: as those read.
    #[serde(default)]
    pub cache_write: Option<f64>,
}

/// How many tokens a model can hold, and who says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContextLimit {
    /// As configured.
    Configured(u64),
    /// In the provider's own words: its list of models or its refusal of a longer text.
    Learned(u64),
    /// Nobody has said.
    Unknown,
}

impl ContextLimit {
    /// Returns the number of tokens, if anybody has said.
    pub const fn tokens(self) -> Option<u64> {
        match self {
            Self::Configured(tokens) | Self::Learned(tokens) => Some(tokens),
            Self::Unknown => None,
        }
    }
}

impl Prices {
    /// Returns what `usage` costs.
    pub fn cost(&self, usage: &Usage) -> Cost {
        let priced = [
            (usage.input, self.input),
            (usage.output, self.output),
            (usage.cache_read, self.cache_read.unwrap_or(self.input)),
            (usage.cache_write, self.cache_write.unwrap_or(self.input)),
        ];
        // Dollars for a million tokens are millionths of a dollar for one.
        #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
        let micro_usd = priced.iter().map(|(tokens, price)| *tokens as f64 * price).sum::<f64>();
        known_cost(micro_usd, CostSource::Prices)
    }
}

/// Returns a cost of so many millionths of a dollar, unless that is no amount.
pub(crate) fn known_cost(micro_usd: f64, source: CostSource) -> Cost {
    if !micro_usd.is_finite() || micro_usd < 0.0 {
        return Cost::Unknown;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "finite, not negative, and the cast saturates"
    )]
    Cost::Known { micro_usd: micro_usd.round() as u64, source }
}

impl Endpoint {
    /// Returns the address of one of the API's resources.
    pub(crate) fn url(&self, resource: &[&str]) -> Result<Url, ModelError> {
        let unusable = || ModelError::NotConfigured {
            message: format!("the address of provider `{}` is not an http or https URL", self.name),
        };
        let mut url = Url::parse(self.base_url.trim()).map_err(|_| unusable())?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(unusable());
        }
        url.set_fragment(None);
        url.path_segments_mut().map_err(|()| unusable())?.pop_if_empty().extend(resource);
        Ok(url)
    }

    /// Returns the address without anything in it that could be secret.
    pub(crate) fn public_url(&self) -> String {
        let Ok(mut url) = Url::parse(self.base_url.trim()) else {
            return "(not an address)".to_owned();
        };
        url.set_query(None);
        url.set_fragment(None);
        // Only an address without a host refuses, and that one has no credentials.
        let without_name = url.set_username("");
        let without_password = url.set_password(None);
        if without_name.is_err() || without_password.is_err() {
            return format!("{}:", url.scheme());
        }
        url.to_string().trim_end_matches('/').to_owned()
    }

    /// Returns what masks this endpoint's secrets.
    pub(crate) fn mask(&self) -> Mask {
        let mut mask = Mask::default();
        if let Some(key) = &self.key {
            mask.add(key.expose());
        }
        if let Ok(url) = Url::parse(self.base_url.trim()) {
            if let Some(password) = url.password() {
                mask.add(password);
            }
            for (_, value) in url.query_pairs() {
                mask.add(&value);
            }
        }
        mask
    }
}

/// Reports whether two addresses are of one server: the scheme, the host and the
/// port are the same, so that a key for the one may be sent to the other.
pub fn is_same_server(one: &str, other: &str) -> bool {
    match (Url::parse(one.trim()), Url::parse(other.trim())) {
        // Of an address without a host, no other is the same server.
        (Ok(one), Ok(other)) => one.has_host() && one.origin() == other.origin(),
        _ => false,
    }
}

/// Shows everything but the key and what an address may hide.
impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("name", &self.name)
            .field("api", &self.api)
            .field("base_url", &self.public_url())
            .field("key", &self.key)
            .field("model", &self.model)
            .field("context_length", &self.context_length)
            .field("prices", &self.prices)
            .finish()
    }
}

#[cfg(test)]
#[path = "endpoint_tests.rs"]
mod tests;
