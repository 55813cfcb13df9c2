//! Variables that are handed to commands because something installed asks for
//! them by name.

use std::ffi::OsString;

use crate::keys;
use crate::kinds::EnvName;
use crate::secrets::class_of;
use crate::settings::Settings;

#[cfg(test)]
#[path = "forward_tests.rs"]
mod tests;

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
pub enum Handing {
    /// It is.
    Handed,
    /// It is not: it is a key of a model provider, of Vestal itself or `sudo`'s.
    Withheld,
    /// It is not: it says how programs on this machine run.
    OfTheMachine,
}

impl Settings {
    /// Returns whether commands get a variable that a skill asks for. What
    /// `terminal.docker_forward_env` names they get in any case: then it is the
    /// user who asks.
    pub fn handing(&self, name: &EnvName) -> Handing {
        let name = name.as_str();
        let named = self.get(&keys::DOCKER_FORWARD_ENV).map(|found| found.value);
        if named.is_ok_and(|names| names.contains(name)) {
            return Handing::Handed;
        }
        let folded = name.to_ascii_uppercase();
        if OF_THE_MACHINE.contains(&&*folded) || PREFIXES.iter().any(|own| folded.starts_with(own))
        {
            return Handing::OfTheMachine;
        }
        let is_key = class_of(name).is_some_and(|class| !class.may_be_passed_on());
        // Settings that cannot be read may say that it holds a key: then it is not handed on.
        let is_own = self
            .secret_variables()
            .map_or(true, |variables| variables.iter().any(|own| own.as_str() == name));
        if is_key || is_own { Handing::Withheld } else { Handing::Handed }
    }

    /// Returns those of the named variables that are set and may be handed to
    /// commands: from the environment, else from `.env`.
    pub fn handed<'a>(
        &self,
        names: impl IntoIterator<Item = &'a EnvName>,
    ) -> Vec<(EnvName, OsString)> {
        let mut found: Vec<(EnvName, OsString)> = Vec::new();
        for name in names {
            if self.handing(name) != Handing::Handed || found.iter().any(|(own, _)| own == name) {
                continue;
            }
            // A file that cannot be read has none; whoever needs it is told why.
            if let Ok(Some(variable)) = self.variable(name) {
                found.push((name.clone(), variable.value));
            }
        }
        found
    }
}
