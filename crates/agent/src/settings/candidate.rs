//! A provider that could be configured, before anything is in the settings, and names of
//! models, as far as they are known without asking anybody.

use vestal_config::{EnvName, Settings};
use vestal_model::{ApiKey, Endpoint, is_same_server};

use super::endpoints::{self, BUILT_IN, CUSTOM, KeyOwner};
use super::{model_lists, provider_rows};
use crate::settings::ApiMode;
use crate::slash::nearest;

/// A provider that could be configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderCandidate {
    /// What `model.provider` would say.
    pub provider: &'static str,
    /// The variable that its key would be in.
    pub variable: &'static str,
    /// Where it is.
    pub base_url: String,
    /// Whether nothing can be asked without a key.
    pub needs_key: bool,
}

impl ProviderCandidate {
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

    /// Returns what a person calls it who has not read the settings.
    pub fn label(&self) -> String {
        if self.is_built_in() {
            self.provider.to_owned()
        } else {
            format!("the server at {}", endpoints::host(&self.base_url))
        }
    }

    /// Returns a server of the user's own at the address that most of them have,
    /// where the one given has no path at all.
    #[must_use]
    pub fn with_version(&self) -> Option<Self> {
        let rest = self.base_url.split_once("://").map_or(&*self.base_url, |(_, rest)| rest);
        let has_path = rest.trim_end_matches('/').contains('/');
        if self.is_built_in() || has_path {
            return None;
        }
        let base_url = format!("{}/v1", self.base_url.trim_end_matches('/'));
        Some(Self { base_url, ..self.clone() })
    }

    /// Reports whether `model.api_key` may be tried there: it is the key of this
    /// server, or of none that the settings name.
    pub fn may_take(&self, owner: &KeyOwner) -> bool {
        match owner {
            KeyOwner::Address(base_url) => {
                !self.is_built_in() && is_same_server(base_url, &self.base_url)
            }
            KeyOwner::BuiltIn(name) => *name == self.provider,
            KeyOwner::Nobody => !self.is_built_in(),
        }
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
            key: key.map(ApiKey::new),
            model: model.to_owned(),
            context_length: None,
            prices: None,
            reasoning: vestal_model::ReasoningOptions::AUTO,
        }
    }
}

/// Result of checking the name of a model against the cached lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelNameCheck {
    /// It is listed, or there is no list.
    Listed,
    /// It is not listed, and no similar name is, or it was given in full.
    Unlisted,
    /// Probably this name was meant.
    Typo(String),
}

/// Checks the name that a person gave for an endpoint's model.
pub fn check_model_name(settings: &Settings, name: &str, endpoint: &Endpoint) -> ModelNameCheck {
    let lists = model_lists(settings);
    let Some(listed) = lists.kept(endpoint) else { return ModelNameCheck::Listed };
    if listed.models.iter().any(|known| known.id == endpoint.model) {
        return ModelNameCheck::Listed;
    }
    // A full name is intentional.
    if name == format!("{}:{}", endpoint.name, endpoint.model) {
        return ModelNameCheck::Unlisted;
    }
    let known = known_models(settings);
    // A model of another provider, or a typo.
    let elsewhere = known
        .iter()
        .find(|known| known.split_once(':').is_some_and(|(_, model)| model == endpoint.model));
    if let Some(elsewhere) = elsewhere {
        return ModelNameCheck::Typo(elsewhere.clone());
    }
    match nearest(&endpoint.model, listed.models.iter().map(|known| &*known.id)) {
        Some(meant) => ModelNameCheck::Typo(meant.to_owned()),
        None => ModelNameCheck::Unlisted,
    }
}

/// Returns the models in the cached lists, as `PROVIDER:MODEL`.
pub fn known_models(settings: &Settings) -> Vec<String> {
    let lists = model_lists(settings);
    let rows = provider_rows(settings).unwrap_or_default();
    let mut known = Vec::new();
    for row in rows {
        let Ok(endpoint) = row.endpoint else { continue };
        let listed = lists.kept(&endpoint).map(|listed| listed.models).unwrap_or_default();
        known.extend(listed.into_iter().map(|model| format!("{}:{}", row.name, model.id)));
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_of_ones_own_is_called_by_where_it_is() {
        assert_eq!(
            ProviderCandidate::at("http://127.0.0.1:11434/v1").label(),
            "the server at 127.0.0.1:11434"
        );
        let built_in: Vec<String> =
            ProviderCandidate::built_in().iter().map(ProviderCandidate::label).collect();
        assert_eq!(built_in, ["anthropic", "openai", "openrouter"]);
        // What the settings say of it stays.
        assert_eq!(ProviderCandidate::at("http://h/v1").provider, "custom");
    }

    #[test]
    fn an_address_without_a_path_may_lack_the_usual_one() {
        let meant =
            |url: &str| ProviderCandidate::at(url).with_version().map(|meant| meant.base_url);
        assert_eq!(meant("http://127.0.0.1:11434").as_deref(), Some("http://127.0.0.1:11434/v1"));
        assert_eq!(meant("http://host/").as_deref(), Some("http://host/v1"));
        assert_eq!(meant("http://host/v1"), None);
        assert_eq!(meant("http://host/openai/v1"), None);
        assert!(ProviderCandidate::built_in().iter().all(|known| known.with_version().is_none()));
    }
}
