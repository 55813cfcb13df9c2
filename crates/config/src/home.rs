//! Where a profile's files are.

use std::fmt;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::environment::{Environment, HOME_VARIABLE, PROFILE_VARIABLE};

const DEFAULT_PROFILE: &str = "default";
const MAX_NAME: usize = 64;

/// The name of a profile: lower-case letters, digits, `_` and `-`, 64 at most,
/// a letter or a digit first. It is safe as a file name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProfileName(String);

impl ProfileName {
    /// Makes a name; capitals become small letters.
    pub fn new(name: &str) -> Result<Self, HomeError> {
        let folded = name.to_ascii_lowercase();
        let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let valid = folded.len() <= MAX_NAME
            && folded.bytes().next().is_some_and(letter)
            && folded.bytes().all(|byte| letter(byte) || byte == b'_' || byte == b'-');
        if valid {
            Ok(Self(folded))
        } else {
            Err(HomeError::BadProfileName { name: name.chars().take(2 * MAX_NAME).collect() })
        }
    }

    /// Returns the profile that always exists and lives in the root itself.
    pub fn default_profile() -> Self {
        Self(DEFAULT_PROFILE.to_owned())
    }

    /// Reports whether this is the profile that lives in the root itself.
    pub fn is_default(&self) -> bool {
        self.0 == DEFAULT_PROFILE
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProfileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why no home was found.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HomeError {
    /// Neither variable is there.
    #[error(
        "neither VESTAL_HOME nor HOME is set; set VESTAL_HOME to a directory for Vestal's files"
    )]
    NoHome,
    /// A relative path would mean another place in every directory.
    #[error("{variable} is {path:?}, which is not an absolute path")]
    Relative {
        /// The variable.
        variable: &'static str,
        /// Its value.
        path: PathBuf,
    },
    /// A name no profile can have.
    #[error(
        "{name:?} is no name for a profile; allowed: up to {MAX_NAME} of a-z, 0-9, _ and -, a letter or a digit first"
    )]
    BadProfileName {
        /// The name.
        name: String,
    },
    /// A profile that does not exist.
    #[error("there is no profile {name} ({from}); existing profiles: {}; a directory {} makes it one", list(existing), directory.display())]
    UnknownProfile {
        /// The name.
        name: ProfileName,
        /// Where the name came from.
        from: &'static str,
        /// The profiles there are.
        existing: Vec<ProfileName>,
        /// Where the profile would be.
        directory: PathBuf,
    },
}

fn list(names: &[ProfileName]) -> String {
    names.iter().map(ProfileName::as_str).collect::<Vec<_>>().join(", ")
}

/// The home of one profile, and the root that all profiles share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    root: PathBuf,
    profile: ProfileName,
}

impl Home {
    /// Finds the home: `$VESTAL_HOME` or `~/.vestal`, and in it the profile that
    /// `-p`, else `$VESTAL_PROFILE` names. A home need not exist yet; a named
    /// profile must.
    pub fn locate(env: &Environment, profile: Option<&str>) -> Result<Self, HomeError> {
        let root = root(env)?;
        let (name, from) = match (profile, env.non_empty(PROFILE_VARIABLE.name)) {
            (Some(name), _) => (ProfileName::new(name)?, "-p"),
            (None, Some(name)) => {
                (ProfileName::new(&name.to_string_lossy())?, PROFILE_VARIABLE.name)
            }
            (None, None) => (ProfileName::default_profile(), ""),
        };
        let home = Self { root, profile: name };
        if home.profile.is_default() || home.dir().is_dir() {
            return Ok(home);
        }
        Err(HomeError::UnknownProfile {
            existing: home.profiles(),
            directory: home.dir(),
            name: home.profile,
            from,
        })
    }

    /// Makes the home of the profile `default` in a directory.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), profile: ProfileName::default_profile() }
    }

    /// Returns the name of the profile.
    pub fn profile(&self) -> &ProfileName {
        &self.profile
    }

    /// Returns the directory that all profiles share.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the profile's own directory.
    pub fn dir(&self) -> PathBuf {
        if self.profile.is_default() {
            self.root.clone()
        } else {
            self.profiles_dir().join(self.profile.as_str())
        }
    }

    /// Returns the profile's settings.
    pub fn config_file(&self) -> PathBuf {
        self.dir().join("config.yaml")
    }

    /// Returns the profile's secrets.
    pub fn env_file(&self) -> PathBuf {
        self.dir().join(".env")
    }

    /// Returns where sandboxes are kept unless `terminal.sandbox_dir` says otherwise.
    pub fn sandboxes_dir(&self) -> PathBuf {
        self.dir().join("sandboxes")
    }

    /// Returns where sockets and other files of running processes are.
    pub fn run_dir(&self) -> PathBuf {
        self.dir().join("run")
    }

    /// Returns where logs are.
    pub fn logs_dir(&self) -> PathBuf {
        self.dir().join("logs")
    }

    /// Returns the profiles that exist: `default` first, then the others by name.
    pub fn profiles(&self) -> Vec<ProfileName> {
        let mut named: Vec<ProfileName> = std::fs::read_dir(self.profiles_dir())
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| entry.path().is_dir())
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter_map(|name| ProfileName::new(&name).ok().filter(|own| own.as_str() == name))
            .filter(|name| !name.is_default())
            .collect();
        named.sort();
        named.insert(0, ProfileName::default_profile());
        named
    }

    fn profiles_dir(&self) -> PathBuf {
        self.root.join("profiles")
    }
}

fn root(env: &Environment) -> Result<PathBuf, HomeError> {
    let absolute = |variable: &'static str, value: &std::ffi::OsStr| {
        let path = PathBuf::from(value);
        if path.is_absolute() { Ok(path) } else { Err(HomeError::Relative { variable, path }) }
    };
    if let Some(value) = env.non_empty(HOME_VARIABLE.name) {
        return absolute(HOME_VARIABLE.name, value);
    }
    match env.non_empty("HOME") {
        Some(value) => absolute("HOME", value).map(|home| home.join(".vestal")),
        None => Err(HomeError::NoHome),
    }
}

#[cfg(test)]
#[path = "home_tests.rs"]
mod tests;
