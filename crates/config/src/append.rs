//! Adding to a list in `config.yaml`.

use std::cell::Cell;

use crate::error::ConfigError;
use crate::input::Input;
use crate::key::AnyKey;
use crate::layers::Given;
use crate::overrides::require_key;
use crate::set::{SetError, SetOutcome, edit_file};
use crate::settings::{self, Settings};
use crate::source::Source;
use crate::value::Value;
use crate::yaml::{self, Node};

#[cfg(test)]
#[path = "append_tests.rs"]
mod tests;

/// What adding to a list did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppendOutcome {
    /// Whether the item was not there before.
    pub added: bool,
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
    let key = require_key(name)?;
    let schema = key.schema();
    if schema["type"] != "array" || schema["items"]["type"] != "string" {
        return Err(SetError::NoList { key: key.name() });
    }
    let node = Node::scalar_for(item, true);
    check(key, name, item, &node)?;
    let added = Cell::new(true);
    let wanted = Value::Text(item.to_owned());
    let edit = |text: &str, path: &[&str]| {
        let edited = yaml::append(text, path, &node)?;
        // What is there is asked under the lock, or two could add the same.
        if items(key, text, path).contains(&wanted) {
            added.set(false);
            return Ok(text.to_owned());
        }
        Ok(edited)
    };
    let is_right = |written: &Node| matches!(key.read_untyped(Input::Node(written)), Ok(Some(Value::List(all))) if all.contains(&wanted));
    let set = edit_file(settings, key, edit, is_right)?;
    Ok(AppendOutcome { added: added.get(), set })
}

/// Refuses an item that the key would not take in a list of its own.
fn check(key: &dyn AnyKey, name: &str, item: &str, node: &Node) -> Result<(), SetError> {
    let list = Node::list_of(vec![node.clone()]);
    key.read_untyped(Input::Node(&list)).map(drop).map_err(|refusal| {
        let source = Source::CommandLine { key: name.to_owned() };
        let given = Given { source, input: Input::Text(item.as_ref()) };
        SetError::Config(ConfigError::Invalid(settings::invalid(key, &given, refusal)))
    })
}

/// Returns what the list in a text holds.
fn items(key: &dyn AnyKey, text: &str, path: &[&str]) -> Vec<Value> {
    let root = yaml::parse(text).ok().and_then(|document| document.root);
    let list = root.as_ref().and_then(|root| root.at(path));
    match list.map(|list| key.read_untyped(Input::Node(list))) {
        Some(Ok(Some(Value::List(items)))) => items,
        _ => Vec::new(),
    }
}
