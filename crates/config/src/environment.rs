//! The process environment, captured once and passed around as a value.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// A variable that is no setting but decides where settings and the like are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub doc: &'static str,
    /// Where it is read.
    pub scope: VariableScope,
}

/// Where a variable that is no setting is read.
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
