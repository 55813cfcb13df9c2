//! Which settings ask for isolation.

use crate::error::ConfigError;
use crate::key::Protection;
use crate::settings::{Resolved, Settings};
use crate::source::Source;

#[cfg(test)]
#[path = "isolating_tests.rs"]
mod tests;

/// A setting that asks for isolation, and where it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IsolatingSetting {
    /// The key.
    pub key: &'static str,
    /// Where its value came from.
    pub source: Source,
    /// Whether only containers have what it asks for.
    pub containers_only: bool,
}

impl std::fmt::Display for IsolatingSetting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.key, self.source)
    }
}

impl Settings {
    /// Returns the settings in effect that ask for isolation. A value that is
    /// the default asks for nothing; one that is wrong is an error.
    pub fn isolating(&self) -> Result<Vec<IsolatingSetting>, ConfigError> {
        let mut found = Vec::new();
        for key in self.schema.keys() {
            let containers_only = match key.protection() {
                Protection::None | Protection::Guards => continue,
                Protection::Isolates => false,
                Protection::IsolatesContainers => true,
            };
            let Resolved { value, source } = key.resolve(self)?;
            if value != key.default_untyped() {
                found.push(IsolatingSetting { key: key.name(), source, containers_only });
            }
        }
        Ok(found)
    }
}
