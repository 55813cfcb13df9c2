//! Names of variables, variables with their values, and keys and tokens.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::json;

use super::Setting;
use crate::value::{MASK, SettingInput, SettingValue, ValueRefusal};
use crate::yaml::{MapEntry, YamlNode};

const NAME_PATTERN: &str = "^[A-Za-z_][A-Za-z0-9_]*$";
const NAME_IN_WORDS: &str = "a letter or _ followed by letters, digits and _";

/// A name that every shell takes for a variable.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EnvName(String);

impl EnvName {
    /// Makes a name, unless no shell would take it.
    pub fn new(name: &str) -> Option<Self> {
        let first = name.chars().next()?;
        let valid = (first.is_ascii_alphabetic() || first == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        valid.then(|| Self(name.to_owned()))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EnvName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn name(node: &YamlNode) -> Result<EnvName, ValueRefusal> {
    let text = SettingInput::Node(node).scalar().map_err(|_| {
        ValueRefusal::new(format!("holds {} where the name of a variable is expected", node.noun()))
    })?;
    EnvName::new(text).ok_or_else(|| {
        ValueRefusal::new(format!("holds {text:?}, which is not the name of a variable"))
    })
}

/// Names of variables, each once, in the order given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvNames(Vec<EnvName>);

impl EnvNames {
    /// No names.
    pub const EMPTY: Self = Self(Vec::new());

    /// Returns the names.
    pub fn iter(&self) -> impl Iterator<Item = &EnvName> {
        self.0.iter()
    }

    /// Reports whether a name is among them.
    pub fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|own| own.as_str() == name)
    }
}

impl FromIterator<EnvName> for EnvNames {
    fn from_iter<I: IntoIterator<Item = EnvName>>(names: I) -> Self {
        let mut unique = Vec::new();
        for name in names {
            if !unique.contains(&name) {
                unique.push(name);
            }
        }
        Self(unique)
    }
}

impl Setting for EnvNames {
    type Limits = ();

    fn read(input: SettingInput<'_>, (): &()) -> Result<Self, ValueRefusal> {
        let hint = || Some("write it as [\"NAME\", \"OTHER\"]".to_owned());
        let tree = input.tree().map_err(|refusal| refusal.suggesting(hint()))?;
        let Some(items) = tree.items() else {
            let reason = format!("is {}, not a list", tree.noun());
            return Err(ValueRefusal::new(reason).suggesting(hint()));
        };
        items.iter().map(name).collect()
    }

    fn to_value(&self) -> SettingValue {
        SettingValue::List(self.0.iter().map(|name| SettingValue::Text(name.0.clone())).collect())
    }

    fn allowed((): &()) -> String {
        format!("a list of names of variables ({NAME_IN_WORDS})")
    }

    fn examples((): &()) -> Vec<String> {
        vec![r#"["GH_TOKEN"]"#.to_owned(), r#"["GH_TOKEN", "NPM_TOKEN"]"#.to_owned()]
    }

    fn schema((): &()) -> serde_json::Value {
        json!({"type": "array", "items": {"type": "string", "pattern": NAME_PATTERN}})
    }
}

/// Variables with their values, in order of name.
#[derive(Clone, PartialEq, Eq)]
pub struct EnvPairs(BTreeMap<EnvName, String>);

impl EnvPairs {
    /// No variables.
    pub const EMPTY: Self = Self(BTreeMap::new());

    /// Returns names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&EnvName, &str)> {
        self.0.iter().map(|(name, value)| (name, value.as_str()))
    }
}

impl FromIterator<(EnvName, String)> for EnvPairs {
    fn from_iter<I: IntoIterator<Item = (EnvName, String)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

/// Shows names only: the values may be secrets.
impl fmt::Debug for EnvPairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Reads one pair. No message repeats the value, which may be a secret.
fn pair(entry: &MapEntry) -> Result<(EnvName, String), ValueRefusal> {
    // Not even a wrong name is repeated: `{secret}` is a map with that name.
    let name = entry
        .name()
        .and_then(EnvName::new)
        .ok_or_else(|| ValueRefusal::new("holds a key that is not the name of a variable"))?;
    let value = match entry.value.scalar() {
        Some(_) if entry.value.is_null() => "",
        Some(text) => text,
        None => {
            let noun = entry.value.noun();
            return Err(ValueRefusal::new(format!("gives {name} {noun}, not a single value")));
        }
    };
    if value.contains('\0') {
        return Err(ValueRefusal::new(format!("gives {name} a value with a NUL character")));
    }
    Ok((name, value.to_owned()))
}

impl Setting for EnvPairs {
    type Limits = ();

    fn read(input: SettingInput<'_>, (): &()) -> Result<Self, ValueRefusal> {
        let hint = || Some("write it as {\"NAME\": \"value\"}".to_owned());
        let tree = input.tree().map_err(|refusal| refusal.suggesting(hint()))?;
        let Some(entries) = tree.entries() else {
            let reason = format!("is {}, not a map", tree.noun());
            return Err(ValueRefusal::new(reason).suggesting(hint()));
        };
        let mut pairs = BTreeMap::new();
        for entry in entries {
            let (name, value) = pair(entry)?;
            if let Some(twice) = pairs.insert(name.clone(), value) {
                drop(twice);
                return Err(ValueRefusal::new(format!("gives {name} twice")));
            }
        }
        Ok(Self(pairs))
    }

    fn to_value(&self) -> SettingValue {
        let text = |value: &String| SettingValue::Text(value.clone());
        SettingValue::Map(
            self.0.iter().map(|(name, value)| (name.0.clone(), text(value))).collect(),
        )
    }

    fn allowed((): &()) -> String {
        format!("a map from names of variables ({NAME_IN_WORDS}) to text")
    }

    fn examples((): &()) -> Vec<String> {
        vec![r#"{"LANG": "C.UTF-8"}"#.to_owned(), r#"{"CI": "1", "LANG": "C"}"#.to_owned()]
    }

    fn schema((): &()) -> serde_json::Value {
        json!({
            "type": "object",
            "propertyNames": {"pattern": NAME_PATTERN},
            "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
        })
    }
}

/// The longest secret; keys of providers are far shorter.
const MAX_BYTES: usize = 16 << 10;

/// A key or a token; empty means none. It is in no debug output.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretText(String);

impl SecretText {
    /// No secret.
    pub const EMPTY: Self = Self(String::new());

    /// Makes a secret of text as it stands in a variable. A key goes into the
    /// header of a request, so it is printable ASCII without blanks.
    pub fn new(text: &str) -> Result<Self, &'static str> {
        let text = text.trim();
        if text.len() > MAX_BYTES {
            return Err("is too long for a key");
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("contains characters that no key has");
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns the secret itself, or none when there is none.
    pub fn expose(&self) -> Option<&str> {
        (!self.0.is_empty()).then_some(self.0.as_str())
    }
}

/// Shows whether there is one, never what it is.
impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "SecretText(none)" } else { MASK })
    }
}

impl Setting for SecretText {
    type Limits = ();

    fn read(input: SettingInput<'_>, (): &()) -> Result<Self, ValueRefusal> {
        Self::new(input.scalar()?).map_err(|reason| ValueRefusal::new(reason).about_a_secret())
    }

    fn to_value(&self) -> SettingValue {
        SettingValue::Text(self.0.clone())
    }

    fn in_words(&self) -> Option<String> {
        self.0.is_empty().then(|| "none".to_owned())
    }

    fn allowed((): &()) -> String {
        "a key: printable characters without blanks".to_owned()
    }

    fn examples((): &()) -> Vec<String> {
        vec!["sk-first-example".to_owned(), "sk-second-example".to_owned()]
    }

    fn schema((): &()) -> serde_json::Value {
        json!({"type": "string"})
    }
}
