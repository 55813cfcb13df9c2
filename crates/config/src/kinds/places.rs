//! Directories.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::Setting;
use crate::input::{Input, Refusal};
use crate::value::Value;

/// Returns the path that was given. A variable's need not be UTF-8.
pub(super) fn path(input: Input<'_>) -> Result<PathBuf, Refusal> {
    let path = match input {
        Input::Text(text) => PathBuf::from(text),
        Input::Node(_) => PathBuf::from(input.scalar()?),
    };
    if path.as_os_str().is_empty() {
        return Err(Refusal::new("is empty"));
    }
    if path.as_os_str().as_bytes().contains(&0) {
        return Err(Refusal::new("contains a NUL character"));
    }
    Ok(path)
}

/// Replaces a leading `~` by the user's home, when that is known.
pub(super) fn expand(path: &Path, user_home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~"), user_home) {
        (Ok(rest), Some(home)) if rest.as_os_str().is_empty() => home.to_owned(),
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path.to_owned(),
    }
}

/// Where commands start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartDir {
    /// Where `vestal` was started.
    Launch,
    /// A directory; relative ones start from where `vestal` was started, `~` is the user's home.
    At(PathBuf),
}

impl StartDir {
    /// Returns the directory, for a program started in `launch_dir`.
    pub fn resolve(&self, launch_dir: &Path, user_home: Option<&Path>) -> PathBuf {
        match self {
            Self::Launch => launch_dir.to_owned(),
            Self::At(path) => launch_dir.join(expand(path, user_home)),
        }
    }
}

impl Setting for StartDir {
    type Limits = ();

    const TILDE_IS_HOME: bool = true;

    fn read(input: Input<'_>, (): &()) -> Result<Self, Refusal> {
        let path = path(input)?;
        let launch = [".", "auto", "cwd"].iter().any(|word| path.as_os_str() == OsStr::new(word));
        Ok(if launch { Self::Launch } else { Self::At(path) })
    }

    fn to_value(&self) -> Value {
        Value::Text(match self {
            Self::Launch => ".".to_owned(),
            Self::At(path) => path.to_string_lossy().into_owned(),
        })
    }

    fn allowed((): &()) -> String {
        "a directory, or one of `.`, `auto`, `cwd` for where vestal was started".to_owned()
    }

    fn examples((): &()) -> Vec<String> {
        vec!["/srv/project".to_owned(), "~/work".to_owned()]
    }

    fn schema((): &()) -> serde_json::Value {
        json!({"type": "string", "minLength": 1})
    }
}

/// Where sandboxes keep their files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SandboxDir {
    /// In the profile's home.
    InHome,
    /// In a directory of its own: absolute, or below the user's home as `~/…`.
    At(PathBuf),
}

impl SandboxDir {
    /// Returns the directory; `in_home` is the one in the profile's home.
    pub(crate) fn resolve(&self, in_home: PathBuf, user_home: Option<&Path>) -> PathBuf {
        match self {
            Self::InHome => in_home,
            Self::At(path) => expand(path, user_home),
        }
    }
}

impl Setting for SandboxDir {
    type Limits = ();

    const TILDE_IS_HOME: bool = true;

    fn read(input: Input<'_>, (): &()) -> Result<Self, Refusal> {
        let path = path(input)?;
        if path.is_absolute() || path.starts_with("~") {
            return Ok(Self::At(path));
        }
        Err(Refusal::new("is a relative path, which would mean another place in every directory"))
    }

    fn to_value(&self) -> Value {
        Value::Text(match self {
            Self::InHome => "<profile home>/sandboxes".to_owned(),
            Self::At(path) => path.to_string_lossy().into_owned(),
        })
    }

    fn allowed((): &()) -> String {
        "an absolute path, or one that starts with ~/".to_owned()
    }

    fn examples((): &()) -> Vec<String> {
        vec!["/srv/sandboxes".to_owned(), "~/sandboxes".to_owned()]
    }

    fn schema((): &()) -> serde_json::Value {
        json!({"type": "string", "pattern": "^[/~]"})
    }
}

/// What native sandboxes have for a system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rootfs {
    /// This machine's own.
    Host,
    /// A directory or an archive of it: absolute, or below the user's home as `~/…`.
    At(PathBuf),
}

impl Rootfs {
    const HOST: &str = "host";

    /// Returns the directory or archive, if it is not this machine's own.
    pub fn resolve(&self, user_home: Option<&Path>) -> Option<PathBuf> {
        match self {
            Self::Host => None,
            Self::At(path) => Some(expand(path, user_home)),
        }
    }
}

impl Setting for Rootfs {
    type Limits = ();

    const TILDE_IS_HOME: bool = true;

    fn read(input: Input<'_>, (): &()) -> Result<Self, Refusal> {
        let path = path(input)?;
        if path.as_os_str() == OsStr::new(Self::HOST) {
            return Ok(Self::Host);
        }
        if path.is_absolute() || path.starts_with("~") {
            return Ok(Self::At(path));
        }
        Err(Refusal::new("is a relative path, which would mean another place in every directory"))
    }

    fn to_value(&self) -> Value {
        Value::Text(match self {
            Self::Host => Self::HOST.to_owned(),
            Self::At(path) => path.to_string_lossy().into_owned(),
        })
    }

    fn allowed((): &()) -> String {
        "host for this machine's own, an absolute path, or one that starts with ~/".to_owned()
    }

    fn examples((): &()) -> Vec<String> {
        vec!["/srv/debian".to_owned(), "~/debian.tar.gz".to_owned()]
    }

    fn schema((): &()) -> serde_json::Value {
        json!({"type": "string", "pattern": "^(host$|[/~])"})
    }
}
