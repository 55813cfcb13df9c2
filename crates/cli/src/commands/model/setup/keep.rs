//! Writes what was chosen.

use vestal_agent::settings::Candidate;
use vestal_config::{AnyKey as _, EnvName, Settings, keys};

use super::Answers;
use super::questions::Key;
use crate::context::Context;
use crate::error::Failure;

/// Writes what was chosen: the key first, so that what names it never stands
/// without it.
pub(super) fn keep(
    context: &Context,
    settings: &Settings,
    answers: &Answers,
) -> Result<(), Failure> {
    let Answers { candidate, key, model } = answers;
    keep_key(context, settings, candidate, key)?;
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
    set(keys::MODEL_DEFAULT.name(), model)
}

/// Writes the key that was tried, where it is not the one that would be taken.
fn keep_key(
    context: &Context,
    settings: &Settings,
    candidate: &Candidate,
    key: &Key,
) -> Result<(), Failure> {
    let (given, is_new) = match key {
        Key::None => return Ok(()),
        Key::Known(key) => (key, false),
        Key::New(key) => (key, true),
    };
    // One that the settings have for whatever model goes before those of the
    // providers, so it is the one to be replaced.
    let general = settings.get(&keys::MODEL_API_KEY)?.value;
    let general = general.expose();
    if !is_new && general.is_none_or(|general| general == given.as_str()) {
        return Ok(());
    }
    let variable = match general {
        Some(_) => keys::MODEL_API_KEY.env().first().and_then(|name| EnvName::new(name)),
        None => candidate.variable(),
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
