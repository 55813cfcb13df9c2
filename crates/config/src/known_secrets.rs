//! The secrets that this process knows, to be kept out of what it shows.

use crate::settings::Settings;

#[cfg(test)]
#[path = "known_secrets_tests.rs"]
mod tests;

/// Shorter values are words that text is full of.
const SHORTEST: usize = 6;

impl Settings {
    /// Returns the values of all secrets at hand: variables of the environment
    /// and of `.env` that are secrets by their name or because a setting says so,
    /// and what the groups of the schema know. Addresses are none.
    ///
    /// Places that cannot be read have none; whoever needs them is told why.
    pub fn known_secrets(&self) -> Vec<String> {
        let named = self.secret_variables().unwrap_or_default();
        let is_secret = |name: &str| {
            self.schema.is_secret(name) || named.iter().any(|own| own.as_str() == name)
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
        found.extend(self.schema.groups().flat_map(|group| (group.secrets)(self)));
        found.retain(|value| value.len() >= SHORTEST && !is_plain_address(value));
        found.sort();
        found.dedup();
        found
    }
}

/// Reports whether a value is an address without a password in it.
fn is_plain_address(value: &str) -> bool {
    ["http://", "https://"]
        .iter()
        .any(|scheme| value.strip_prefix(scheme).is_some_and(|rest| !rest.contains('@')))
}
