//! Names of models, as far as they are known without asking anybody.

use vestal_config::Settings;
use vestal_model::Endpoint;

use super::{model_lists, provider_rows};
use crate::slash::nearest;

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
