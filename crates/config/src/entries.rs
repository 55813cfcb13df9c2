//! Changing one entry of a map in `config.yaml`.

use std::cell::Cell;

use crate::error::ConfigError;
use crate::input::Input;
use crate::layers::Given;
use crate::overrides::Override;
use crate::set::{SetError, SetOutcome, edit_file};
use crate::settings::{self, Settings};
use crate::source::Source;
use crate::value::Value;
use crate::yaml::{self, Node};

#[cfg(test)]
#[path = "entries_tests.rs"]
mod tests;

/// Sets one entry of a key that is a map, such as one server of `mcp_servers`,
/// in the profile's `config.yaml`, and changes nothing else in it. The entry is
/// replaced if it is there.
///
/// Several processes may do this at once, and none loses what another set. The
/// map of the file is changed, whatever another place says about the key.
pub fn set_entry(
    settings: &Settings,
    name: &str,
    entry: &str,
    value: &Value,
) -> Result<SetOutcome, SetError> {
    let key = settings.schema.require(name)?;
    let written = Value::Map([(entry.to_owned(), value.clone())].into()).to_string();
    let given = Override::new(name, &written);
    let input = given.input();
    let invalid = |refusal| {
        let source = Source::as_given();
        ConfigError::Invalid(settings::invalid(key, &Given { source, input }, refusal))
    };
    // It must be right by itself, or the file would be wrong because of it.
    let alone = key.read_untyped(input).map_err(invalid)?;
    let wanted = entry_of(alone.as_ref(), entry);
    let node = match input {
        Input::Node(map) => map.at(&[entry]).cloned(),
        Input::Text(_) => None,
    };
    let Some(node) = node else {
        return Err(SetError::NoMap { key: key.name() });
    };
    let edit = |text: &str, path: &[&str]| yaml::set(text, &[path, &[entry]].concat(), &node);
    let is_right = |map: &Node| {
        let read = key.read_untyped(Input::Node(map)).ok().flatten();
        wanted.is_some() && entry_of(read.as_ref(), entry) == wanted
    };
    edit_file(settings, key, edit, is_right)
}

/// Takes one entry of a key that is a map out of the profile's `config.yaml`.
/// Returns nothing if the file has no such entry.
pub fn remove_entry(
    settings: &Settings,
    name: &str,
    entry: &str,
) -> Result<Option<SetOutcome>, SetError> {
    let key = settings.schema.require(name)?;
    let removed = Cell::new(false);
    let edit = |text: &str, path: &[&str]| {
        let edited = yaml::remove(text, &[path, &[entry]].concat())?;
        removed.set(edited.is_some());
        Ok(edited.unwrap_or_else(|| text.to_owned()))
    };
    // What is left may be wrong for other reasons; taking something out does not make it so.
    let is_right = |map: &Node| map.at(&[entry]).is_none();
    match edit_file(settings, key, edit, is_right) {
        Ok(outcome) => Ok(removed.get().then_some(outcome)),
        // A file without the key is refused as one that does not have it afterwards.
        Err(SetError::Edit { .. }) if !removed.get() => Ok(None),
        Err(error) => Err(error),
    }
}

fn entry_of(value: Option<&Value>, entry: &str) -> Option<Value> {
    match value {
        Some(Value::Map(entries)) => entries.get(entry).cloned(),
        _ => None,
    }
}
