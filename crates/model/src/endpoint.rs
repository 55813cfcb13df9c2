//! Where a model is asked, and what is known of it beforehand.

use std::fmt;

use reqwest::Url;
use serde::{Deserialize, Serialize};

use crate::effort::ReasoningOptions;
use crate::error::ModelError;
use crate::message::ProviderApi;
use crate::request::{Cost, CostSource, TokenUsage};

/// A model at a provider.
#[derive(Clone)]
pub struct Endpoint {
    /// The provider, as the configuration names it.
    pub name: String,
    /// The shape of its API.
    pub api: ProviderApi,
    /// Its address, up to where `/chat/completions` or `/messages` follows.
    pub base_url: String,
    /// The key it asks for; many local servers ask for none.
    pub key: Option<ApiKey>,
    /// The model, as the provider names it.
    pub model: String,
    /// Tokens the model can hold, as configured.
    pub context_length: Option<u64>,
    /// What its tokens cost, as configured.
    pub prices: Option<ModelPrices>,
    /// How much it thinks, as configured.
    pub reasoning: ReasoningOptions,
}

/// Prices in US dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ModelPrices {
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

impl ModelPrices {
    /// Returns what `usage` costs.
    pub fn cost(&self, usage: &TokenUsage) -> Cost {
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

/// Returns a cost of so many millionths of a dollar, unless that is not an amount.
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
            .field("reasoning", &self.reasoning)
            .finish()
    }
}

/// What stands where a secret stood.
const MASK: &str = "***";

/// Shorter words are not secrets, and masking them would only garble a message.
const SHORTEST_SECRET: usize = 4;

/// A key that is never shown: neither `Debug` nor anything else prints it.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// Keeps a key; blanks around it, as a copied line has them, are not part of it.
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into().trim().to_owned())
    }

    /// Returns the key itself, for the one header that carries it.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// Reports whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Prints nothing of the key, not even its length.
impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Masks the secrets of one endpoint in text that came from elsewhere.
#[derive(Clone, Default)]
pub(crate) struct Mask {
    secrets: Vec<String>,
}

impl Mask {
    /// Adds a secret, also in the form it has inside of JSON.
    pub(crate) fn add(&mut self, secret: &str) {
        if secret.len() < SHORTEST_SECRET {
            return;
        }
        if let Ok(quoted) = serde_json::to_string(secret) {
            let escaped = quoted.trim_matches('"');
            if escaped != secret {
                self.secrets.push(escaped.to_owned());
            }
        }
        self.secrets.push(secret.to_owned());
        // A secret that is part of another must not tear the longer one apart.
        self.secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    }

    /// Returns the text on one line, without secrets and control characters,
    /// at most `limit` characters long.
    pub(crate) fn clean(&self, text: &str, limit: usize) -> String {
        let mut text = text.to_owned();
        for secret in &self.secrets {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), MASK);
            }
        }
        let words =
            text.split(|c: char| c.is_control() || c == ' ').filter(|word| !word.is_empty());
        let line = words.collect::<Vec<_>>().join(" ");
        match line.char_indices().nth(limit) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line,
        }
    }
}

#[cfg(test)]
#[path = "endpoint_tests.rs"]
mod tests;
