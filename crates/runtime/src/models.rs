//! What the configured providers offer.

use std::time::Duration;

use async_recursion::async_recursion as boxed;
use tokio::task::JoinSet;
use vestal_agent::settings::{self, EndpointError, ProviderRow};
use vestal_config::Settings;
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
