//! `vestal model list`.

use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use serde::Serialize;
use tokio::task::JoinSet;
use vestal_agent::settings::{self, EndpointError, ProviderRow};
use vestal_config::Settings;
use vestal_model::{
    Endpoint, Freshness, ListCache, Listed, ListedFrom, ModelError, ModelInfo, Models,
};

use super::cache;
use crate::console::{BOLD, Cell, Console, DIM, Table, text};
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;

/// How long a provider may keep people waiting who only want to see a list.
const IDLE: Duration = Duration::from_secs(15);

#[derive(Debug, Clone, Args)]
pub(super) struct ListArgs {
    /// Asks the providers, however young the kept lists are.
    #[arg(long)]
    refresh: bool,

    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct ModelsView {
    default: Option<DefaultView>,
    providers: Vec<ProviderView>,
}

/// The model that is asked unless another is named.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct DefaultView {
    provider: String,
    model: String,
}

#[derive(Debug, Serialize)]
struct ProviderView {
    provider: String,
    models: Vec<ModelInfo>,
    /// When the provider was asked.
    fetched_at: Option<String>,
    /// `provider`, `cache` or `outdated`; nothing if there is no list.
    from: Option<&'static str>,
    error: Option<String>,
    #[serde(skip)]
    age: Option<Timestamp>,
}

pub(super) async fn run(context: &Context, args: ListArgs) -> Result<Exit, Failure> {
    let settings = context.settings()?;
    let rows = settings::provider_rows(&settings)?;
    if rows.is_empty() {
        return Err(EndpointError::NoModel.into());
    }
    let freshness = if args.refresh { Freshness::Refresh } else { Freshness::Cached };
    let options = settings::model_options(&settings)?;
    let options = vestal_model::Options {
        retries: options.retries.min(1),
        idle_timeout: options.idle_timeout.min(IDLE),
        ..options
    };
    let models = Models::new(options)?;
    let cache = cache(&settings);
    let asked = ask_all(rows, &models, &cache, freshness);
    let providers = context.console.while_waiting("asking the providers", asked).await;
    let answered = providers.iter().any(|provider| provider.from.is_some());
    let view = ModelsView { default: default_model(&settings), providers };
    if args.json {
        context.console.print_json(&view)?;
    } else {
        show(context.console, &view)?;
    }
    Ok(if answered { Exit::Success } else { Exit::Provider })
}

/// Asks all providers at the same time; one that fails is in nobody's way.
async fn ask_all(
    rows: Vec<ProviderRow>,
    models: &Models,
    cache: &ListCache,
    freshness: Freshness,
) -> Vec<ProviderView> {
    let mut views: Vec<Option<ProviderView>> = Vec::new();
    let mut asked = JoinSet::new();
    for (index, row) in rows.into_iter().enumerate() {
        views.push(None);
        let (models, cache) = (models.clone(), cache.clone());
        asked.spawn(async move { (index, ask(row, &models, &cache, freshness).await) });
    }
    while let Some(done) = asked.join_next().await {
        if let Ok((index, view)) = done
            && let Some(place) = views.get_mut(index)
        {
            *place = Some(view);
        }
    }
    views.into_iter().flatten().collect()
}

async fn ask(
    row: ProviderRow,
    models: &Models,
    cache: &ListCache,
    freshness: Freshness,
) -> ProviderView {
    let listed = match &row.endpoint {
        Ok(endpoint) => cache.list(models, endpoint, freshness).await.map_err(|e| in_words(&e)),
        Err(error) => Err(error.to_string()),
    };
    ProviderView::new(row.name, listed)
}

fn in_words(error: &ModelError) -> String {
    format!("{error}; {}", error.advice())
}

impl ProviderView {
    fn new(provider: String, listed: Result<Listed, String>) -> Self {
        let Listed { models, fetched_at, from } = match listed {
            Ok(listed) => listed,
            Err(error) => {
                return Self {
                    provider,
                    models: Vec::new(),
                    fetched_at: None,
                    from: None,
                    error: Some(error),
                    age: None,
                };
            }
        };
        let (from, error) = match from {
            ListedFrom::Provider => ("provider", None),
            ListedFrom::Cache => ("cache", None),
            ListedFrom::Outdated { error } => ("outdated", Some(in_words(&error))),
        };
        Self {
            provider,
            models,
            fetched_at: Some(fetched_at.to_string()),
            from: Some(from),
            error,
            age: Some(fetched_at),
        }
    }
}

/// Returns the model that is asked, if it is known which.
fn default_model(settings: &Settings) -> Option<DefaultView> {
    let chain = settings::endpoints(settings, None).ok()?;
    let Endpoint { name, model, .. } = chain.into_iter().next()?;
    Some(DefaultView { provider: name, model })
}

fn show(console: Console, view: &ModelsView) -> Result<(), Failure> {
    match &view.default {
        Some(DefaultView { provider, model }) => {
            console.note(&format!("the default is {provider}:{model}"));
        }
        None => console.note("no default is set; to set one: vestal model set PROVIDER:MODEL"),
    }
    let mut table = Table::new(&["MODEL", "CONTEXT", "NAME"]);
    let mut any = false;
    for provider in &view.providers {
        for model in &provider.models {
            any = true;
            let is_default = view.default.as_ref().is_some_and(|default| {
                default.provider == provider.provider && default.model == model.id
            });
            let name = format!("{}:{}", provider.provider, model.id);
            let name = if is_default { Cell::styled(name, BOLD) } else { Cell::from(name) };
            let context = model.context_length.map(|tokens| tokens.to_string());
            let words = model.name.clone().unwrap_or_default();
            table.row(vec![name, context.unwrap_or_default().into(), Cell::styled(words, DIM)]);
        }
    }
    if any {
        console.print_table(&table)?;
    }
    let now = Timestamp::now();
    for provider in &view.providers {
        let ProviderView { provider: name, models, error, age, .. } = provider;
        if let Some(error) = error {
            console.warn(&format!("{name}: {error}"));
        }
        if let Some(age) = age {
            let count = text::count(models.len() as u64, "model");
            console.note(&format!("{name}: {count}, listed {}", text::ago(*age, now)));
        }
    }
    Ok(())
}
