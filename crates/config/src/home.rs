//! Where a profile's files are.

use std::fmt;
use std::fs::{self, File};
use std::io::{ErrorKind, Read as _};
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
    pub fn new(name: &str) -> Result<Self, HomeNotFound> {
        let folded = name.to_ascii_lowercase();
        let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let valid = folded.len() <= MAX_NAME
            && folded.bytes().next().is_some_and(letter)
            && folded.bytes().all(|byte| letter(byte) || byte == b'_' || byte == b'-');
        if valid {
            Ok(Self(folded))
        } else {
            Err(HomeNotFound::BadProfileName { name: name.chars().take(2 * MAX_NAME).collect() })
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
pub enum HomeNotFound {
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
        "{name:?} is not a valid name for a profile; allowed: up to {MAX_NAME} of a-z, 0-9, _ and -, a letter or a digit first"
    )]
    BadProfileName {
        /// The name.
        name: String,
    },
    /// A profile that does not exist.
    #[error(
        "there is no profile {name} ({from}); existing profiles: {}; to make it: vestal profile create {name}",
        list(existing)
    )]
    UnknownProfile {
        /// The name.
        name: ProfileName,
        /// Where the name came from.
        from: &'static str,
        /// The profiles there are.
        existing: Vec<ProfileName>,
    },
    /// The profile that was chosen to stay cannot be used.
    #[error("the profile chosen in {} cannot be used: {problem}; to go back: vestal profile use default", file.display())]
    Choice {
        /// The file that holds the choice.
        file: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

fn list(names: &[ProfileName]) -> String {
    names.iter().map(ProfileName::as_str).collect::<Vec<_>>().join(", ")
}

const CHOICE_FILE: &str = "active_profile";
/// More than any name has.
const MAX_CHOICE: u64 = 256;

/// The home of one profile, and the root that all profiles share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    root: PathBuf,
    profile: ProfileName,
}

impl Home {
    /// Finds the home: `$VESTAL_HOME` or `~/.vestal`, and in it the profile that
    /// `-p` names, else `$VESTAL_PROFILE`, else the choice that was made to stay,
    /// else `default`. The home of `default` need not exist yet; others must.
    ///
    /// A choice that cannot be followed is an error, so that no command works in
    /// another profile than the chosen one without saying so.
    pub fn locate(env: &Environment, profile: Option<&str>) -> Result<Self, HomeNotFound> {
        let root = root(env)?;
        match (profile, env.non_empty(PROFILE_VARIABLE.name)) {
            (Some(name), _) => Self::named(root, ProfileName::new(name)?, "-p"),
            (None, Some(name)) => {
                let name = ProfileName::new(&name.to_string_lossy())?;
                Self::named(root, name, PROFILE_VARIABLE.name)
            }
            (None, None) => follow(root),
        }
    }

    /// As [`Home::locate`] for commands that must always work: in place of a
    /// choice that cannot be followed it is `default`, and the error is returned too.
    pub fn locate_or_default(
        env: &Environment,
        profile: Option<&str>,
    ) -> Result<(Self, Option<HomeNotFound>), HomeNotFound> {
        match Self::locate(env, profile) {
            Ok(home) => Ok((home, None)),
            Err(error @ HomeNotFound::Choice { .. }) => Ok((Self::at(root(env)?), Some(error))),
            Err(error) => Err(error),
        }
    }

    /// Finds the home of `default`, whichever profile is chosen.
    pub fn locate_root(env: &Environment) -> Result<Self, HomeNotFound> {
        root(env).map(Self::at)
    }

    /// Returns the home of another profile of the same root, which need not exist.
    #[must_use]
    pub fn sibling(&self, profile: ProfileName) -> Self {
        Self { root: self.root.clone(), profile }
    }

    /// Reports whether the profile is there; `default` always is.
    pub fn exists(&self) -> bool {
        self.profile.is_default() || self.dir().is_dir()
    }

    fn named(
        root: PathBuf,
        profile: ProfileName,
        from: &'static str,
    ) -> Result<Self, HomeNotFound> {
        let home = Self { root, profile };
        if home.exists() {
            return Ok(home);
        }
        Err(HomeNotFound::UnknownProfile { existing: home.profiles(), name: home.profile, from })
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

    /// Returns the file that says which profile is used when nobody names one.
    pub fn choice_file(&self) -> PathBuf {
        self.root.join(CHOICE_FILE)
    }

    /// Returns the profile that is chosen in [`Home::choice_file`], if any is, or says what is wrong
    /// with the file.
    pub fn chosen_profile(&self) -> Result<Option<ProfileName>, String> {
        read_choice(&self.choice_file())
    }

    /// Returns where the profiles beside `default` are.
    pub fn profiles_dir(&self) -> PathBuf {
        self.root.join("profiles")
    }
}

/// Reports whether a path is a directory or in it, whatever links lead there.
pub fn is_within(path: &Path, dir: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    path.starts_with(dir) || real(path).starts_with(real(dir))
}

fn root(env: &Environment) -> Result<PathBuf, HomeNotFound> {
    let absolute = |variable: &'static str, value: &std::ffi::OsStr| {
        let path = PathBuf::from(value);
        if path.is_absolute() { Ok(path) } else { Err(HomeNotFound::Relative { variable, path }) }
    };
    if let Some(value) = env.non_empty(HOME_VARIABLE.name) {
        return absolute(HOME_VARIABLE.name, value);
    }
    match env.non_empty("HOME") {
        Some(value) => absolute("HOME", value).map(|home| home.join(".vestal")),
        None => Err(HomeNotFound::NoHome),
    }
}

/// Returns the home of the profile that is chosen below a root, else of `default`.
fn follow(root: PathBuf) -> Result<Home, HomeNotFound> {
    let file = root.join(CHOICE_FILE);
    let home = Home::at(root);
    let unusable = |problem| HomeNotFound::Choice { file: file.clone(), problem };
    let Some(name) = read_choice(&file).map_err(unusable)? else {
        return Ok(home);
    };
    let home = home.sibling(name);
    if home.profile().is_default() {
        return Ok(home);
    }
    match fs::read_dir(home.dir()) {
        Ok(_) => Ok(home),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(unusable(format!("there is no profile {}", home.profile())))
        }
        Err(error) => Err(unusable(format!("{}: {error}", home.dir().display()))),
    }
}

/// Reads the choice; none when there is none.
fn read_choice(file: &Path) -> Result<Option<ProfileName>, String> {
    match fs::metadata(file) {
        // A root that is not a directory, or may not be entered, is reported where
        // it is needed.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PermissionDenied
            ) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(error.to_string()),
        Ok(metadata) if !metadata.is_file() => return Err("it is not a file".to_owned()),
        Ok(_) => {}
    }
    let mut bytes = Vec::new();
    File::open(file)
        .and_then(|file| file.take(MAX_CHOICE + 1).read_to_end(&mut bytes))
        .map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MAX_CHOICE {
        return Err("it is too long for a name".to_owned());
    }
    let text = String::from_utf8(bytes).map_err(|_| "it is not text".to_owned())?;
    match text.trim() {
        "" => Ok(None),
        name => ProfileName::new(name).map(Some).map_err(|_| format!("{name:?} is not a name")),
    }
}

#[cfg(test)]
#[path = "home_tests.rs"]
mod tests;
