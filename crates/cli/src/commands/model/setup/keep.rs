//! Writes what was chosen.

use vestal_agent::settings::{self, Candidate, KeyOwner};
use vestal_config::{AnyKey as _, EnvName, Resolved, Settings, Source, keys};

use super::Answers;
use super::questions::Key;
use crate::context::Context;
use crate::error::Failure;

/// Writes what was chosen. Whatever this is stopped after, no key stands beside
/// the address of another server: a key that is somebody else's goes first, then
/// the server is named, then its own key is written.
pub(super) fn keep(
    context: &Context,
    settings: &Settings,
    answers: &Answers,
) -> Result<(), Failure> {
    let Answers { candidate, key, model } = answers;
    let place = KeyPlace::find(settings, candidate, key)?;
    if place == KeyPlace::AfterAnother {
        take_back(context, settings, candidate)?;
    }
    let set = |key: &str, value: &str| -> Result<(), Failure> {
        let outcome = vestal_config::set(settings, key, value)?;
        let told = format!("set {} to {value} in {}", outcome.name, outcome.path.display());
        context.console.note(&told);
        if let Some(source) = outcome.hidden_by {
            let told = format!("it has no effect as long as {source} says something else");
            context.console.warn(&told);
        }
        Ok(())
    };
    if !candidate.is_built_in() {
        set(keys::MODEL_BASE_URL.name(), &candidate.base_url)?;
    }
    set(keys::MODEL_PROVIDER.name(), candidate.provider)?;
    keep_key(context, settings, candidate, key, place)?;
    set(keys::MODEL_DEFAULT.name(), model)
}

/// Where the key of the chosen server is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyPlace {
    /// In the variable of the server.
    Own,
    /// In `model.api_key`, which goes before the variable of a built-in provider.
    Model,
    /// In the variable of the server, once the key of another server is out of
    /// `model.api_key`.
    AfterAnother,
}

impl KeyPlace {
    fn find(settings: &Settings, candidate: &Candidate, key: &Key) -> Result<Self, Failure> {
        let owner = settings::key_owner(settings)?;
        let Resolved { value, source } = settings.get(&keys::MODEL_API_KEY)?;
        let stays_elsewhere = candidate.is_built_in() && matches!(owner, KeyOwner::Address(_));
        match value.expose() {
            None => Ok(Self::Own),
            Some(_) if stays_elsewhere => Ok(Self::Own),
            Some(_) if candidate.may_take(&owner) => Ok(Self::Model),
            Some(own) if key.get() == Some(own) => Ok(Self::Model),
            Some(_) if matches!(source, Source::DotEnv { .. }) => Ok(Self::AfterAnother),
            Some(_) => {
                let whose = match owner {
                    KeyOwner::Address(base_url) => format!("is the key of {base_url}"),
                    KeyOwner::BuiltIn(name) => format!("is the key of {name}"),
                    KeyOwner::Nobody => "may be a key of another server".to_owned(),
                };
                let label = candidate.label();
                let name = keys::MODEL_API_KEY.name();
                let what = format!("{name} from {source} {whose}, and would be sent to {label}");
                Err(Failure::new(what).advise("take it out of there, then: vestal model setup"))
            }
        }
    }
}

/// Takes another server's key out of `.env`.
fn take_back(context: &Context, settings: &Settings, candidate: &Candidate) -> Result<(), Failure> {
    let Some(variable) = model_key_variable() else { return Ok(()) };
    let path = vestal_config::set_variable(settings, &variable, "")
        .map_err(|error| Failure::new(error.to_string()))?;
    let label = candidate.label();
    context.console.note(&format!(
        "took the key in {variable} out of {}: it is not the key of {label}",
        path.display()
    ));
    // One that it hid would be taken now.
    let Resolved { value, source } = context.settings()?.get(&keys::MODEL_API_KEY)?;
    if value.expose().is_none() {
        return Ok(());
    }
    let name = keys::MODEL_API_KEY.name();
    Err(Failure::new(format!("{name} from {source} would be sent to {label}"))
        .advise("take it out of there, then: vestal model setup"))
}

fn model_key_variable() -> Option<EnvName> {
    keys::MODEL_API_KEY.env().first().and_then(|name| EnvName::new(name))
}

/// Writes the key that was given.
fn keep_key(
    context: &Context,
    settings: &Settings,
    candidate: &Candidate,
    key: &Key,
    place: KeyPlace,
) -> Result<(), Failure> {
    let Key::New(given) = key else { return Ok(()) };
    let variable = match place {
        KeyPlace::Model => model_key_variable(),
        KeyPlace::Own | KeyPlace::AfterAnother => candidate.variable(),
    };
    let Some(variable) = variable else { return Ok(()) };
    let path = vestal_config::set_variable(settings, &variable, given)
        .map_err(|error| Failure::new(error.to_string()))?;
    let told = format!("kept the key as {variable} in {}, for you alone", path.display());
    context.console.note(&told);
    // The environment of the process goes before the file.
    if let Ok(Some(found)) = context.settings()?.variable(&variable)
        && found.value != given.as_str()
    {
        let told = format!("it has no effect as long as {} says something else", found.source);
        context.console.warn(&told);
        context.console.note(&format!("to have it taken: unset {variable}"));
    }
    Ok(())
}
