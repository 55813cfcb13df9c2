//! Models that the providers of the settings offer.

use serde::{Deserialize, Serialize};
use vestal_model::{ListedFrom, ModelError, ModelInfo, ModelList};

/// The model in use, and the models that can be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelsView {
    /// The model that is asked unless another is named.
    pub default: Option<DefaultModelView>,
    /// What each provider offers.
    pub providers: Vec<ProviderView>,
}

/// The model that is asked unless another is named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefaultModelView {
    /// Its provider.
    pub provider: String,
    /// Its name.
    pub model: String,
}

/// Where a list of models comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListSource {
    /// The provider, just now.
    Provider,
    /// A list that was fetched a short time ago.
    Cache,
    /// An old list, because the provider did not answer.
    Outdated,
}

/// The models of one provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderView {
    /// The provider.
    pub provider: String,
    /// Its models.
    pub models: Vec<ModelInfo>,
    /// When the provider was asked.
    pub fetched_at: Option<String>,
    /// Where the list comes from; null where there is none.
    pub from: Option<ListSource>,
    /// Why the provider did not answer.
    pub error: Option<String>,
}

impl ProviderView {
    /// Returns the view of a provider's answer.
    pub fn new(provider: String, listed: Result<ModelList, String>) -> Self {
        let ModelList { models, fetched_at, from } = match listed {
            Ok(listed) => listed,
            Err(error) => {
                let (models, fetched_at, from) = (Vec::new(), None, None);
                return Self { provider, models, fetched_at, from, error: Some(error) };
            }
        };
        let (from, error) = match from {
            ListedFrom::Provider => (ListSource::Provider, None),
            ListedFrom::Cache => (ListSource::Cache, None),
            ListedFrom::Outdated { error } => (ListSource::Outdated, Some(explained(&error))),
        };
        let fetched_at = Some(fetched_at.to_string());
        Self { provider, models, fetched_at, from: Some(from), error }
    }
}

/// Returns what went wrong with a provider, and what to do about it.
pub fn explained(error: &ModelError) -> String {
    format!("{error}; {}", error.advice())
}
