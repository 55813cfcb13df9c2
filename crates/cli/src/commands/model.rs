//! `vestal model`.

mod list;
mod setup;

pub(crate) use setup::set_up;

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;

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
    list: list::ListArgs,

    #[command(subcommand)]
    verb: Option<ModelVerb>,
}

#[derive(Debug, Subcommand)]
enum ModelVerb {
    /// List the models that the configured providers offer.
    #[command(after_help = "Example:\n  vestal model list --json")]
    List(list::ListArgs),
    /// Set the model to use, in config.yaml.
    #[command(after_help = "Example:\n  vestal model set openrouter:some/model")]
    Set(list::SetArgs),
    /// Choose a provider, key and model step by step; saved once they work.
    #[command(after_help = "Example:\n  vestal model setup")]
    Setup(setup::SetupArgs),
}

pub(crate) async fn run(context: &Context, args: ModelArgs) -> Result<Exit, CommandFailure> {
    match args.verb {
        None => list::run(context, args.list).await,
        Some(ModelVerb::List(args)) => list::run(context, args).await,
        Some(ModelVerb::Set(args)) => list::set(context, &args),
        Some(ModelVerb::Setup(args)) => Box::pin(setup::run(context, args)).await,
    }
}
