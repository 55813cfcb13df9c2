//! The schema: which keys there are, and what their owners know about them.
//!
//! A crate that owns settings declares them with [`keys!`](crate::keys!) and puts them into a
//! [`Group`]. A program puts the groups of everything it is made of into one [`Schema`] and hands it
//! to [`Settings::load`]. Checking of names, `config show`, `config set`, the documentation and the
//! JSON schema follow from it.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::check::SettingFinding;
use crate::environment::{VARIABLES, Variable, VariableScope};
use crate::error::ConfigError;
use crate::key::AnyKey;
use crate::kinds::EnvName;
use crate::names;
use crate::settings::Settings;

/// Declares keys, and `KEYS`, the list of them in the order in which they are documented. The doc
/// comment of a key is the text that users read.
///
/// ```
/// use vestal_config::{Count, Range};
///
/// vestal_config::keys! {
///     /// Ovens that may be lit at a time.
///     OVENS: Count = "bakery.ovens" {
///         default: Count::new(2),
///         limits: Range { min: 1, max: 10 },
///         env: ["VESTAL_OVENS"],
///     }
/// }
///
/// assert_eq!(KEYS.len(), 1);
/// ```
#[macro_export]
macro_rules! keys {
    ($(
        $(#[doc = $doc:literal])+
        $id:ident: $kind:ty = $name:literal {
            default: $default:expr,
            limits: $limits:expr,
            env: $env:expr,
            $(aliases: $aliases:expr,)?
            $(secrecy: $secrecy:expr,)?
            $(protection: $protection:expr,)?
            $(travels: $travels:expr,)?
            $(changed_by: $changed_by:expr,)?
        }
    )+) => {
        $(
            $(#[doc = $doc])+
            pub static $id: $crate::SettingKey<$kind> = $crate::SettingKey {
                name: $name,
                aliases: &$crate::keys!(@or [] $(, $aliases)?),
                env: &$env,
                doc: concat!($($doc),+),
                secrecy: $crate::keys!(@or $crate::Secrecy::Public $(, $secrecy)?),
                protection: $crate::keys!(@or $crate::Protection::None $(, $protection)?),
                travels: $crate::keys!(@or true $(, $travels)?),
                changed_by: $crate::keys!(@or $crate::ChangedBy::Owner $(, $changed_by)?),
                limits: $limits,
                default: $default,
            };
        )+

        /// The keys of this group, in the order in which they are documented.
        pub(crate) static KEYS: &[&dyn $crate::AnyKey] = &[$(&$id),+];
    };
    (@or $default:expr) => { $default };
    (@or $default:expr, $given:expr) => { $given };
}

/// The settings of one owner: its keys, and what applies to several of them.
///
/// ```
/// use vestal_config::{Group, Schema};
///
/// static GROUP: Group = Group { reserved: &["bakery.delivery"], ..Group::of(&[]) };
/// let schema = Schema::new([&GROUP]);
/// assert!(schema.find("bakery.delivery").is_none());
/// ```
pub struct Group {
    /// The keys, in the order in which they are documented.
    pub keys: &'static [&'static dyn AnyKey],
    /// Variables that are documented and are no settings.
    pub variables: &'static [Variable],
    /// Names of keys and sections that later versions will know. They are not taken for mistakes.
    pub reserved: &'static [&'static str],
    /// Words in front of the last part of a key's name that are easily left out: `docker_`.
    pub prefixes: &'static [&'static str],
    /// Directories in the home of all profiles that the owner keeps work in. Sandboxes may mount
    /// what is in them, and nothing else of the home.
    pub work_dirs: &'static [&'static str],
    /// Markdown at the end of the generated documentation.
    pub notes: &'static str,
    /// Finds what is wrong with values that are right each by itself.
    pub check: fn(&Settings) -> Vec<SettingFinding>,
    /// Reports whether a variable holds a secret, by its name.
    pub is_secret: fn(&str) -> bool,
    /// Returns the variables that hold secrets because a setting says so.
    pub secret_variables: fn(&Settings) -> Result<Vec<EnvName>, ConfigError>,
    /// Returns the secrets that the values of these keys hold.
    pub secrets: fn(&Settings) -> Vec<String>,
}

impl Group {
    /// Makes a group of keys about which there is nothing else to know.
    pub const fn of(keys: &'static [&'static dyn AnyKey]) -> Self {
        Self {
            keys,
            variables: &[],
            reserved: &[],
            prefixes: &[],
            work_dirs: &[],
            notes: "",
            check: |_| Vec::new(),
            is_secret: |_| false,
            secret_variables: |_| Ok(Vec::new()),
            secrets: |_| Vec::new(),
        }
    }
}

/// The groups that a program is made of, in the order in which they are documented.
///
/// A key can be read from settings whose schema does not have it. What the schema does not have
/// cannot be named (`--set`, `config get`) and is not checked.
#[derive(Clone, Default)]
pub struct Schema {
    groups: Arc<[&'static Group]>,
    /// What the variables of keys begin with, up to the first `_`. Every variable of the
    /// environment is compared with these, for every setting that is read.
    first_words: Arc<[&'static str]>,
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schema").field("keys", &self.keys().count()).finish_non_exhaustive()
    }
}

impl Schema {
    /// Makes a schema of groups.
    pub fn new(groups: impl IntoIterator<Item = &'static Group>) -> Self {
        let groups: Arc<[&'static Group]> = groups.into_iter().collect();
        let variables = groups.iter().flat_map(|group| group.keys).flat_map(|key| key.env());
        let words: BTreeSet<&'static str> = variables.filter_map(|name| first_word(name)).collect();
        Self { groups, first_words: words.into_iter().collect() }
    }

    /// Returns the schema with further groups behind its own.
    #[must_use]
    pub fn with(&self, groups: impl IntoIterator<Item = &'static Group>) -> Self {
        Self::new(self.groups().chain(groups))
    }

    pub(crate) fn groups(&self) -> impl Iterator<Item = &'static Group> + use<> {
        let groups = Arc::clone(&self.groups);
        (0..groups.len()).filter_map(move |at| groups.get(at).copied())
    }

    /// Returns all keys, in the order in which they are documented.
    pub fn keys(&self) -> impl Iterator<Item = &'static dyn AnyKey> + use<> {
        self.groups().flat_map(|group| group.keys.iter().copied())
    }

    /// Returns the key that a name or another name of it stands for.
    pub fn find(&self, name: &str) -> Option<&'static dyn AnyKey> {
        self.keys().find(|key| key.name() == name || key.aliases().contains(&name))
    }

    /// Returns the key that a variable sets.
    pub fn find_by_variable(&self, name: &str) -> Option<&'static dyn AnyKey> {
        self.keys().find(|key| key.env().contains(&name))
    }

    /// Returns the key of a name, or says what is wrong with the name.
    pub(crate) fn require(&self, name: &str) -> Result<&'static dyn AnyKey, ConfigError> {
        if let Some(key) = self.find(name) {
            return Ok(key);
        }
        let name = name.to_owned();
        if self.is_reserved(&name) {
            return Err(ConfigError::NotInThisVersion { name });
        }
        let suggestion = names::closest_key(&name, &self.names());
        Err(ConfigError::UnknownKey { name, suggestion })
    }

    /// Returns all names of all keys.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        let names = |key: &'static dyn AnyKey| {
            std::iter::once(key.name()).chain(key.aliases().iter().copied())
        };
        self.keys().flat_map(names).collect()
    }

    /// Reports whether a dotted name is a section that holds keys.
    pub(crate) fn is_section(&self, name: &str) -> bool {
        let is_below = |key: &str| key.strip_prefix(name).is_some_and(|own| own.starts_with('.'));
        self.keys().any(|key| is_below(key.name()) || key.aliases().iter().any(|own| is_below(own)))
    }

    /// Reports whether a name of `config.yaml`, or a section it is in, is known but has no meaning yet.
    pub(crate) fn is_reserved(&self, name: &str) -> bool {
        let is_at_or_below = |reserved: &str| {
            name.strip_prefix(reserved).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.groups().flat_map(|group| group.reserved).any(|reserved| is_at_or_below(reserved))
    }

    /// Reports whether a variable is known but has no meaning yet.
    pub(crate) fn is_reserved_variable(&self, name: &str) -> bool {
        let stands_for =
            |reserved: &str| reserved.replace('.', "_").to_ascii_uppercase().as_str() == name;
        self.is_ours(name)
            && self.groups().flat_map(|group| group.reserved).any(|reserved| stands_for(reserved))
    }

    /// Returns a name without the word in front that is easily left out.
    pub(crate) fn without_prefix<'a>(&self, name: &'a str) -> Option<&'a str> {
        let mut prefixes = self.groups().flat_map(|group| group.prefixes);
        prefixes.find_map(|prefix| name.strip_prefix(prefix))
    }

    /// Returns the variables that are documented and are no settings: first those that decide
    /// where settings are found.
    pub(crate) fn variables(&self) -> impl Iterator<Item = &'static Variable> {
        let all = || VARIABLES.iter().chain(self.groups().flat_map(|group| group.variables));
        let locates = |variable: &&Variable| variable.scope == VariableScope::Locates;
        all().filter(locates).chain(all().filter(move |variable| !locates(variable)))
    }

    /// Reports whether a variable begins like those that set keys do.
    pub(crate) fn is_ours(&self, name: &str) -> bool {
        first_word(name).is_some_and(|word| word == "VESTAL" || self.first_words.contains(&word))
    }

    /// Reports whether a variable sets a key or is another one of the program's own.
    pub(crate) fn is_known(&self, name: &str) -> bool {
        self.find_by_variable(name).is_some()
            || self.variables().any(|variable| variable.name == name)
    }

    /// Returns the variable that a misspelt one probably stands for.
    pub(crate) fn closest_variable(&self, name: &str) -> Option<&'static str> {
        let keys = self.keys().flat_map(|key| key.env().iter().copied());
        let located = self.variables().filter(|variable| variable.scope == VariableScope::Locates);
        names::closest(name, keys.chain(located.map(|variable| variable.name)))
    }

    /// Reports whether a variable holds a secret, by its name.
    pub fn is_secret(&self, name: &str) -> bool {
        self.groups().any(|group| (group.is_secret)(name))
    }
}

/// Returns what a variable's name begins with, up to the first `_`.
fn first_word(name: &str) -> Option<&str> {
    name.split_once('_').map(|(word, _)| word)
}

/// The variables that hold secrets because a setting says so.
#[derive(Debug)]
pub struct SecretVariables {
    /// Those that are known.
    pub names: Vec<EnvName>,
    /// Why there may be more: a setting that could name some cannot be read.
    pub unread: Option<ConfigError>,
}

impl SecretVariables {
    /// Returns all of them, or why they are not known.
    pub fn complete(self) -> Result<Vec<EnvName>, ConfigError> {
        match self.unread {
            None => Ok(self.names),
            Some(error) => Err(error),
        }
    }
}

/// Shorter values are words that text is full of.
const SHORTEST: usize = 6;

impl Settings {
    /// Returns the variables that hold secrets because a setting says so. A group that cannot be read
    /// hides none of another's.
    pub fn secret_variables(&self) -> SecretVariables {
        let mut found = SecretVariables { names: Vec::new(), unread: None };
        for group in self.schema.groups() {
            match (group.secret_variables)(self) {
                Ok(names) => found.names.extend(names),
                Err(error) => found.unread = found.unread.or(Some(error)),
            }
        }
        found
    }

    /// Returns the directories in the home of all profiles that sandboxes may mount parts of.
    pub fn work_dirs(&self) -> Vec<PathBuf> {
        let names = self.schema.groups().flat_map(|group| group.work_dirs);
        names.map(|name| self.home().root().join(name)).collect()
    }

    /// Returns the values of all secrets at hand: variables of the environment
    /// and of `.env` that are secrets by their name or because a setting says so,
    /// and what the groups of the schema know. Addresses are none.
    ///
    /// Places that cannot be read contribute none; reading a key from them returns the error.
    pub fn known_secrets(&self) -> Vec<String> {
        let named = self.secret_variables().names;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestHome;
    use crate::{Environment, Settings};

    #[test]
    fn secrets_are_found_wherever_they_are_set_and_addresses_are_none() {
        let home = TestHome::with_config(
            "model:\n  api_key: sk-of-the-model\nproviders:\n  mine: {api_key_env: ODDLY_NAMED}\n",
        )
        .dotenv("ODDLY_NAMED=from-dot-env\nCOLOUR=not-secret\n");
        let env = [
            ("OPENAI_API_KEY", "sk-from-environment"),
            ("OPENAI_BASE_URL_API_KEY", "https://example.org/v1"),
            ("GROQ_API_KEY", "short"),
            ("EDITOR", "not-secret-either"),
        ];
        assert_eq!(
            home.settings(&env, &[]).known_secrets(),
            ["from-dot-env", "sk-from-environment", "sk-of-the-model"]
        );
    }

    static UNREADABLE: Group = Group {
        secret_variables: |settings| settings.get_by_name("no.such.key").map(|_| Vec::new()),
        ..Group::of(&[])
    };

    static NAMING: Group = Group {
        secret_variables: |_| Ok(EnvName::new("ODDLY_NAMED").into_iter().collect()),
        ..Group::of(&[])
    };

    #[test]
    fn a_group_that_cannot_be_read_hides_no_secret_of_another() {
        let home = TestHome::new();
        for groups in [[&UNREADABLE, &NAMING], [&NAMING, &UNREADABLE]] {
            let env = Environment::from_pairs([("ODDLY_NAMED", "sk-oddly-named")]);
            let settings = Settings::load(&Schema::new(groups), home.home(), env, Vec::new());
            assert_eq!(settings.known_secrets(), ["sk-oddly-named"]);
            // A caller that needs all of them gets the error.
            let error = settings.secret_variables().complete().expect_err("one is unreadable");
            assert_eq!(error.to_string(), "there is no key no.such.key");
        }
    }
}
