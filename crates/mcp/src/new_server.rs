//! A server that somebody adds to the settings.

use std::collections::BTreeMap;

use thiserror::Error;
use vestal_config::{AnyKey as _, ConfigError, Override, SettingValue, Settings};
use vestal_sandbox::settings::secrets;

use crate::keys;
use crate::settings::{McpServer, McpServerName};

/// What is known of a server before it is in the settings: an address, or a program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewMcpServer {
    /// Its address.
    pub url: Option<String>,
    /// Headers that are sent there.
    pub headers: BTreeMap<String, String>,
    /// A program with its arguments.
    pub command: Vec<String>,
    /// Variables that the program gets.
    pub env: BTreeMap<String, String>,
    /// The directory that it is started in.
    pub cwd: Option<String>,
    /// Seconds that a call may take.
    pub timeout: Option<u64>,
}

/// Why a server cannot be added.
#[derive(Debug, Error)]
pub enum NewServerError {
    /// Its name is none.
    #[error("{name:?} is not a name for a server; a name has {}", McpServerName::allowed())]
    Name {
        /// The name.
        name: String,
    },
    /// It has neither an address nor a program.
    #[error("a server needs an address or a command")]
    Nothing,
    /// It has both.
    #[error("a server has an address or a command, not both")]
    Both,
    /// A secret is written out. It is not repeated.
    #[error(
        "{what} {name} has a value that looks like a secret written out; put it into .env and refer to it: ${{NAME_OF_A_VARIABLE}}"
    )]
    Secret {
        /// `the header` or `the variable`.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// The settings would not take it.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

impl NewMcpServer {
    /// Returns what is written into config.yaml.
    pub fn entry(&self) -> Result<SettingValue, NewServerError> {
        let text = |text: &str| SettingValue::Text(text.to_owned());
        let pairs = |pairs: &BTreeMap<String, String>| {
            SettingValue::Map(
                pairs.iter().map(|(name, value)| (name.clone(), text(value))).collect(),
            )
        };
        let url = self.url.as_deref().map(str::trim).filter(|url| !url.is_empty());
        let mut fields = BTreeMap::new();
        let mut put = |name: &str, value| drop(fields.insert(name.to_owned(), value));
        match (url, self.command.split_first()) {
            (None, None) => return Err(NewServerError::Nothing),
            (Some(_), Some(_)) => return Err(NewServerError::Both),
            (Some(url), None) => {
                put("url", text(url));
                if !self.headers.is_empty() {
                    refuse_secrets("the header", &self.headers, is_key_header)?;
                    put("headers", pairs(&self.headers));
                }
            }
            (None, Some((command, args))) => {
                put("command", text(command));
                if !args.is_empty() {
                    put("args", SettingValue::List(args.iter().map(|word| text(word)).collect()));
                }
                if !self.env.is_empty() {
                    refuse_secrets("the variable", &self.env, secrets::is_secret_name)?;
                    put("env", pairs(&self.env));
                }
                if let Some(cwd) = &self.cwd {
                    put("cwd", text(cwd));
                }
            }
        }
        if let Some(seconds) = self.timeout {
            put("timeout", SettingValue::Integer(seconds));
        }
        Ok(SettingValue::Map(fields))
    }

    /// Reads an entry as the settings would.
    pub fn understood(
        settings: &Settings,
        name: &str,
        entry: &SettingValue,
    ) -> Result<(McpServerName, McpServer), NewServerError> {
        let wrong = || NewServerError::Name { name: name.to_owned() };
        let name = McpServerName::new(name.trim()).ok_or_else(wrong)?;
        let all = SettingValue::Map([(name.to_string(), entry.clone())].into());
        let key = keys::MCP_SERVERS.name();
        let given = Override::parse(settings.schema(), &format!("{key}={all}"))?;
        let (home, environment) = (settings.home().clone(), settings.environment().clone());
        let read = Settings::load(settings.schema(), home, environment, vec![given]);
        let servers = read.get(&keys::MCP_SERVERS)?.value;
        let server = servers.get(&name).cloned().ok_or(NewServerError::Nothing)?;
        Ok((name, server))
    }
}

fn refuse_secrets(
    what: &'static str,
    pairs: &BTreeMap<String, String>,
    is_secret: fn(&str) -> bool,
) -> Result<(), NewServerError> {
    let written_out = pairs.iter().find(|(name, value)| is_secret(name) && !value.contains("${"));
    match written_out {
        Some((name, _)) => Err(NewServerError::Secret { what, name: name.clone() }),
        None => Ok(()),
    }
}

/// Reports whether a header carries a key, by its name.
pub fn is_key_header(name: &str) -> bool {
    let folded = name.replace('-', "_").to_ascii_uppercase();
    ["AUTHORIZATION", "COOKIE"].contains(&folded.as_str())
        || secrets::is_secret_name(&folded)
        || ["KEY", "TOKEN", "SECRET"].iter().any(|word| folded.ends_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(url: &str, command: &[&str]) -> NewMcpServer {
        NewMcpServer {
            url: Some(url.to_owned()),
            command: command.iter().map(|word| (*word).to_owned()).collect(),
            ..NewMcpServer::default()
        }
    }

    #[test]
    fn a_server_has_an_address_or_a_program() {
        assert!(matches!(new(" ", &[]).entry(), Err(NewServerError::Nothing)));
        assert!(matches!(new("https://a", &["b"]).entry(), Err(NewServerError::Both)));
        assert_eq!(new("https://a/mcp", &[]).entry().unwrap().to_string(), "{url: https://a/mcp}");
        let program = new("", &["npx", "-y", "files"]).entry().unwrap().to_string();
        assert_eq!(program, "{args: [\"-y\", files], command: npx}");
    }

    #[test]
    fn a_secret_that_is_written_out_is_refused_and_not_repeated() {
        let with = |name: &str, value: &str| NewMcpServer {
            headers: [(name.to_owned(), value.to_owned())].into(),
            ..new("https://a/mcp", &[])
        };
        for name in ["Authorization", "X-Api-Key", "cookie"] {
            let refused = with(name, "hunter2").entry().unwrap_err().to_string();
            assert!(refused.contains(name) && !refused.contains("hunter2"), "{refused}");
        }
        assert!(with("Authorization", "Bearer ${TOKEN}").entry().is_ok());
        let env = [("GITHUB_TOKEN".to_owned(), "hunter2".to_owned())].into();
        let program = NewMcpServer { env, ..new("", &["files"]) };
        assert!(matches!(program.entry(), Err(NewServerError::Secret { .. })));
    }
}
