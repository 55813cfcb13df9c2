//! Names that were probably meant for a key that protects.
//!
//! A setting under a misspelt name has no effect, and for most keys it is enough to say so. Where the
//! key would have protected more than its default does, the sandbox would be weaker than its owner
//! believes. So whoever asks for such a key gets an error in place of a value, as from a value that is
//! wrong, unless a place that is asked earlier has the key under its right name.

use crate::error::Misspelling;
use crate::key::{AnyKey, Protection};
use crate::layers::{self, Layer, Source};
use crate::schema::Schema;
use crate::settings::Settings;
use crate::yaml::{Entry, Node, NodeKind};
use crate::{names, suggest};

#[cfg(test)]
#[path = "misspelt_tests.rs"]
mod tests;

impl Settings {
    /// Returns every name that was probably meant for a key that protects.
    pub(crate) fn misspellings(&self) -> Vec<Misspelling> {
        let protecting = self.schema.keys().filter(|key| key.protection() != Protection::None);
        protecting
            .flat_map(|key| Layer::ORDER.map(|layer| self.misspelling(layer, key)))
            .flatten()
            .collect()
    }

    /// Returns a name in one place that was probably meant for a key.
    pub(crate) fn misspelling(&self, layer: Layer, key: &dyn AnyKey) -> Option<Misspelling> {
        match layer {
            // `--set` takes no name that no key has.
            Layer::CommandLine => None,
            Layer::Environment => self.env.iter().find_map(|(name, value)| {
                let name = name.to_str().filter(|_| !value.is_empty())?;
                let from = || Source::Environment { name: name.to_owned() };
                misspelt_variable(&self.schema, key, name, from)
            }),
            Layer::DotEnv => {
                let file = self.dotenv.as_ref().ok()?;
                file.content.entries.iter().find_map(|entry| {
                    let name = Some(entry.name.as_str()).filter(|_| !entry.value().is_empty())?;
                    misspelt_variable(&self.schema, key, name, || {
                        names::line_of(file, entry.line, name)
                    })
                })
            }
            Layer::File => {
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
    from: impl FnOnce() -> Source,
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
        suggest::is_slip(&written, &variable)
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
    root: &'a Node,
) -> Option<(String, String, &'a Entry)> {
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
        let is_section = suggest::is_slip(name, section);
        let below =
            || said(&entry.value).find(|(b, _)| *b == own || is_meant(schema, section, b, own));
        let (below, _) = is_section.then(below).flatten()?;
        Some((format!("{name}.{below}"), meant(), entry))
    })
}

/// Returns the entries of a map that say something, by name.
fn said(map: &Node) -> impl Iterator<Item = (&str, &Entry)> {
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
    suggest::is_slip(name, own)
        && suggest::closest_key(&full, &schema.names())
            .is_none_or(|closest| closest.rsplit('.').next() == Some(own))
}
