//! `vestal model`.

mod setup;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use vestal_agent::settings::{self, EndpointError};
use vestal_api::{DefaultModelView, ModelsView, ProviderView};
use vestal_config::Settings;
use vestal_model::{Endpoint, Freshness};
use vestal_runtime::{ChooseModelError, ProviderModels, choose_model};

use crate::console::{BOLD, Cell, Console, DIM, Table, text};
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;

pub(crate) use setup::set_up;

const AFTER_HELP: &str = "\
Lists are cached for a day; --refresh asks the providers again. Exit codes: 0 at least one provider
answered, 1 none is configured, 3 none answered.

Examples:
  vestal model
  vestal model list --refresh
  vestal model set openrouter:some/model
  vestal model setup";

/// List models, and choose the one to use.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
pub(crate) struct ModelArgs {
    #[command(flatten)]
    list: ListArgs,

    #[command(subcommand)]
    verb: Option<ModelVerb>,
}

#[derive(Debug, Subcommand)]
enum ModelVerb {
    /// List the models that the configured providers offer.
    #[command(after_help = "Example:\n  vestal model list --json")]
    List(ListArgs),
    /// Set the model to use, in config.yaml.
    #[command(after_help = "Example:\n  vestal model set openrouter:some/model")]
    Set(SetArgs),
    /// Choose a provider, key and model step by step; saved once they work.
    #[command(after_help = "Example:\n  vestal model setup")]
    Setup(setup::SetupArgs),
}

pub(crate) async fn run(context: &Context, args: ModelArgs) -> Result<Exit, CommandFailure> {
    match args.verb {
        None => list(context, args.list).await,
        Some(ModelVerb::List(args)) => list(context, args).await,
        Some(ModelVerb::Set(args)) => set(context, &args),
        Some(ModelVerb::Setup(args)) => Box::pin(setup::run(context, args)).await,
    }
}

#[derive(Debug, Clone, Args)]
struct ListArgs {
    /// Ask the providers even if the cached lists are fresh.
    #[arg(long)]
    refresh: bool,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

async fn list(context: &Context, args: ListArgs) -> Result<Exit, CommandFailure> {
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
struct SetArgs {
    /// Model to use: `MODEL`, or `PROVIDER:MODEL` to set its provider too.
    #[arg(value_name = "NAME")]
    name: String,
}

fn set(context: &Context, args: &SetArgs) -> Result<Exit, CommandFailure> {
    let chosen = choose_model(&context.settings()?, &args.name)?;
    let console = context.console;
    for (value, outcome) in &chosen.written {
        console.note(&format!("set {} to {value} in {}", outcome.name, outcome.path.display()));
        if let Some(source) = &outcome.hidden_by {
            console.warn(&format!("it has no effect, because {source} overrides it"));
        }
    }
    if let Some(problem) = &chosen.problem {
        console.warn(problem);
    }
    chosen.advice.iter().for_each(|advice| console.note(advice));
    Ok(Exit::Success)
}

impl From<ChooseModelError> for CommandFailure {
    fn from(error: ChooseModelError) -> Self {
        match error {
            ChooseModelError::Missing => Self::usage(error.to_string()),
            ChooseModelError::Endpoint(error) => error.into(),
            ChooseModelError::Set(error) => error.into(),
            ChooseModelError::Config(error) => error.into(),
            ChooseModelError::MovesKey { .. } => {
                let advice = error.advice();
                advice.into_iter().fold(Self::new(error.to_string()), Self::advise)
            }
        }
    }
}
