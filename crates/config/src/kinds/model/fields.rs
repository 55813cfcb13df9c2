//! Reading maps with fixed names.

use crate::input::Refusal;
use crate::suggest;
use crate::yaml::{Node, NodeKind};

/// A map whose entries have fixed names, and whose it is.
///
/// No message repeats a value: one of them may be a key in the wrong place.
pub(in crate::kinds) struct Fields<'a> {
    owner: String,
    entries: Vec<(&'a str, &'a Node)>,
}

impl<'a> Fields<'a> {
    /// Reads a map that may have these entries and no others, each once.
    pub(in crate::kinds) fn read(
        node: &'a Node,
        owner: &str,
        known: &[&str],
    ) -> Result<Self, Refusal> {
        let NodeKind::Map { entries, .. } = &node.kind else {
            let reason = format!("gives {owner} {}, not a map", node.noun());
            return Err(Refusal::new(reason).suggesting(Some(one_of(known))));
        };
        let mut fields = Self { owner: owner.to_owned(), entries: Vec::new() };
        for entry in entries {
            let Some(name) = entry.name().filter(|name| known.contains(name)) else {
                let meant =
                    entry.name().and_then(|own| suggest::closest(own, known.iter().copied()));
                let hint = meant.map_or_else(|| one_of(known), |m| format!("did you mean {m}?"));
                let reason = format!("gives {owner} an entry that does not exist");
                return Err(Refusal::new(reason).suggesting(Some(hint)));
            };
            if fields.node(name).is_some() {
                return Err(Refusal::new(format!("gives {owner} the entry {name} twice")));
            }
            fields.entries.push((name, &entry.value));
        }
        Ok(fields)
    }

    fn node(&self, name: &str) -> Option<&'a Node> {
        self.entries.iter().find(|(own, _)| *own == name).map(|(_, node)| *node)
    }

    /// Returns the value of an entry, unless it is absent or null.
    pub(in crate::kinds) fn value<T>(
        &self,
        name: &str,
        read: impl FnOnce(&'a Node) -> Result<T, Refusal>,
    ) -> Result<Option<T>, Refusal> {
        let Some(node) = self.node(name).filter(|node| !node.is_null()) else {
            return Ok(None);
        };
        read(node).map(Some).map_err(|mut refusal| {
            refusal.reason =
                format!("gives {} an entry {name} that {}", self.owner, refusal.reason);
            refusal
        })
    }

    /// Returns the value of an entry that must be there.
    pub(in crate::kinds) fn required<T>(
        &self,
        name: &str,
        read: impl FnOnce(&'a Node) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let missing = || Refusal::new(format!("gives {} no {name}", self.owner));
        self.value(name, read)?.ok_or_else(missing)
    }
}

fn one_of(known: &[&str]) -> String {
    format!("its entries are {}", known.join(", "))
}
