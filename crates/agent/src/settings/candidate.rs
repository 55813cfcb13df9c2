//! A provider that somebody considers, before anything is in the settings.

use vestal_config::{ApiMode, EnvName};
use vestal_model::{Endpoint, Secret};

use super::endpoints::{self, BUILT_IN, CUSTOM};

/// A provider that could be configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// What `model.provider` would say.
    pub provider: &'static str,
    /// The variable that its key would be in.
    pub variable: &'static str,
    /// Where it is.
    pub base_url: String,
    /// Whether nothing can be asked without a key.
    pub needs_key: bool,
}

impl Candidate {
    /// Returns the providers that need no address.
    pub fn built_in() -> Vec<Self> {
        let candidate = |known: &endpoints::BuiltIn| Self {
            provider: known.name,
            variable: known.key,
            base_url: known.base_url.to_owned(),
            needs_key: true,
        };
        BUILT_IN.iter().map(candidate).collect()
    }

    /// Returns a server of the user's own.
    pub fn at(base_url: impl Into<String>) -> Self {
        Self {
            provider: CUSTOM,
            variable: "VESTAL_API_KEY",
            base_url: base_url.into(),
            needs_key: false,
        }
    }

    /// Reports whether it is one that needs no address.
    pub fn is_built_in(&self) -> bool {
        self.provider != CUSTOM
    }

    /// Returns the name of its variable.
    pub fn variable(&self) -> Option<EnvName> {
        EnvName::new(self.variable)
    }

    /// Returns where a model of it is asked.
    pub fn endpoint(&self, key: Option<&str>, model: &str) -> Endpoint {
        let built_in = BUILT_IN.iter().find(|known| known.name == self.provider);
        let by_address = || endpoints::api(ApiMode::Auto, &self.base_url);
        Endpoint {
            name: self.provider.to_owned(),
            api: built_in.map_or_else(by_address, |known| known.api),
            base_url: self.base_url.clone(),
            key: key.map(Secret::new),
            model: model.to_owned(),
            context_length: None,
            prices: None,
        }
    }
}
