//! Types of settings that only sandboxes have: words, where names of backends are those in
//! the registry, and directories of the host, where commands start and where sandboxes keep
//! their files.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde_json::json;
use vestal_config::kind::{SettingInput, ValueRefusal, closest, expand, path};
use vestal_config::{Setting, SettingValue};

use crate::backend::Declaration;
use crate::backends::{RESERVED_NAMES, UNBUILT, registered};

vestal_config::choices! {
    /// What happens when settings changed since a sandbox was made.
    OnConfigChange, "known reaction", {
        /// Names the keys that differ and goes on.
        Warn = "warn",
        /// Makes a new instance as soon as the sandbox is idle.
        Recreate = "recreate",
        /// Says nothing and goes on.
        Keep = "keep",
    }
}

vestal_config::choices! {
    /// How conversations map to sandboxes.
    Isolation, "known isolation", {
        /// One sandbox per profile.
        Shared = "shared",
        /// One per conversation.
        Conversation = "conversation",
        /// One per task.
        Task = "task",
    }
}

/// The word for the best backend that works.
const AUTO: &str = "auto";

/// What makes a sandbox's instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BackendChoice {
    /// The best one that works here; resolved once per sandbox and recorded.
    Auto,
    /// The one with this name.
    Named(&'static str),
}

impl BackendChoice {
    /// Returns the word that stands for the choice.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => AUTO,
            Self::Named(name) => name,
        }
    }

    /// Returns the name of the backend; nothing for `auto`.
    pub const fn named(self) -> Option<&'static str> {
        match self {
            Self::Auto => None,
            Self::Named(name) => Some(name),
        }
    }
}

impl std::fmt::Display for BackendChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Returns the words that are allowed: `auto` and the names of the backends, the best first.
fn words() -> Vec<&'static str> {
    std::iter::once(AUTO).chain(registered().map(|declared| declared.name)).collect()
}

/// Returns the words that the documentation names, which is the same for every build.
fn documented() -> Vec<&'static str> {
    words().into_iter().chain(UNBUILT.iter().map(|(name, ..)| *name)).collect()
}

impl Setting for BackendChoice {
    type Limits = ();

    fn read(input: SettingInput<'_>, (): &()) -> Result<Self, ValueRefusal> {
        let text = input.scalar()?.trim().to_ascii_lowercase();
        if text == AUTO {
            return Ok(Self::Auto);
        }
        let is_named =
            |declared: &&Declaration| declared.name == text || declared.aliases.contains(&&*text);
        if let Some(declared) = registered().find(is_named) {
            return Ok(Self::Named(declared.name));
        }
        let mut mistaken = registered().flat_map(|declared| declared.mistaken_names);
        if let Some((_, advice)) = mistaken.find(|(name, _)| *name == text) {
            let refusal = ValueRefusal::new("is not a backend of its own");
            return Err(refusal.suggesting(Some((*advice).to_owned())));
        }
        if let Some((_, _, advice)) = UNBUILT.iter().find(|(name, ..)| *name == text) {
            let refusal = ValueRefusal::new("is a backend that this program was built without");
            return Err(refusal.suggesting(Some((*advice).to_owned())));
        }
        if RESERVED_NAMES.contains(&&*text) {
            return Err(ValueRefusal::new("is a backend that is not in this version"));
        }
        let meant = closest(&text, words()).map(|word| format!("did you mean {word}?"));
        Err(ValueRefusal::new("is not a backend").suggesting(meant))
    }

    fn to_value(&self) -> SettingValue {
        SettingValue::Text(self.as_str().to_owned())
    }

    fn allowed((): &()) -> String {
        documented().join(", ")
    }

    fn examples((): &()) -> Vec<String> {
        words().into_iter().rev().map(str::to_owned).collect()
    }

    fn schema((): &()) -> serde_json::Value {
        json!({"enum": documented()})
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

    fn read(input: SettingInput<'_>, (): &()) -> Result<Self, ValueRefusal> {
        let path = path(input)?;
        let launch = [".", "auto", "cwd"].iter().any(|word| path.as_os_str() == OsStr::new(word));
        Ok(if launch { Self::Launch } else { Self::At(path) })
    }

    fn to_value(&self) -> SettingValue {
        SettingValue::Text(match self {
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

    fn read(input: SettingInput<'_>, (): &()) -> Result<Self, ValueRefusal> {
        let path = path(input)?;
        if path.is_absolute() || path.starts_with("~") {
            return Ok(Self::At(path));
        }
        Err(ValueRefusal::new(
            "is a relative path, which would mean another place in every directory",
        ))
    }

    fn to_value(&self) -> SettingValue {
        SettingValue::Text(match self {
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
    use std::ffi::OsStr;

    use super::*;

    fn read(text: &str) -> Result<BackendChoice, ValueRefusal> {
        BackendChoice::read(SettingInput::Text(OsStr::new(text)), &())
    }

    #[test]
    fn a_backend_on_the_way_is_distinguished_from_a_misspelt_one() {
        assert_eq!(read("LOCAL"), Ok(BackendChoice::Named("local")));
        assert_eq!(read("auto"), Ok(BackendChoice::Auto));
        assert_eq!(read("Singularity"), Ok(BackendChoice::Named("apptainer")));
        for name in RESERVED_NAMES {
            let refusal = read(name).unwrap_err();
            assert_eq!(refusal.reason, "is a backend that is not in this version");
        }
        for (name, _, advice) in UNBUILT {
            let refusal = read(name).unwrap_err();
            assert_eq!(refusal.reason, "is a backend that this program was built without");
            assert_eq!(refusal.suggestion.as_deref(), Some(*advice));
        }
        let refusal = read("Podman").unwrap_err();
        assert_eq!(refusal.reason, "is not a backend of its own");
        let advice = "Podman is used through the backend docker; set terminal.backend: docker";
        assert_eq!(refusal.suggestion.as_deref(), Some(advice));
        let refusal = read("locl").unwrap_err();
        assert_eq!(refusal.reason, "is not a backend");
        assert_eq!(refusal.suggestion.as_deref(), Some("did you mean local?"));
    }
}

#[cfg(test)]
mod places_tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    fn read<T: Setting<Limits = ()>>(text: &str) -> Result<T, ValueRefusal> {
        T::read(SettingInput::Text(OsStr::new(text)), &())
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
        assert_eq!(
            StartDir::read(SettingInput::Text(odd), &()),
            Ok(StartDir::At(PathBuf::from(odd)))
        );
        assert_eq!(
            SandboxesDir::read(SettingInput::Text(odd), &()),
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
