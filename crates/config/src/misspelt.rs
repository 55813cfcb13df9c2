//! Misspelt names: which name was probably meant, and names that were probably meant for a key that
//! protects.
//!
//! A setting under a misspelt name has no effect, and for most keys a warning is enough. Where the
//! key would have protected more than its default does, the sandbox would be weaker than its owner
//! believes. So reading such a key returns an error, as for a wrong value, unless a place of higher
//! precedence has the key under its right name.

#[cfg(test)]
#[path = "misspelt_tests.rs"]
mod tests;

use crate::error::Misspelling;
use crate::key::{AnyKey, Protection};
use crate::layers::{self, SettingLayer, ValueSource};
use crate::names;
use crate::schema::Schema;
use crate::settings::Settings;
use crate::yaml::{MapEntry, NodeKind, YamlNode};

impl Settings {
    /// Returns every name that was probably meant for a key that protects.
    pub(crate) fn misspellings(&self) -> Vec<Misspelling> {
        let protecting = self.schema.keys().filter(|key| key.protection() != Protection::None);
        protecting
            .flat_map(|key| SettingLayer::ORDER.map(|layer| self.misspelling(layer, key)))
            .flatten()
            .collect()
    }

    /// Returns a name in one place that was probably meant for a key.
    pub(crate) fn misspelling(&self, layer: SettingLayer, key: &dyn AnyKey) -> Option<Misspelling> {
        match layer {
            // `--set` takes no name that no key has.
            SettingLayer::CommandLine => None,
            SettingLayer::Environment => self.env.iter().find_map(|(name, value)| {
                let name = name.to_str().filter(|_| !value.is_empty())?;
                let from = || ValueSource::Environment { name: name.to_owned() };
                misspelt_variable(&self.schema, key, name, from)
            }),
            SettingLayer::DotEnv => {
                let file = self.dotenv.as_ref().ok()?;
                file.content.entries.iter().find_map(|entry| {
                    let name = Some(entry.name.as_str()).filter(|_| !entry.value().is_empty())?;
                    misspelt_variable(&self.schema, key, name, || {
                        names::line_of(file, entry.line, name)
                    })
                })
            }
            SettingLayer::File => {
                let file = self.file.as_ref().ok()?;
                let (written, hint, entry) =
                    misspelt_entry(&self.schema, key, file.root.as_ref()?)?;
                let from = layers::at(&file.path, &entry.key);
                Some(Misspelling { key: key.name(), written, hint, from })
            }
        }
    }
}

fn misspelt_variable(
    schema: &Schema,
    key: &dyn AnyKey,
    name: &str,
    from: impl FnOnce() -> ValueSource,
) -> Option<Misspelling> {
    if !schema.is_ours(name) || schema.is_known(name) || schema.is_reserved_variable(name) {
        return None;
    }
    // What all names share says nothing about how alike two of them are.
    let own = |name: &str| name.split_once('_').map(|(_, own)| own.to_owned());
    let written = own(name)?;
    let meant = key.env().iter().find(|variable| {
        let Some(variable) = own(variable).map(|own| own.to_ascii_lowercase()) else {
            return false;
        };
        is_slip(&written, &variable)
            || schema.without_prefix(&variable).is_some_and(|own| written.eq_ignore_ascii_case(own))
    })?;
    let hint = format!("did you mean {meant}?");
    Some(Misspelling { key: key.name(), written: name.to_owned(), hint, from: from() })
}

/// Returns an entry of `config.yaml` that was probably meant for a key: as it is written, what to
/// write instead, and where it is.
fn misspelt_entry<'a>(
    schema: &Schema,
    key: &dyn AnyKey,
    root: &'a YamlNode,
) -> Option<(String, String, &'a MapEntry)> {
    let (section, own) = key.name().rsplit_once('.')?;
    let meant = || format!("did you mean {}?", key.name());
    said(root).find_map(|(name, entry)| {
        if name == key.name() {
            let hint = format!("write {own} below {section}:");
            return Some((name.to_owned(), hint, entry));
        }
        if name == section {
            let (below, misspelt) =
                said(&entry.value).find(|(below, _)| is_meant(schema, section, below, own))?;
            return Some((format!("{section}.{below}"), meant(), misspelt));
        }
        if schema.find(name).is_some() || schema.is_section(name) || schema.is_reserved(name) {
            return None;
        }
        // A setting that stands outside its section, or in one that is misspelt.
        if name == own || is_meant(schema, section, name, own) {
            return Some((name.to_owned(), meant(), entry));
        }
        let is_section = is_slip(name, section);
        let below =
            || said(&entry.value).find(|(b, _)| *b == own || is_meant(schema, section, b, own));
        let (below, _) = is_section.then(below).flatten()?;
        Some((format!("{name}.{below}"), meant(), entry))
    })
}

/// Returns the entries of a map that say something, by name.
fn said(map: &YamlNode) -> impl Iterator<Item = (&str, &MapEntry)> {
    let entries = match &map.kind {
        NodeKind::Map { entries, .. } => entries.as_slice(),
        _ => &[],
    };
    let said = entries.iter().filter(|entry| !entry.value.is_null());
    said.filter_map(|entry| Some((entry.name()?, entry)))
}

/// Reports whether a name that no key of a section has is a slip of one that it has, and of no other.
fn is_meant(schema: &Schema, section: &str, name: &str, own: &str) -> bool {
    let full = format!("{section}.{name}");
    if schema.find(&full).is_some() || schema.is_reserved(&full) {
        return false;
    }
    if schema.without_prefix(own) == Some(name) {
        return true;
    }
    is_slip(name, own)
        && closest_key(&full, &schema.names())
            .is_none_or(|closest| closest.rsplit('.').next() == Some(own))
}

/// Returns the candidate a mistyped name most likely meant.
pub fn closest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_ascii_lowercase();
    // A name of hundreds of characters is not a typing mistake, and comparing is quadratic.
    if name.len() > 128 {
        return None;
    }
    candidates
        .into_iter()
        .map(|candidate| (distance(&name, &candidate.to_ascii_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= tolerance(&name, candidate))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Reports whether a name is so near another that it was hardly meant for anything else: stricter
/// than [`closest`] is for a hint, for short names have many neighbours.
pub(crate) fn is_slip(name: &str, meant: &str) -> bool {
    let (name, meant) = (name.to_ascii_lowercase(), meant.to_ascii_lowercase());
    // Of a short name a letter too many, one that is missing, or two in the wrong order: another
    // letter in place of one makes another word.
    let slips = if meant.len() < 4 { 1 } else { (meant.len() / 4).min(3) };
    if name.len() > meant.len() + slips || distance(&name, &meant) > slips {
        return false;
    }
    let letters = |text: &str| {
        let mut letters: Vec<char> = text.chars().collect();
        letters.sort_unstable();
        letters
    };
    meant.len() >= 4 || name.len() != meant.len() || letters(&name) == letters(&meant)
}

fn distance(a: &str, b: &str) -> usize {
    strsim::damerau_levenshtein(a, b)
}

fn tolerance(name: &str, candidate: &str) -> usize {
    (name.len().min(candidate.len()) / 4).clamp(1, 3)
}

/// Returns the known key a name most likely meant: a misspelt one, or one of
/// another section (`timeout` or `agent.timeout` for `terminal.timeout`), or a
/// map of which the name is an entry.
pub(crate) fn closest_key(name: &str, known: &[&'static str]) -> Option<&'static str> {
    let last = |key: &'static str| key.rsplit('.').next().unwrap_or(key);
    let own = name.rsplit('.').next().unwrap_or(name);
    let is_below =
        |name: &str, key: &str| name.strip_prefix(key).is_some_and(|rest| rest.starts_with('.'));
    // A section that is also a key is no map of which the name could be an entry.
    let is_map = |key: &&'static str| !known.iter().any(|other| is_below(other, key));
    let parent = known.iter().copied().filter(is_map).find(|key| is_below(name, key));
    parent.or_else(|| closest(name, known.iter().copied())).or_else(|| {
        let lasts = known.iter().copied().map(last);
        let found = closest(own, lasts)?;
        known.iter().copied().find(|key| last(key) == found)
    })
}
