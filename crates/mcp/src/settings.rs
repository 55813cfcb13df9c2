//! Servers as the settings name them.

mod server;

use std::collections::BTreeMap;
use std::fmt;

use serde_json::json;
use vestal_config::kind::{SettingInput, ValueRefusal, YamlNode};
use vestal_config::{Setting, SettingValue};

pub use server::{LoginSettings, McpConnection, McpServer, McpTransport};

/// Longest name of a server: the names of its tools begin with it.
const MAX_NAME: usize = 40;

/// The name of a server: letters, digits, `_`, `-` and `.`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct McpServerName(String);

impl McpServerName {
    /// Makes a name, unless it is none.
    pub fn new(name: &str) -> Option<Self> {
        let valid = (1..=MAX_NAME).contains(&name.len())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b))
            && name.bytes().any(|b| b.is_ascii_alphanumeric());
        valid.then(|| Self(name.to_owned()))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Says what a name may be.
    pub fn allowed() -> String {
        format!("letters, digits, _, - and ., up to {MAX_NAME} of them")
    }
}

impl fmt::Display for McpServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Servers of tools, in order of name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServers(BTreeMap<McpServerName, McpServer>);

impl McpServers {
    /// No servers.
    pub const EMPTY: Self = Self(BTreeMap::new());

    /// Returns names and servers.
    pub fn iter(&self) -> impl Iterator<Item = (&McpServerName, &McpServer)> {
        self.0.iter()
    }

    /// Returns the server of a name.
    pub fn get(&self, name: &McpServerName) -> Option<&McpServer> {
        self.0.get(name)
    }

    /// Reports whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Setting for McpServers {
    type Limits = ();

    fn read(input: SettingInput<'_>, (): &()) -> Result<Self, ValueRefusal> {
        let hint = || Some(r#"write it as {"NAME": {"command": "PROGRAM"}}"#.to_owned());
        let tree = input.tree().map_err(|refusal| refusal.suggesting(hint()))?;
        let Some(entries) = tree.entries() else {
            let reason = format!("is {}, not a map", tree.noun());
            return Err(ValueRefusal::new(reason).suggesting(hint()));
        };
        let mut servers = BTreeMap::new();
        for entry in entries {
            let name = entry.name().and_then(McpServerName::new).ok_or_else(|| {
                let allowed = format!("names are {}", McpServerName::allowed());
                ValueRefusal::new("holds a key that is not the name of a server")
                    .suggesting(Some(allowed))
            })?;
            let server = McpServer::read(name.as_str(), &entry.value)?;
            if servers.insert(name.clone(), server).is_some() {
                return Err(ValueRefusal::new(format!("has {name} twice")));
            }
        }
        Ok(Self(servers))
    }

    fn to_value(&self) -> SettingValue {
        let entry =
            |(name, server): (&McpServerName, &McpServer)| (name.0.clone(), server.to_value());
        SettingValue::Map(self.0.iter().map(entry).collect())
    }

    fn doubt(&self) -> Option<&'static str> {
        self.0.values().any(|server| server.has_entries_without_effect).then_some(
            "has keepalive_interval, idle_timeout_seconds or max_lifetime_seconds, which have no effect",
        )
    }

    fn allowed((): &()) -> String {
        format!("a map from names to {}", McpServer::allowed())
    }

    fn examples((): &()) -> Vec<String> {
        vec![
            r#"{"files": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/srv"]}}"#
                .to_owned(),
            r#"{"work": {"url": "https://mcp.example.com/mcp", "headers": {"Authorization": "Bearer ${WORK_TOKEN}"}}}"#
                .to_owned(),
        ]
    }

    fn schema((): &()) -> serde_json::Value {
        json!({"type": "object", "additionalProperties": McpServer::schema()})
    }
}

/// Longest value of a header.
const MAX_HEADER: usize = 16 << 10;

/// Headers by name. Their values are in no debug output: they are where keys go.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(BTreeMap<String, String>);

impl Headers {
    /// Returns names and values, in order of name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns headers, unless one of them cannot be one.
    pub fn new(headers: impl IntoIterator<Item = (String, String)>) -> Option<Self> {
        let checked = headers.into_iter().map(|(name, value)| {
            let fits = is_header_name(&name)
                && value.len() <= MAX_HEADER
                && !value.chars().any(char::is_control);
            fits.then_some((name, value))
        });
        checked.collect::<Option<_>>().map(Self)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn to_value(&self) -> SettingValue {
        let text = |value: &String| SettingValue::Text(value.clone());
        SettingValue::Map(self.0.iter().map(|(name, value)| (name.clone(), text(value))).collect())
    }

    /// Reads a map. No message repeats a value, nor a name that is none: either
    /// may be a key in the wrong place.
    pub(super) fn read(node: &YamlNode) -> Result<Self, ValueRefusal> {
        let Some(entries) = node.entries() else {
            let hint = "write it as {\"Authorization\": \"Bearer ${NAME_OF_A_VARIABLE}\"}";
            let reason = format!("is {}, not a map", node.noun());
            return Err(ValueRefusal::new(reason).suggesting(Some(hint.to_owned())));
        };
        let mut headers = BTreeMap::new();
        for entry in entries {
            let name = entry
                .name()
                .filter(|name| is_header_name(name))
                .ok_or_else(|| ValueRefusal::new("holds a key that is not the name of a header"))?;
            let value = match entry.value.scalar() {
                Some(text) if !entry.value.is_null() => text.trim(),
                _ => return Err(ValueRefusal::new(format!("gives {name} no text"))),
            };
            if value.len() > MAX_HEADER || value.chars().any(char::is_control) {
                return Err(ValueRefusal::new(format!(
                    "gives {name} a value that no header can have"
                )));
            }
            if headers.insert(name.to_owned(), value.to_owned()).is_some() {
                return Err(ValueRefusal::new(format!("has {name} twice")));
            }
        }
        Ok(Self(headers))
    }
}

/// Reports whether text can be the name of a header (RFC 9110: a token).
fn is_header_name(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

/// Shows names only.
impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
#[path = "settings/settings_tests.rs"]
mod tests;
