//! The settings in effect.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;

use serde::Serialize;

use crate::environment::Environment;
use crate::error::{ConfigError, Conflict, InvalidValue, SettingsFileError};
use crate::files::{self, ConfigFile, EnvFile};
use crate::home::Home;
use crate::key::{AnyKey, Secrecy, SettingKey};
use crate::kinds::{EnvName, Setting};
use crate::layers::{GivenValue, Override, SettingLayer, ValueSource};
use crate::schema::Schema;
use crate::value::{MASK, SettingValue, ValueRefusal};

#[cfg(test)]
#[path = "precedence_tests.rs"]
mod precedence_tests;

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;

/// A value and where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved<T> {
    /// The value.
    pub value: T,
    /// Where it came from.
    pub source: ValueSource,
}

impl<T> Resolved<T> {
    /// Reports whether the value is the default because no place sets the key. A
    /// value that is set does not count, even when it equals the default.
    pub fn is_default(&self) -> bool {
        self.source == ValueSource::Default
    }
}

/// The settings of one profile as they were when they were loaded.
///
/// Loading never fails. An error in a file or a value is returned when a key that
/// depends on it is read, and affects no other key.
pub struct Settings {
    pub(crate) schema: Schema,
    pub(crate) home: Home,
    pub(crate) env: Environment,
    pub(crate) overrides: Vec<Override>,
    pub(crate) dotenv: Result<EnvFile, Arc<SettingsFileError>>,
    pub(crate) file: Result<ConfigFile, Arc<SettingsFileError>>,
}

impl Settings {
    /// Reads the profile's files and combines them with the environment and
    /// the command line. The schema says which keys there are.
    pub fn load(schema: &Schema, home: Home, env: Environment, overrides: Vec<Override>) -> Self {
        let dotenv = files::load_dotenv(&home.env_file());
        let file = files::load_config(&home.config_file());
        Self { schema: schema.clone(), home, env, overrides, dotenv, file }
    }

    /// Reads the profile's files again, with the same environment and command line.
    #[must_use]
    pub fn reload(&self) -> Self {
        Self::load(&self.schema, self.home.clone(), self.env.clone(), self.overrides.clone())
    }

    /// Returns these settings, as they were loaded, with values that go before those of
    /// every place, the command line included.
    #[must_use]
    pub fn with_overrides(&self, values: &[Override]) -> Self {
        let key = |given: &Override| self.schema.find(&given.name).map(AnyKey::name);
        let replaced: Vec<_> = values.iter().map(key).collect();
        // Of one key under two names, both would count, and contradict each other.
        let others = self.overrides.iter().filter(|given| !replaced.contains(&key(given)));
        let overrides = others.cloned().chain(values.iter().cloned()).collect();
        Self {
            schema: self.schema.clone(),
            home: self.home.clone(),
            env: self.env.clone(),
            overrides,
            dotenv: self.dotenv.clone(),
            file: self.file.clone(),
        }
    }

    /// Returns the keys that these settings know.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Returns the home these settings belong to.
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// Returns the environment these settings were made with.
    pub fn environment(&self) -> &Environment {
        &self.env
    }

    /// Returns a key's value: the command line's, else the environment's, else
    /// that of `.env`, else that of `config.yaml`, else the default.
    ///
    /// A list or a map is taken whole from one place, never merged. A place
    /// that names the key but says nothing (an empty variable, YAML's null) is
    /// passed over.
    pub fn get<T: Setting>(&self, key: &SettingKey<T>) -> Result<Resolved<T>, ConfigError> {
        for layer in SettingLayer::ORDER {
            if let Some(found) = agreed(key, self.given(layer, key)?)? {
                return Ok(found);
            }
        }
        Ok(Resolved { value: key.default.clone(), source: ValueSource::Default })
    }

    /// Returns the value of the key with this name, or another name of it.
    /// Secrets are not masked: a caller that names the key gets the value.
    pub fn get_by_name(&self, name: &str) -> Result<Resolved<SettingValue>, ConfigError> {
        self.schema.require(name)?.resolve(self)
    }

    /// Returns the variables of `.env` with the line of each that decides it.
    pub fn file_variables(&self) -> Result<BTreeMap<EnvName, usize>, Arc<SettingsFileError>> {
        let file = self.dotenv.as_ref().map_err(Arc::clone)?;
        Ok(file.content.entries.iter().map(|entry| (entry.name.clone(), entry.line)).collect())
    }

    /// Returns a variable from the environment, else from `.env`. An empty one
    /// counts as unset.
    pub fn variable(
        &self,
        name: &EnvName,
    ) -> Result<Option<Resolved<OsString>>, Arc<SettingsFileError>> {
        let name = name.as_str();
        if let Some(value) = self.env.non_empty(name) {
            let source = ValueSource::Environment { name: name.to_owned() };
            return Ok(Some(Resolved { value: value.to_owned(), source }));
        }
        let file = self.dotenv.as_ref().map_err(Arc::clone)?;
        Ok(file.content.get(name).filter(|entry| !entry.value().is_empty()).map(|entry| {
            let (path, line) = (file.path.clone(), entry.line);
            let source = ValueSource::DotEnv { path, line, name: name.to_owned() };
            Resolved { value: entry.value().to_owned(), source }
        }))
    }
}

/// Shows which settings, not what they are: some may be secrets.
impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings").field("home", &self.home).finish_non_exhaustive()
    }
}

/// Reads what one place says under a key's several names, which must agree.
fn agreed<T: Setting>(
    key: &SettingKey<T>,
    given: Vec<GivenValue<'_>>,
) -> Result<Option<Resolved<T>>, ConfigError> {
    let mut first: Option<(T, GivenValue<'_>)> = None;
    for given in given {
        if given.input.is_unset(T::TILDE_IS_HOME) {
            continue;
        }
        let value = key.read(given.input).map_err(|refusal| invalid(key, &given, refusal))?;
        match &first {
            None => first = Some((value, given)),
            Some((agreed, _)) if *agreed == value => {}
            Some((_, other)) => {
                return Err(ConfigError::Conflict(Box::new(Conflict {
                    key: key.name,
                    first_value: shown(key, other),
                    first: other.source.clone(),
                    second_value: shown(key, &given),
                    second: given.source,
                })));
            }
        }
    }
    Ok(first.map(|(value, given)| Resolved { value, source: given.source }))
}

pub(crate) fn invalid(
    key: &dyn AnyKey,
    given: &GivenValue<'_>,
    refusal: ValueRefusal,
) -> Box<InvalidValue> {
    let value = if refusal.secret { MASK.to_owned() } else { shown(key, given) };
    Box::new(InvalidValue {
        key: key.name(),
        value,
        from: given.source.clone(),
        reason: refusal.reason,
        allowed: key.allowed(),
        suggestion: refusal.suggestion,
    })
}

fn shown(key: &dyn AnyKey, given: &GivenValue<'_>) -> String {
    match key.secrecy() {
        Secrecy::Public => given.input.shown(),
        Secrecy::Secret | Secrecy::Within(_) => MASK.to_owned(),
    }
}

/// A key and the value in effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SettingRow {
    /// The key.
    pub key: &'static str,
    /// The value, masked when secret; none when it cannot be read.
    pub value: Option<SettingValue>,
    /// Where the value came from; none when it cannot be read.
    pub source: Option<ValueSource>,
    /// Whether the value differs from the default.
    pub changed: bool,
    /// Why there is no value.
    pub error: Option<String>,
    /// What the key does.
    pub doc: &'static str,
}

impl Settings {
    /// Returns every key with the value in effect, in the order of the documentation.
    pub fn rows(&self) -> Vec<SettingRow> {
        self.schema.keys().map(|key| self.row(key)).collect()
    }

    pub(crate) fn row(&self, key: &dyn AnyKey) -> SettingRow {
        let (key_name, doc) = (key.name(), key.doc());
        match key.resolve(self) {
            Ok(resolved) => SettingRow {
                key: key_name,
                changed: resolved.value != key.default_untyped(),
                value: Some(key.secrecy().shown(resolved.value)),
                source: Some(resolved.source),
                error: None,
                doc,
            },
            Err(error) => SettingRow {
                key: key_name,
                value: None,
                source: None,
                changed: true,
                error: Some(error.to_string()),
                doc,
            },
        }
    }
}
