//! The secrets that this process knows, to be kept out of what it shows.

use crate::keys;
use crate::kinds::McpConnection;
use crate::secrets;
use crate::settings::Settings;

#[cfg(test)]
#[path = "known_secrets_tests.rs"]
mod tests;

/// Shorter values are words that text is full of.
const SHORTEST: usize = 6;

impl Settings {
    /// Returns the values of all secrets at hand: variables of the environment
    /// and of `.env` that are secrets by their name, and the keys of model
    /// providers wherever they are set. Addresses are none.
    ///
    /// Places that cannot be read have none; whoever needs them is told why.
    pub fn known_secrets(&self) -> Vec<String> {
        let providers = self.get(&keys::PROVIDERS).map(|found| found.value).ok();
        let providers = || providers.iter().flat_map(crate::Providers::iter);
        let is_secret = |name: &str| {
            let holds_a_key = |own: &crate::EnvName| own.as_str() == name;
            secrets::is_secret_name(name)
                || providers().any(|(_, own)| own.api_key_env.as_ref().is_some_and(holds_a_key))
        };
        let mut found: Vec<String> = Vec::new();
        for (name, value) in self.env.iter() {
            if is_secret(&name.to_string_lossy()) {
                found.push(value.to_string_lossy().into_owned());
            }
        }
        if let Ok(file) = &self.dotenv {
            for entry in &file.content.entries {
                if is_secret(entry.name.as_str()) {
                    found.push(entry.value().to_string_lossy().into_owned());
                }
            }
        }
        found.extend(providers().filter_map(|(_, own)| own.api_key.expose()).map(str::to_owned));
        if let Ok(own) = self.get(&keys::MODEL_API_KEY) {
            found.extend(own.value.expose().map(str::to_owned));
        }
        found.extend(self.secrets_of_servers());
        found.retain(|value| value.len() >= SHORTEST && !is_plain_address(value));
        found.sort();
        found.dedup();
        found
    }
}

impl Settings {
    /// Returns what servers of tools are started and asked with that is secret:
    /// values of headers, variables that are secrets by their name, and what
    /// either refers to.
    fn secrets_of_servers(&self) -> Vec<String> {
        let servers = self.get(&keys::MCP_SERVERS).map(|found| found.value).ok();
        let mut found = Vec::new();
        for (_, server) in servers.iter().flat_map(crate::McpServers::iter) {
            let values: Vec<&str> = match &server.connection {
                McpConnection::Address { headers, .. } => {
                    headers.iter().map(|(_, value)| value).collect()
                }
                McpConnection::Program { env, .. } => env
                    .iter()
                    .filter(|(name, _)| secrets::is_secret_name(name.as_str()))
                    .map(|(_, value)| value)
                    .collect(),
            };
            for value in values {
                found.extend(self.referred_values(value));
                // `Bearer KEY` is a word that everybody knows and one that nobody should.
                let written = value.rsplit(' ').next().unwrap_or(value);
                if !written.contains('$') {
                    found.push(written.to_owned());
                }
            }
        }
        found
    }
}

/// Reports whether a value is an address without a password in it.
fn is_plain_address(value: &str) -> bool {
    ["http://", "https://"]
        .iter()
        .any(|scheme| value.strip_prefix(scheme).is_some_and(|rest| !rest.contains('@')))
}
