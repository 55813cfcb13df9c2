//! Changing one entry of a map, or one item of a list, in `config.yaml`.

use std::cell::Cell;

use crate::error::ConfigError;
use crate::files;
use crate::key::AnyKey;
use crate::layers::{GivenValue, Override, ValueSource};
use crate::set::{SetError, SetOutcome, edit_file};
use crate::settings::{self, Settings};
use crate::value::{SettingInput, SettingValue};
use crate::yaml::{self, YamlNode};

#[cfg(test)]
#[path = "entries_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "append_tests.rs"]
mod append_tests;

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
    value: &SettingValue,
) -> Result<SetOutcome, SetError> {
    let key = settings.schema.require(name)?;
    let written = SettingValue::Map([(entry.to_owned(), value.clone())].into()).to_string();
    let given = Override::new(name, &written);
    let input = given.input();
    let invalid = |refusal| {
        let source = ValueSource::as_given();
        ConfigError::Invalid(settings::invalid(key, &GivenValue { source, input }, refusal))
    };
    // It must be right by itself, or the file would be wrong because of it.
    let alone = key.read_untyped(input).map_err(invalid)?;
    let wanted = entry_of(alone.as_ref(), entry);
    let node = match input {
        SettingInput::Node(map) => map.at(&[entry]).cloned(),
        SettingInput::Text(_) => None,
    };
    let Some(node) = node else {
        return Err(SetError::NoMap { key: key.name() });
    };
    let edit = |text: &str, path: &[&str]| yaml::set(text, &[path, &[entry]].concat(), &node);
    let is_right = |map: &YamlNode| {
        let read = key.read_untyped(SettingInput::Node(map)).ok().flatten();
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
    let is_right = |map: &YamlNode| map.at(&[entry]).is_none();
    match edit_file(settings, key, edit, is_right) {
        Ok(outcome) => Ok(removed.get().then_some(outcome)),
        // A file without the key is refused as one that does not have it afterwards.
        Err(SetError::Edit { .. }) if !removed.get() => Ok(None),
        Err(error) => Err(error),
    }
}

fn entry_of(value: Option<&SettingValue>, entry: &str) -> Option<SettingValue> {
    match value {
        Some(SettingValue::Map(entries)) => entries.get(entry).cloned(),
        _ => None,
    }
}

/// What adding to a list did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppendOutcome {
    /// Whether the item was not there before.
    pub added: bool,
    /// Where the list is, and what hides it.
    pub set: SetOutcome,
}

/// What taking out of a list did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakeOutcome {
    /// Whether the item was there.
    pub taken: bool,
    /// Where the list is, and what hides it.
    pub set: SetOutcome,
}

/// Adds an item to a list of text in the profile's `config.yaml`, unless it is
/// there already, and changes nothing else in the file: the other items,
/// comments, order and formatting stay.
///
/// Several processes may do this at once, and none loses what another added.
/// The list of the file is added to, whatever another place says about the key.
pub fn append(settings: &Settings, name: &str, item: &str) -> Result<AppendOutcome, SetError> {
    let key = settings.schema.require(name)?;
    let schema = key.schema();
    if schema["type"] != "array" || schema["items"]["type"] != "string" {
        return Err(SetError::NoList { key: key.name() });
    }
    let node = YamlNode::scalar_for(item, true);
    check(key, item, &node)?;
    let added = Cell::new(true);
    let wanted = SettingValue::Text(item.to_owned());
    let edit = |text: &str, path: &[&str]| {
        let edited = yaml::append(text, path, &node)?;
        // What is there is asked under the lock, or two could add the same.
        if items(key, text, path).contains(&wanted) {
            added.set(false);
            return Ok(text.to_owned());
        }
        Ok(edited)
    };
    let is_right = |written: &YamlNode| matches!(key.read_untyped(SettingInput::Node(written)), Ok(Some(SettingValue::List(all))) if all.contains(&wanted));
    let set = edit_file(settings, key, edit, is_right)?;
    Ok(AppendOutcome { added: added.get(), set })
}

/// Takes an item out of a list of text in the profile's `config.yaml`, and
/// returns whether it was there. Of the file nothing else changes, and what
/// other processes do to the list at the same time is not lost.
pub fn take_out(settings: &Settings, name: &str, item: &str) -> Result<TakeOutcome, SetError> {
    let key = settings.schema.require(name)?;
    let schema = key.schema();
    if schema["type"] != "array" || schema["items"]["type"] != "string" {
        return Err(SetError::NoList { key: key.name() });
    }
    let taken = Cell::new(false);
    let unwanted = SettingValue::Text(item.to_owned());
    let edit = |text: &str, path: &[&str]| {
        let there = items(key, text, path);
        if !there.contains(&unwanted) {
            return Ok(text.to_owned());
        }
        taken.set(true);
        let left = there.iter().filter(|own| **own != unwanted).filter_map(|own| match own {
            SettingValue::Text(text) => Some(YamlNode::scalar_for(text, true)),
            _ => None,
        });
        yaml::set(text, path, &YamlNode::list_of(left.collect()))
    };
    let is_right = |written: &YamlNode| matches!(key.read_untyped(SettingInput::Node(written)), Ok(Some(SettingValue::List(all))) if !all.contains(&unwanted));
    // A file that does not name it is not touched, and need not be there.
    let path = settings.home().config_file();
    let text = files::read_text(&path);
    let text = text.map_err(|problem| SetError::Read { path: path.clone(), problem })?;
    let place: Vec<&str> = key.name().split('.').collect();
    if !items(key, &text.unwrap_or_default(), &place).contains(&unwanted) {
        let set = SetOutcome { name: key.name().to_owned(), path, hidden_by: None };
        return Ok(TakeOutcome { taken: false, set });
    }
    let set = edit_file(settings, key, edit, is_right)?;
    Ok(TakeOutcome { taken: taken.get(), set })
}

/// Refuses an item that the key would not take in a list of its own.
fn check(key: &dyn AnyKey, item: &str, node: &YamlNode) -> Result<(), SetError> {
    let list = YamlNode::list_of(vec![node.clone()]);
    key.read_untyped(SettingInput::Node(&list)).map(drop).map_err(|refusal| {
        let given = GivenValue {
            source: ValueSource::as_given(),
            input: SettingInput::Text(item.as_ref()),
        };
        SetError::Config(ConfigError::Invalid(settings::invalid(key, &given, refusal)))
    })
}

/// Returns what the list in a text holds.
fn items(key: &dyn AnyKey, text: &str, path: &[&str]) -> Vec<SettingValue> {
    let root = yaml::parse(text).ok().and_then(|document| document.root);
    let list = root.as_ref().and_then(|root| root.at(path));
    match list.map(|list| key.read_untyped(SettingInput::Node(list))) {
        Some(Ok(Some(SettingValue::List(items)))) => items,
        _ => Vec::new(),
    }
}
