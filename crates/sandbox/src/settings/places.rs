//! Directories of the host: where commands start, and where sandboxes keep their files.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde_json::json;
use vestal_config::kind::{Input, Refusal, expand, path};
use vestal_config::{Setting, Value};

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
pub enum SandboxesDir {
    /// In the profile's home.
    InHome,
    /// In a directory of its own: absolute, or below the user's home as `~/…`.
    At(PathBuf),
}

impl SandboxesDir {
    /// Returns the directory; `in_home` is the one in the profile's home.
    pub(crate) fn resolve(&self, in_home: PathBuf, user_home: Option<&Path>) -> PathBuf {
        match self {
            Self::InHome => in_home,
            Self::At(path) => expand(path, user_home),
        }
    }
}

impl Setting for SandboxesDir {
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

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    fn read<T: Setting<Limits = ()>>(text: &str) -> Result<T, Refusal> {
        T::read(Input::Text(OsStr::new(text)), &())
    }

    #[test]
    fn start_directories_know_placeholders_and_home() {
        let (launch, home) = (Path::new("/launch"), Path::new("/home/ada"));
        let resolve = |text: &str| read::<StartDir>(text).unwrap().resolve(launch, Some(home));
        for placeholder in [".", "auto", "cwd"] {
            assert_eq!(resolve(placeholder), launch);
        }
        assert_eq!(resolve("/srv"), Path::new("/srv"));
        assert_eq!(resolve("sub/dir"), Path::new("/launch/sub/dir"));
        assert_eq!(resolve("~"), home);
        assert_eq!(resolve("~/x"), Path::new("/home/ada/x"));
        assert_eq!(resolve("~bob/x"), Path::new("/launch/~bob/x"));
    }

    #[test]
    fn a_directory_in_a_variable_need_not_be_utf8() {
        let odd = OsStr::from_bytes(b"/srv/\xff");
        assert_eq!(StartDir::read(Input::Text(odd), &()), Ok(StartDir::At(PathBuf::from(odd))));
        assert_eq!(
            SandboxesDir::read(Input::Text(odd), &()),
            Ok(SandboxesDir::At(PathBuf::from(odd)))
        );
    }

    #[test]
    fn a_relative_sandbox_directory_is_refused() {
        assert!(read::<SandboxesDir>("boxes").is_err());
        let in_home = PathBuf::from("/v/sandboxes");
        assert_eq!(SandboxesDir::InHome.resolve(in_home.clone(), None), in_home);
        let tilde = read::<SandboxesDir>("~/boxes").unwrap();
        let home = Some(Path::new("/home/ada"));
        assert_eq!(tilde.resolve(in_home, home), Path::new("/home/ada/boxes"));
    }
}
