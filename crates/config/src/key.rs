//! What a declared key is.

use crate::error::ConfigError;
use crate::kinds::Setting;
use crate::layers::ValueSource;
use crate::settings::{Resolved, Settings};
use crate::value::{SettingInput, SettingValue, ValueRefusal};

/// Whether a key's values may be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secrecy {
    /// They may.
    Public,
    /// They may hold secrets and are masked wherever they are not asked for by name.
    Secret,
    /// Entries of these names may hold secrets and are masked, however deep they are; the rest
    /// may be shown.
    Within(&'static [&'static str]),
}

impl Secrecy {
    /// Returns a value as it may be shown.
    pub fn shown(self, value: SettingValue) -> SettingValue {
        match self {
            Self::Public => value,
            Self::Secret => value.masked(),
            Self::Within(names) => value.masked_within(names),
        }
    }
}

/// What a key protects when it is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protection {
    /// Nothing.
    None,
    /// Something, so that a misspelt name of it must not be passed over.
    Guards,
    /// It also asks for isolation when it is not at its default: commands are to be separated from
    /// this machine, so a sandbox without isolation is refused.
    ///
    /// Limits do not ask for isolation: they bound what a sandbox may use and separate nothing. If
    /// the settings require limits to hold, a sandbox that cannot enforce them is refused.
    Isolates,
    /// The same, and only sandboxes of this kind (in the plural: "containers") have what it asks for.
    IsolatesIn(&'static str),
}

/// Who may change a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangedBy {
    /// People and programs at this machine: it may decide how far commands are kept from it, what
    /// runs on it, or where keys are sent. Whatever nobody has thought about is one of these.
    Owner,
    /// Also clients that reach the profile over a network with nothing but a key of its gateway.
    Clients,
}

/// A declared key and everything known about it.
#[derive(Debug)]
pub struct SettingKey<T: Setting> {
    /// Its name, dotted: `terminal.timeout`.
    pub name: &'static str,
    /// Other names of it.
    pub aliases: &'static [&'static str],
    /// The variables that set it.
    pub env: &'static [&'static str],
    /// What it does.
    pub doc: &'static str,
    /// Whether its values may be shown.
    pub secrecy: Secrecy,
    /// What it protects when it is set.
    pub protection: Protection,
    /// Whether an exported profile takes it along. What a person allows and where a machine keeps
    /// things stays.
    pub travels: bool,
    /// Who may change it.
    pub changed_by: ChangedBy,
    /// What narrows its type.
    pub limits: T::Limits,
    /// The value that it has when it is not set.
    pub default: T,
}

impl<T: Setting> SettingKey<T> {
    /// Returns the default.
    pub fn default_value(&self) -> &T {
        &self.default
    }

    pub(crate) fn read(&self, input: SettingInput<'_>) -> Result<T, ValueRefusal> {
        T::read(input, &self.limits)
    }
}

/// A declared key whose type does not matter, for tables of all of them.
pub trait AnyKey: Sync {
    /// Returns the key's name, dotted: `terminal.timeout`.
    fn name(&self) -> &'static str;
    /// Returns other names of the key.
    fn aliases(&self) -> &'static [&'static str];
    /// Returns the variables that set the key.
    fn env(&self) -> &'static [&'static str];
    /// Returns what the key does.
    fn doc(&self) -> &'static str;
    /// Returns whether the key's values may be shown.
    fn secrecy(&self) -> Secrecy;
    /// Returns what the key protects when it is set.
    fn protection(&self) -> Protection;
    /// Reports whether an exported profile takes the key along.
    fn travels(&self) -> bool;
    /// Returns who may change the key. One that protects something, holds a secret or belongs to this
    /// machine is its owner's, whatever its declaration says.
    fn changed_by(&self) -> ChangedBy;
    /// Returns the default without its type.
    fn default_untyped(&self) -> SettingValue;
    /// Returns the default in words where they say more.
    fn default_text(&self) -> Option<String>;
    /// Says what is allowed.
    fn allowed(&self) -> String;
    /// Returns values that are allowed, as they may stand in a variable.
    fn examples(&self) -> Vec<String>;
    /// Returns the JSON schema of the key's values.
    fn schema(&self) -> serde_json::Value;
    /// Returns the value in effect without its type.
    fn resolve(&self, settings: &Settings) -> Result<Resolved<SettingValue>, ConfigError>;
    /// Reads a value without asking where else the key is set; none when it says nothing.
    #[doc(hidden)]
    fn read_untyped(&self, input: SettingInput<'_>) -> Result<Option<SettingValue>, ValueRefusal>;
    /// Says what is wrong with a value that is taken all the same.
    #[doc(hidden)]
    fn doubt(&self, input: SettingInput<'_>) -> Option<ValueRefusal>;
}

impl<T: Setting> AnyKey for SettingKey<T> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn aliases(&self) -> &'static [&'static str] {
        self.aliases
    }

    fn env(&self) -> &'static [&'static str] {
        self.env
    }

    fn doc(&self) -> &'static str {
        self.doc.trim_start()
    }

    fn secrecy(&self) -> Secrecy {
        self.secrecy
    }

    fn protection(&self) -> Protection {
        self.protection
    }

    fn travels(&self) -> bool {
        self.travels
    }

    fn changed_by(&self) -> ChangedBy {
        let is_harmless =
            self.protection == Protection::None && self.secrecy == Secrecy::Public && self.travels;
        if is_harmless { self.changed_by } else { ChangedBy::Owner }
    }

    fn default_untyped(&self) -> SettingValue {
        self.default.to_value()
    }

    fn default_text(&self) -> Option<String> {
        self.default.in_words()
    }

    fn allowed(&self) -> String {
        T::allowed(&self.limits)
    }

    fn examples(&self) -> Vec<String> {
        T::examples(&self.limits)
    }

    fn schema(&self) -> serde_json::Value {
        T::schema(&self.limits)
    }

    fn resolve(&self, settings: &Settings) -> Result<Resolved<SettingValue>, ConfigError> {
        let Resolved { value, source } = settings.get(self)?;
        Ok(Resolved { value: value.to_value(), source })
    }

    fn read_untyped(&self, input: SettingInput<'_>) -> Result<Option<SettingValue>, ValueRefusal> {
        if input.is_unset(T::TILDE_IS_HOME) {
            return Ok(None);
        }
        self.read(input).map(|value| Some(value.to_value()))
    }

    fn doubt(&self, input: SettingInput<'_>) -> Option<ValueRefusal> {
        if input.is_unset(T::TILDE_IS_HOME) {
            return None;
        }
        self.read(input).ok()?.doubt().map(ValueRefusal::new)
    }
}

/// A setting that asks for isolation, and where it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IsolatingSetting {
    /// The key.
    pub key: &'static str,
    /// Where its value came from.
    pub source: ValueSource,
    /// The kind of sandboxes that alone has what it asks for, in the plural.
    pub only_in: Option<&'static str>,
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
            let only_in = match key.protection() {
                Protection::None | Protection::Guards => continue,
                Protection::Isolates => None,
                Protection::IsolatesIn(kind) => Some(kind),
            };
            let Resolved { value, source } = key.resolve(self)?;
            if value != key.default_untyped() {
                found.push(IsolatingSetting { key: key.name(), source, only_in });
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestHome;

    fn isolating(sets: &[&str]) -> Vec<String> {
        let found = TestHome::new().settings(&[], sets).isolating().expect("right values");
        found.into_iter().map(|setting| setting.to_string()).collect()
    }

    #[test]
    fn a_setting_that_is_not_the_default_asks_for_isolation_and_says_where_it_was_made() {
        let cases = [
            "terminal.docker_extra_args=[\"--cap-drop=ALL\"]",
            "terminal.docker_image=debian:12",
            "terminal.docker_network=false",
            "terminal.native_rootfs=/srv/root",
        ];
        for set in cases {
            let (key, _) = set.split_once('=').expect("an assignment");
            assert_eq!(isolating(&[set]), [format!("{key} (--set {key})")]);
        }
        let isolates =
            |key: &&dyn AnyKey| !matches!(key.protection(), Protection::None | Protection::Guards);
        let mut all: Vec<&str> =
            crate::schema().keys().filter(isolates).map(AnyKey::name).collect();
        all.sort_unstable();
        let tried = cases.map(|set| set.split_once('=').expect("an assignment").0);
        assert_eq!(all, tried, "every key that isolates is tried");
    }

    #[test]
    fn defaults_and_limits_ask_for_no_isolation() {
        let sets = [
            "terminal.docker_network=true",
            "terminal.container_memory=512",
            "terminal.docker_extra_args=[]",
        ];
        assert_eq!(isolating(&sets), [""; 0]);
    }

    #[test]
    fn a_wrong_value_that_would_isolate_is_an_error() {
        let wrong = "terminal.docker_extra_args=[\" \"]";
        TestHome::new().settings(&[], &[wrong]).isolating().expect_err(wrong);
    }

    #[test]
    fn a_key_that_protects_something_is_its_owners_whatever_it_declares() {
        let harmless = SettingKey {
            name: "bakery.ovens",
            aliases: &[],
            env: &[],
            doc: "",
            secrecy: Secrecy::Public,
            protection: Protection::None,
            travels: true,
            changed_by: ChangedBy::Clients,
            limits: (),
            default: false,
        };
        assert_eq!(AnyKey::changed_by(&harmless), ChangedBy::Clients);
        let owned = [
            SettingKey { protection: Protection::Guards, ..harmless },
            SettingKey { secrecy: Secrecy::Secret, ..harmless },
            SettingKey { travels: false, ..harmless },
            SettingKey { changed_by: ChangedBy::Owner, ..harmless },
        ];
        for key in owned {
            assert_eq!(AnyKey::changed_by(&key), ChangedBy::Owner, "{key:?}");
        }
    }

    #[test]
    fn a_setting_that_one_kind_of_sandboxes_has_says_which() {
        let sets =
            ["terminal.docker_extra_args=[\"--cap-drop=ALL\"]", "terminal.docker_network=no"];
        let found = TestHome::new().settings(&[], &sets).isolating().expect("right values");
        let only: Vec<_> =
            found.into_iter().map(|setting| (setting.key, setting.only_in)).collect();
        assert_eq!(
            only,
            [("terminal.docker_network", None), ("terminal.docker_extra_args", Some("containers"))]
        );
    }
}
