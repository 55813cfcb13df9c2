//! The process environment, captured once and passed around as a value, and `${NAME}` in a
//! value: the variable of that name, from the environment, else from `.env`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;

use crate::error::SettingsFileError;
use crate::kinds::EnvName;
use crate::settings::Settings;

/// A variable that is not a setting: it decides where settings and the like are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub doc: &'static str,
    /// Where it is read.
    pub scope: VariableScope,
}

/// Where a variable that is not a setting is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VariableScope {
    /// In the environment of the program, to find settings and what belongs to them. It has no
    /// effect in a `.env`.
    Locates,
    /// In the environment of the program. In a `.env` it is a variable like any other.
    Environment,
}

/// Root of all profiles.
pub(crate) const HOME_VARIABLE: Variable = Variable {
    name: "VESTAL_HOME",
    doc: "Home of the profile `default` and root of the rest; an absolute path. Default: `~/.vestal`.",
    scope: VariableScope::Locates,
};

/// Profile to use.
pub(crate) const PROFILE_VARIABLE: Variable = Variable {
    name: "VESTAL_PROFILE",
    doc: "Profile to use when `-p` is not given. Default: the one of `vestal profile use`, else `default`.",
    scope: VariableScope::Locates,
};

/// Variables that decide where settings and profiles are found.
pub(crate) const VARIABLES: &[Variable] = &[HOME_VARIABLE, PROFILE_VARIABLE];

/// A captured set of environment variables, in order of name.
///
/// [`Environment::capture`] is the one place that reads the environment of the
/// process; everything else, tests included, passes this value around.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment {
    variables: BTreeMap<OsString, OsString>,
}

impl Environment {
    /// Captures the environment of this process, values that are not UTF-8 included.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the environment of the process"
    )]
    pub fn capture() -> Self {
        Self { variables: std::env::vars_os().collect() }
    }

    /// Makes an environment of the pairs given; a later pair of a name wins.
    pub fn from_pairs<N, V>(pairs: impl IntoIterator<Item = (N, V)>) -> Self
    where
        N: Into<OsString>,
        V: Into<OsString>,
    {
        Self { variables: pairs.into_iter().map(|(n, v)| (n.into(), v.into())).collect() }
    }

    /// Returns a variable's value, whatever it is.
    pub fn get(&self, name: impl AsRef<OsStr>) -> Option<&OsStr> {
        self.variables.get(name.as_ref()).map(OsString::as_os_str)
    }

    /// Returns a variable's value unless it is empty, which counts as unset.
    pub fn non_empty(&self, name: impl AsRef<OsStr>) -> Option<&OsStr> {
        self.get(name).filter(|value| !value.is_empty())
    }

    /// Sets a variable of this value; the process is not affected.
    pub fn insert(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        self.variables.insert(name.into(), value.into());
    }

    /// Removes a variable from this value; the process is not affected.
    pub fn remove(&mut self, name: impl AsRef<OsStr>) {
        self.variables.remove(name.as_ref());
    }

    /// Returns all variables in order of name.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.variables.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    /// Returns the user's home directory: `$HOME` when it is an absolute path.
    pub fn user_home(&self) -> Option<PathBuf> {
        self.non_empty("HOME").map(PathBuf::from).filter(|path| path.is_absolute())
    }
}

/// Shows names only: the values may be secrets.
impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.variables.keys()).finish()
    }
}

/// Why a value that refers to variables has no text. It names variables, never
/// what is around them.
#[derive(Debug, Clone, Error)]
pub enum Unresolved {
    /// It is not set.
    #[error(
        "it refers to the variable {name}, which is set neither in the environment nor in {env_file}"
    )]
    Unset {
        /// The variable.
        name: EnvName,
        /// Where it could be set.
        env_file: String,
    },
    /// It is not text.
    #[error("it refers to the variable {name}, which is not valid text")]
    NoText {
        /// The variable.
        name: EnvName,
    },
    /// The text between the braces is not a name.
    #[error(
        "it has ${{…}} around text that is not the name of a variable; write $$ for a dollar sign"
    )]
    NoName,
    /// `.env` cannot be read.
    #[error(transparent)]
    File(Arc<SettingsFileError>),
}

/// A piece of text that may refer to variables.
enum TextPiece<'a> {
    Text(&'a str),
    Variable(EnvName),
}

impl Settings {
    /// Returns text with each `${NAME}` in it replaced by the variable's value
    /// and each `$$` by a dollar sign; another dollar sign means itself.
    pub fn resolve(&self, text: &str) -> Result<String, Unresolved> {
        let mut out = String::with_capacity(text.len());
        for piece in pieces(text)? {
            match piece {
                TextPiece::Text(text) => out.push_str(text),
                TextPiece::Variable(name) => out.push_str(&self.referred(&name)?),
            }
        }
        Ok(out)
    }

    fn referred(&self, name: &EnvName) -> Result<String, Unresolved> {
        let found = self.variable(name).map_err(Unresolved::File)?;
        let Some(found) = found else {
            let env_file = self.home().env_file().display().to_string();
            return Err(Unresolved::Unset { name: name.clone(), env_file });
        };
        found.value.into_string().map_err(|_| Unresolved::NoText { name: name.clone() })
    }

    /// Returns the values of the variables that text refers to, as far as they
    /// are set.
    pub fn referred_values(&self, text: &str) -> Vec<String> {
        let variables =
            pieces(text).unwrap_or_default().into_iter().filter_map(|piece| match piece {
                TextPiece::Text(_) => None,
                TextPiece::Variable(name) => self.referred(&name).ok(),
            });
        variables.collect()
    }
}

fn pieces(text: &str) -> Result<Vec<TextPiece<'_>>, Unresolved> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        pieces.push(TextPiece::Text(before));
        if let Some(after) = after.strip_prefix('$') {
            pieces.push(TextPiece::Text("$"));
            rest = after;
        } else if let Some(after) = after.strip_prefix('{') {
            let (name, after) = after.split_once('}').ok_or(Unresolved::NoName)?;
            pieces.push(TextPiece::Variable(EnvName::new(name).ok_or(Unresolved::NoName)?));
            rest = after;
        } else {
            pieces.push(TextPiece::Text("$"));
            rest = after;
        }
    }
    pieces.push(TextPiece::Text(rest));
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use crate::{Environment, Home, Settings};

    fn settings(dir: &std::path::Path) -> Settings {
        let env = Environment::from_pairs([("TOKEN", "from-env"), ("EMPTY", "")]);
        Settings::load(&crate::schema(), Home::at(dir), env, Vec::new())
    }

    #[test]
    fn references_are_taken_from_the_environment_then_from_the_env_file() {
        let dir = tempfile::tempdir().expect("made");
        std::fs::write(dir.path().join(".env"), "TOKEN=hidden\nEMPTY=from-file\n")
            .expect("written");
        let settings = settings(dir.path());
        for (text, resolved) in [
            ("Bearer ${TOKEN}", "Bearer from-env"),
            ("${EMPTY}/${TOKEN}", "from-file/from-env"),
            ("plain", "plain"),
            ("", ""),
            ("costs 5$ or $HOME", "costs 5$ or $HOME"),
            ("$${TOKEN} $$", "${TOKEN} $"),
            ("ends with $", "ends with $"),
        ] {
            assert_eq!(settings.resolve(text).expect(text), resolved);
        }
    }

    #[test]
    fn what_cannot_be_resolved_names_the_variable_and_where_to_set_it() {
        let dir = tempfile::tempdir().expect("made");
        let settings = settings(dir.path());
        let error = settings.resolve("secret-prefix ${MISSING}").expect_err("unset").to_string();
        assert!(error.contains("variable MISSING") && error.contains(".env"), "{error}");
        assert!(!error.contains("secret-prefix"), "{error}");
        for text in ["${", "${}", "${a b}", "${TOKEN", "${1}"] {
            let error = settings.resolve(text).expect_err(text).to_string();
            assert!(error.contains("not the name of a variable"), "{text}: {error}");
        }
    }
}
