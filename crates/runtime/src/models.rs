//! What the configured providers offer.

use std::time::Duration;

use async_recursion::async_recursion as boxed;
use tokio::task::JoinSet;
use vestal_agent::keys;
use vestal_agent::settings::{self, EndpointError, KeyOwner, ProviderCandidate, ProviderRow};
use vestal_api::closest_name;
use vestal_config::{
    AnyKey as _, ConfigError, Resolved, SetError, SetOutcome, Settings, ValueSource,
};
use vestal_model::{Freshness, ListCache, ModelError, ModelList, Models};

use crate::RuntimeError;

/// How long a provider may keep people waiting who only want to see a list.
const IDLE: Duration = Duration::from_secs(15);

/// The models of one provider, or why they are not known.
#[derive(Debug)]
pub struct ProviderModels {
    /// The provider.
    pub provider: String,
    /// Its models.
    pub listed: Result<ModelList, ListModelsError>,
}

/// Why the models of a provider are not known.
#[derive(Debug, thiserror::Error)]
pub enum ListModelsError {
    /// It cannot be asked with these settings.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// It did not answer.
    #[error("{0}; {advice}", advice = .0.advice())]
    Provider(ModelError),
}

/// Asks all providers of the settings at the same time; one that fails does not delay the others.
/// Lists that are fresh enough are not asked for.
#[boxed]
pub async fn list_models(
    settings: &Settings,
    freshness: Freshness,
) -> Result<Vec<ProviderModels>, RuntimeError> {
    let rows = settings::provider_rows(settings).map_err(|reason| RuntimeError::Endpoint {
        reason,
        profile: settings.home().profile().clone(),
    })?;
    let options = settings::model_options(settings)?;
    let options = vestal_model::ModelOptions {
        retries: options.retries.min(1),
        idle_timeout: options.idle_timeout.min(IDLE),
        ..options
    };
    let models = Models::new(options)?;
    let cache = settings::model_lists(settings);
    let mut found: Vec<Option<ProviderModels>> = Vec::new();
    let mut asked = JoinSet::new();
    for (index, row) in rows.into_iter().enumerate() {
        found.push(None);
        let (models, cache) = (models.clone(), cache.clone());
        asked.spawn(async move { (index, ask(row, &models, &cache, freshness).await) });
    }
    while let Some(done) = asked.join_next().await {
        if let Ok((index, provider)) = done
            && let Some(place) = found.get_mut(index)
        {
            *place = Some(provider);
        }
    }
    Ok(found.into_iter().flatten().collect())
}

async fn ask(
    row: ProviderRow,
    models: &Models,
    cache: &ListCache,
    freshness: Freshness,
) -> ProviderModels {
    let listed = match row.endpoint {
        Ok(endpoint) => {
            let listed = cache.list(models, &endpoint, freshness).await;
            listed.map_err(ListModelsError::Provider)
        }
        Err(error) => Err(error.into()),
    };
    ProviderModels { provider: row.name, listed }
}

/// What was written, and what is wrong with the choice as far as that is known without asking anybody.
#[derive(Debug)]
pub struct ModelChoice {
    /// Each key with its value.
    pub written: Vec<(String, SetOutcome)>,
    /// What is wrong with it.
    pub problem: Option<String>,
    /// What to do about it.
    pub advice: Vec<String>,
}

/// Why no model was chosen.
#[derive(Debug, thiserror::Error)]
pub enum ChooseModelError {
    /// No model is named.
    #[error("no model given")]
    Missing,
    /// The provider is none, or the settings cannot be read.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// A key would be sent to a provider that it is not for.
    #[error("{key} from {source_of_key} is the key of {owner}, and would be sent to {provider}")]
    MovesKey {
        /// The setting with the key.
        key: &'static str,
        /// Where it is set.
        source_of_key: ValueSource,
        /// Whose key it is.
        owner: String,
        /// The provider that would get it.
        provider: String,
        /// The variable it should be in.
        variable: &'static str,
    },
    /// A setting was not written.
    #[error(transparent)]
    Set(#[from] SetError),
    /// A setting cannot be read.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

impl ChooseModelError {
    /// Returns what to do about it, line by line.
    pub fn advice(&self) -> Vec<String> {
        match self {
            Self::MovesKey { key, variable, .. } => vec![format!(
                "set {variable} in .env instead of {key}: it is sent to that provider only"
            )],
            Self::Endpoint(error) => error.advice(),
            Self::Missing | Self::Set(_) | Self::Config(_) => Vec::new(),
        }
    }
}

/// Sets the model, and its provider where `PROVIDER:MODEL` names one.
pub fn choose_model(before: &Settings, name: &str) -> Result<ModelChoice, ChooseModelError> {
    let (provider, model) = settings::split_model(before, name.trim())?;
    if model.is_empty() {
        return Err(ChooseModelError::Missing);
    }
    let mut written = Vec::new();
    if let Some(provider) = provider {
        refuse_to_move_key(before, &provider)?;
        let outcome = vestal_config::set(before, keys::MODEL_PROVIDER.name(), &provider)?;
        written.push((provider, outcome));
    }
    let outcome = vestal_config::set(before, keys::MODEL_DEFAULT.name(), &model)?;
    written.push((model.clone(), outcome));
    let (problem, advice) = doubts(&before.reload(), &model);
    Ok(ModelChoice { written, problem, advice })
}

/// Refuses a provider that would be sent the key of another one: without an address, `model.api_key` is
/// the key of the provider that `model.provider` names.
fn refuse_to_move_key(before: &Settings, provider: &str) -> Result<(), ChooseModelError> {
    let Resolved { value, source } = before.get(&keys::MODEL_API_KEY)?;
    let KeyOwner::BuiltIn(owner) = settings::key_owner(before)? else { return Ok(()) };
    let known = ProviderCandidate::built_in();
    if value.expose().is_none() || owner == provider {
        return Ok(());
    }
    if !known.iter().any(|candidate| candidate.provider == provider) {
        return Ok(());
    }
    let variable = known.iter().find(|candidate| candidate.provider == owner);
    Err(ChooseModelError::MovesKey {
        key: keys::MODEL_API_KEY.name(),
        source_of_key: source,
        owner: owner.to_string(),
        provider: provider.to_owned(),
        variable: variable.map(|candidate| candidate.variable).unwrap_or_default(),
    })
}

fn doubts(after: &Settings, model: &str) -> (Option<String>, Vec<String>) {
    let endpoint = match settings::endpoints(after, None) {
        Ok(chain) => chain.into_iter().next(),
        Err(error) => return (Some(error.to_string()), error.advice()),
    };
    let Some(endpoint) = endpoint else { return (None, Vec::new()) };
    let Some(listed) = settings::model_lists(after).kept(&endpoint) else {
        return (None, Vec::new());
    };
    if listed.models.iter().any(|known| known.id == model) {
        return (None, Vec::new());
    }
    let provider = &endpoint.name;
    let meant = closest_name(model, listed.models.iter().map(|known| &*known.id));
    let advice = meant.map(|meant| format!("did you mean {provider}:{meant}?"));
    (Some(format!("{provider} does not list a model {model}")), advice.into_iter().collect())
}
