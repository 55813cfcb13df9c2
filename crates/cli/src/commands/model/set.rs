//! `vestal model set`.

use clap::Args;
use vestal_agent::settings::{self, Candidate, KeyOwner};
use vestal_config::{AnyKey as _, Resolved, Settings, keys};

use super::cache;
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;
use crate::suggest;

#[derive(Debug, Args)]
pub(super) struct SetArgs {
    /// The model: `MODEL`, or `PROVIDER:MODEL` to set its provider too.
    #[arg(value_name = "NAME")]
    name: String,
}

pub(super) fn run(context: &Context, args: &SetArgs) -> Result<Exit, Failure> {
    let before = context.settings()?;
    let name = args.name.trim();
    let (provider, model) = settings::split_model(&before, name)?;
    if model.is_empty() {
        return Err(Failure::usage("no model is named"));
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
fn refuse_to_move_key(before: &Settings, provider: &str) -> Result<(), Failure> {
    let Resolved { value, source } = before.get(&keys::MODEL_API_KEY)?;
    let KeyOwner::BuiltIn(owner) = settings::key_owner(before)? else { return Ok(()) };
    let known = Candidate::built_in();
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
    Err(Failure::new(what).advise(format!(
        "keep it as {variable} in .env instead of {name}, which goes to one provider alone"
    )))
}

fn write(context: &Context, before: &Settings, key: &str, value: &str) -> Result<(), Failure> {
    let outcome = vestal_config::set(before, key, value)?;
    context.console.note(&format!("set {} to {value} in {}", outcome.name, outcome.path.display()));
    if let Some(source) = outcome.hidden_by {
        context.console.warn(&format!("it has no effect as long as {source} says something else"));
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
    if let Some(meant) = suggest::closest(model, listed.models.iter().map(|known| &*known.id)) {
        context.console.note(&format!("did you mean {provider}:{meant}?"));
    }
}
