//! Reading what types of settings have in common: paths, decimals, lists of text, maps with fixed
//! names.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::names::closest;
use crate::value::{SettingInput, ValueRefusal};
use crate::yaml::YamlNode;

/// Returns the path that was given. A variable's need not be UTF-8.
pub fn path(input: SettingInput<'_>) -> Result<PathBuf, ValueRefusal> {
    let path = match input {
        SettingInput::Text(text) => PathBuf::from(text),
        SettingInput::Node(_) => PathBuf::from(input.scalar()?),
    };
    if path.as_os_str().is_empty() {
        return Err(ValueRefusal::new("is empty"));
    }
    if path.as_os_str().as_bytes().contains(&0) {
        return Err(ValueRefusal::new("contains a NUL character"));
    }
    Ok(path)
}

/// Replaces a leading `~` by the user's home, when that is known.
pub fn expand(path: &Path, user_home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~"), user_home) {
        (Ok(rest), Some(home)) if rest.as_os_str().is_empty() => home.to_owned(),
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path.to_owned(),
    }
}

/// Returns the items of a list; numbers and the like as they are written.
pub fn texts(input: SettingInput<'_>, hint: &str) -> Result<Vec<String>, ValueRefusal> {
    let hint = || Some(hint.to_owned());
    let tree = input.tree().map_err(|refusal| refusal.suggesting(hint()))?;
    let Some(items) = tree.items() else {
        let reason = format!("is {}, not a list", tree.noun());
        return Err(ValueRefusal::new(reason).suggesting(hint()));
    };
    items
        .iter()
        .map(|item| match item.scalar() {
            Some(text) if !item.is_null() => Ok(text.to_owned()),
            _ => {
                let reason = format!("holds an item that is {}, not text", item.noun());
                Err(ValueRefusal::new(reason).suggesting(hint()))
            }
        })
        .collect()
}

/// Reads a decimal number and multiplies it, rounding down.
pub fn scaled(number: &str, factor: u128) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || number.ends_with('.') {
        return None;
    }
    // More digits than this make no difference to a whole number of bytes.
    let fraction = fraction.get(..18.min(fraction.len()))?;
    let unit = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let fraction: u128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let whole: u64 = whole.parse().ok()?;
    let sum = u128::from(whole).checked_mul(factor)?.checked_add(fraction * factor / unit)?;
    u64::try_from(sum).ok()
}

/// A map whose entries have fixed names, and whose it is.
///
/// No message repeats a value: one of them may be a key in the wrong place.
pub struct Fields<'a> {
    owner: String,
    entries: Vec<(&'a str, &'a YamlNode)>,
}

impl<'a> Fields<'a> {
    /// Reads a map that may have these entries and no others, each once.
    pub fn read(node: &'a YamlNode, owner: &str, known: &[&str]) -> Result<Self, ValueRefusal> {
        let Some(entries) = node.entries() else {
            let reason = format!("gives {owner} {}, not a map", node.noun());
            return Err(ValueRefusal::new(reason).suggesting(Some(one_of(known))));
        };
        let mut fields = Self { owner: owner.to_owned(), entries: Vec::new() };
        for entry in entries {
            let Some(name) = entry.name().filter(|name| known.contains(name)) else {
                let meant = entry.name().and_then(|own| closest(own, known.iter().copied()));
                let hint = meant.map_or_else(|| one_of(known), |m| format!("did you mean {m}?"));
                let reason = format!("gives {owner} an entry that does not exist");
                return Err(ValueRefusal::new(reason).suggesting(Some(hint)));
            };
            if fields.node(name).is_some() {
                return Err(ValueRefusal::new(format!("gives {owner} the entry {name} twice")));
            }
            fields.entries.push((name, &entry.value));
        }
        Ok(fields)
    }

    fn node(&self, name: &str) -> Option<&'a YamlNode> {
        self.entries.iter().find(|(own, _)| *own == name).map(|(_, node)| *node)
    }

    /// Returns the value of an entry, unless it is absent or null.
    pub fn value<T>(
        &self,
        name: &str,
        read: impl FnOnce(&'a YamlNode) -> Result<T, ValueRefusal>,
    ) -> Result<Option<T>, ValueRefusal> {
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
    pub fn required<T>(
        &self,
        name: &str,
        read: impl FnOnce(&'a YamlNode) -> Result<T, ValueRefusal>,
    ) -> Result<T, ValueRefusal> {
        let missing = || ValueRefusal::new(format!("gives {} no {name}", self.owner));
        self.value(name, read)?.ok_or_else(missing)
    }
}

fn one_of(known: &[&str]) -> String {
    format!("its entries are {}", known.join(", "))
}
