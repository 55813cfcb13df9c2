//! What is made of several settings: where sandboxes are, and the environment of commands.

use std::ffi::OsString;
use std::path::PathBuf;

use vestal_config::{
    AnyKey as _, ConfigError, EnvName, EnvNames, EnvPairs, Environment, Resolved, SettingKey,
    Settings,
};

use super::keys;
use super::secrets::{self, SecretClass, class_of};

/// The environment of a command.
#[derive(Clone, PartialEq, Eq)]
pub struct CommandEnvironment {
    /// Names and values, in order of name.
    pub variables: Vec<(OsString, OsString)>,
    /// Names in `terminal.env_passthrough` that are never passed on and, in a
    /// container, are not in `terminal.docker_forward_env` either.
    pub refused: Vec<EnvName>,
}

/// Shows names only: the values may be secrets.
impl std::fmt::Debug for CommandEnvironment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.variables.iter().map(|(name, _)| name).collect();
        f.debug_struct("CommandEnvironment")
            .field("variables", &names)
            .field("refused", &self.refused)
            .finish()
    }
}

/// Names that say how programs on this machine run. Elsewhere they would break
/// what runs, and none of them is anything a skill could need of the caller.
const OF_THE_MACHINE: &[&str] = &[
    "BASH_ENV", "CDPATH", "ENV", "HOME", "HOSTNAME", "IFS", "LOGNAME", "OLDPWD", "PATH", "PWD",
    "SHELL", "SHLVL", "TERM", "TMPDIR", "USER",
];

/// What begins like this tells the loader, or Vestal itself, what to do.
const PREFIXES: &[&str] = &["LD_", "DYLD_", "BASH_FUNC_", "VESTAL_"];

/// Whether a variable is handed to commands that somebody other than the
/// settings asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VariableForwarding {
    /// It is.
    Handed,
    /// It is not: it is a key of a model provider, of Vestal itself or `sudo`'s.
    Withheld,
    /// It is not: it says how programs on this machine run.
    OfTheMachine,
}

/// What several settings of sandboxes say together.
pub trait SandboxSettings {
    /// Returns the directory that sandboxes are kept in.
    fn sandboxes_dir(&self) -> Result<Resolved<PathBuf>, ConfigError>;

    /// Returns the environment of a command on this machine: the caller's without secrets, what
    /// `terminal.env_passthrough` lets through, and `terminal.env` on top.
    fn job_environment(&self) -> Result<CommandEnvironment, ConfigError>;

    /// Returns what a command in a container gets on top of the image's own environment. Nothing is
    /// inherited: what `terminal.env_passthrough` lets through, what `terminal.docker_forward_env`
    /// names, `terminal.env` and `terminal.docker_env`; of one name the last counts.
    ///
    /// A name in `terminal.docker_forward_env` is forwarded whatever it is: who names a secret there
    /// wants it in the container.
    fn container_environment(&self) -> Result<CommandEnvironment, ConfigError>;

    /// Returns whether commands get a variable that a skill asks for. What
    /// `terminal.docker_forward_env` names they get in any case: then it is the user who asks.
    fn handing(&self, name: &EnvName) -> VariableForwarding;

    /// Returns those of the named variables that are set and may be handed to commands: from the
    /// environment, else from `.env`.
    fn handed<'a>(&self, names: impl IntoIterator<Item = &'a EnvName>) -> Vec<(EnvName, OsString)>;
}

impl SandboxSettings for Settings {
    fn sandboxes_dir(&self) -> Result<Resolved<PathBuf>, ConfigError> {
        let Resolved { value, source } = self.get(&keys::SANDBOX_DIR)?;
        let user_home = self.environment().user_home();
        let value = value.resolve(self.home().sandboxes_dir(), user_home.as_deref());
        Ok(Resolved { value, source })
    }

    fn job_environment(&self) -> Result<CommandEnvironment, ConfigError> {
        let passthrough = self.get(&keys::ENV_PASSTHROUGH)?.value;
        let own: EnvNames = self.secret_variables().complete()?.into_iter().collect();
        let (passed, refused) = parted(&passthrough, &own);
        let stripped = secrets::strip(self.environment(), &passed).variables;
        let mut variables = Environment::from_pairs(stripped);
        own.iter().for_each(|name| variables.remove(name.as_str()));
        pass_on(self, passed.iter(), &keys::ENV_PASSTHROUGH, &mut variables)?;
        put(self, &keys::ENV, &mut variables)?;
        Ok(CommandEnvironment { variables: owned(&variables), refused })
    }

    fn container_environment(&self) -> Result<CommandEnvironment, ConfigError> {
        let passthrough = self.get(&keys::ENV_PASSTHROUGH)?.value;
        let forwarded = self.get(&keys::DOCKER_FORWARD_ENV)?.value;
        // What holds a secret matters only to what would be passed on.
        let own: EnvNames = match passthrough.iter().next() {
            Some(_) => self.secret_variables().complete()?.into_iter().collect(),
            None => EnvNames::from_iter([]),
        };
        let (passed, mut refused) = parted(&passthrough, &own);
        let mut variables = Environment::default();
        pass_on(self, passed.iter(), &keys::ENV_PASSTHROUGH, &mut variables)?;
        pass_on(self, forwarded.iter(), &keys::DOCKER_FORWARD_ENV, &mut variables)?;
        put(self, &keys::ENV, &mut variables)?;
        put(self, &keys::DOCKER_ENV, &mut variables)?;
        refused.retain(|name| !forwarded.contains(name.as_str()));
        Ok(CommandEnvironment { variables: owned(&variables), refused })
    }

    fn handing(&self, name: &EnvName) -> VariableForwarding {
        let name = name.as_str();
        let named = self.get(&keys::DOCKER_FORWARD_ENV).map(|found| found.value);
        if named.is_ok_and(|names| names.contains(name)) {
            return VariableForwarding::Handed;
        }
        let folded = name.to_ascii_uppercase();
        if OF_THE_MACHINE.contains(&&*folded) || PREFIXES.iter().any(|own| folded.starts_with(own))
        {
            return VariableForwarding::OfTheMachine;
        }
        let is_key = class_of(name).is_some_and(|class| !class.may_be_passed_on());
        // Settings that cannot be read may say that it holds a key: then it is not handed on.
        let named = self.secret_variables();
        let is_own = named.unread.is_some() || named.names.iter().any(|own| own.as_str() == name);
        if is_key || is_own { VariableForwarding::Withheld } else { VariableForwarding::Handed }
    }

    fn handed<'a>(&self, names: impl IntoIterator<Item = &'a EnvName>) -> Vec<(EnvName, OsString)> {
        let mut found: Vec<(EnvName, OsString)> = Vec::new();
        for name in names {
            if self.handing(name) != VariableForwarding::Handed
                || found.iter().any(|(own, _)| own == name)
            {
                continue;
            }
            // A file that cannot be read has none; the reader that needs it reports why.
            if let Ok(Some(variable)) = self.variable(name) {
                found.push((name.clone(), variable.value));
            }
        }
        found
    }
}

/// Adds variables of these names that are set, in the environment or in `.env`.
fn pass_on<'a>(
    settings: &Settings,
    names: impl Iterator<Item = &'a EnvName>,
    key: &SettingKey<EnvNames>,
    variables: &mut Environment,
) -> Result<(), ConfigError> {
    for name in names {
        let found =
            settings.variable(name).map_err(|file| ConfigError::File { key: key.name(), file })?;
        if let Some(Resolved { value, .. }) = found {
            variables.insert(name.as_str(), value);
        }
    }
    Ok(())
}

/// Adds the variables that a key holds.
fn put(
    settings: &Settings,
    key: &SettingKey<EnvPairs>,
    variables: &mut Environment,
) -> Result<(), ConfigError> {
    for (name, value) in settings.get(key)?.value.iter() {
        variables.insert(name.as_str(), value);
    }
    Ok(())
}

/// Parts the names in `terminal.env_passthrough` into those that are passed on
/// and those that never are. `own` are the variables that a setting says hold secrets.
fn parted(passthrough: &EnvNames, own: &EnvNames) -> (EnvNames, Vec<EnvName>) {
    let passes = |name: &EnvName| {
        class_of(name.as_str()).is_none_or(SecretClass::may_be_passed_on)
            && !own.contains(name.as_str())
    };
    let (passed, refused): (Vec<_>, Vec<_>) = passthrough.iter().cloned().partition(passes);
    (passed.into_iter().collect(), refused)
}

fn owned(variables: &Environment) -> Vec<(OsString, OsString)> {
    variables.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
#[path = "environment_tests.rs"]
mod tests;
