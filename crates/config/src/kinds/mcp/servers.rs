//! All servers.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::json;

use super::server::McpServer;
use crate::input::{Input, Refusal};
use crate::kinds::Setting;
use crate::value::Value;
use crate::yaml::NodeKind;

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

    fn read(input: Input<'_>, (): &()) -> Result<Self, Refusal> {
        let hint = || Some(r#"write it as {"NAME": {"command": "PROGRAM"}}"#.to_owned());
        let tree = input.tree().map_err(|refusal| refusal.suggesting(hint()))?;
        let NodeKind::Map { entries, .. } = &tree.kind else {
            let reason = format!("is {}, not a map", tree.noun());
            return Err(Refusal::new(reason).suggesting(hint()));
        };
        let mut servers = BTreeMap::new();
        for entry in entries {
            let name = entry.name().and_then(McpServerName::new).ok_or_else(|| {
                let allowed = format!("names are {}", McpServerName::allowed());
                Refusal::new("holds a key that is no name of a server").suggesting(Some(allowed))
            })?;
            let server = McpServer::read(name.as_str(), &entry.value)?;
            if servers.insert(name.clone(), server).is_some() {
                return Err(Refusal::new(format!("has {name} twice")));
            }
        }
        Ok(Self(servers))
    }

    fn to_value(&self) -> Value {
        let entry =
            |(name, server): (&McpServerName, &McpServer)| (name.0.clone(), server.to_value());
        Value::Map(self.0.iter().map(entry).collect())
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
