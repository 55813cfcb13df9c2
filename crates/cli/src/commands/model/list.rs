//! `vestal model list` and `set`.

use clap::Args;
use jiff::Timestamp;
use vestal_agent::keys;
use vestal_agent::settings::{self, EndpointError, KeyOwner, ProviderCandidate};
use vestal_api::{DefaultModelView, ModelsView, ProviderView, closest_name};
use vestal_config::{AnyKey as _, Resolved, Settings};
use vestal_model::{Endpoint, Freshness};
use vestal_runtime::ProviderModels;

use super::cache;
use crate::console::{BOLD, Cell, Console, DIM, Table, text};
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;

#[derive(Debug, Clone, Args)]
pub(super) struct ListArgs {
    /// Ask the providers even if the cached lists are fresh.
    #[arg(long)]
    refresh: bool,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(context: &Context, args: ListArgs) -> Result<Exit, CommandFailure> {
    let settings = context.settings()?;
    if settings::provider_rows(&settings)?.is_empty() {
        return Err(EndpointError::NoModel.into());
    }
    let freshness = if args.refresh { Freshness::Refresh } else { Freshness::Cached };
    let asked = vestal_runtime::list_models(&settings, freshness);
    let listed = context.console.while_waiting("asking the providers", asked).await?;
    let view = |provider: ProviderModels| {
        ProviderView::new(provider.provider, provider.listed.map_err(|error| error.to_string()))
    };
    let providers: Vec<ProviderView> = listed.into_iter().map(view).collect();
    let answered = providers.iter().any(|provider| provider.from.is_some());
    let view = ModelsView { default: default_model(&settings), providers };
    if args.json {
        context.console.print_json(&view)?;
    } else {
        show(context.console, &view)?;
    }
    Ok(if answered { Exit::Success } else { Exit::Provider })
}

/// Returns the model that is asked, if it is known which.
fn default_model(settings: &Settings) -> Option<DefaultModelView> {
    let chain = settings::endpoints(settings, None).ok()?;
    let Endpoint { name, model, .. } = chain.into_iter().next()?;
    Some(DefaultModelView { provider: name, model })
}

fn show(console: Console, view: &ModelsView) -> Result<(), CommandFailure> {
    match &view.default {
        Some(DefaultModelView { provider, model }) => {
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
        let ProviderView { provider: name, models, error, fetched_at, .. } = provider;
        if let Some(error) = error {
            console.warn(&format!("{name}: {error}"));
        }
        let fetched_at = fetched_at.as_deref().and_then(|at| at.parse::<Timestamp>().ok());
        if let Some(at) = fetched_at {
            let count = text::count(models.len(), "model");
            console.note(&format!("{name}: {count}, listed {}", text::ago(at, now)));
        }
    }
    Ok(())
}

#[derive(Debug, Args)]
pub(super) struct SetArgs {
    /// Model to use: `MODEL`, or `PROVIDER:MODEL` to set its provider too.
    #[arg(value_name = "NAME")]
    name: String,
}

pub(super) fn set(context: &Context, args: &SetArgs) -> Result<Exit, CommandFailure> {
    let before = context.settings()?;
    let name = args.name.trim();
    let (provider, model) = settings::split_model(&before, name)?;
    if model.is_empty() {
        return Err(CommandFailure::usage("no model given"));
    }
    if let Some(provider) = &provider {
        refuse_to_move_key(&before, provider)?;
        write(context, &before, keys::MODEL_PROVIDER.name(), provider)?;
    }
    write(context, &before, keys::MODEL_DEFAULT.name(), &model)?;
    check(context, &model);
    Ok(Exit::Success)
}

/// Refuses a provider that would be sent the key of another one: without an
/// address, `model.api_key` is the key of whomever `model.provider` names.
fn refuse_to_move_key(before: &Settings, provider: &str) -> Result<(), CommandFailure> {
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
    let variable = variable.map(|candidate| candidate.variable).unwrap_or_default();
    let name = keys::MODEL_API_KEY.name();
    let what =
        format!("{name} from {source} is the key of {owner}, and would be sent to {provider}");
    Err(CommandFailure::new(what).advise(format!(
        "set {variable} in .env instead of {name}: it is sent to that provider only"
    )))
}

fn write(
    context: &Context,
    before: &Settings,
    key: &str,
    value: &str,
) -> Result<(), CommandFailure> {
    let outcome = vestal_config::set(before, key, value)?;
    context.console.note(&format!("set {} to {value} in {}", outcome.name, outcome.path.display()));
    if let Some(source) = outcome.hidden_by {
        context.console.warn(&format!("it has no effect, because {source} overrides it"));
    }
    Ok(())
}

/// Says what is wrong with the new choice, as far as that is known without
/// asking anybody.
fn check(context: &Context, model: &str) {
    let Ok(after) = context.settings() else { return };
    let endpoint = match settings::endpoints(&after, None) {
        Ok(chain) => chain.into_iter().next(),
        Err(error) => {
            context.console.warn(&error.to_string());
            error.advice().iter().for_each(|advice| context.console.note(advice));
            return;
        }
    };
    let Some(endpoint) = endpoint else { return };
    let Some(listed) = cache(&after).kept(&endpoint) else { return };
    if listed.models.iter().any(|known| known.id == model) {
        return;
    }
    let provider = &endpoint.name;
    context.console.warn(&format!("{provider} does not list a model {model}"));
    if let Some(meant) = closest_name(model, listed.models.iter().map(|known| &*known.id)) {
        context.console.note(&format!("did you mean {provider}:{meant}?"));
    }
}
