//! Paths on the host and in containers.

use std::path::Path;

use crate::kinds::places;

/// Where the guest and what belongs to it are in a container; nobody else's.
const OWN_DIR: &str = "/.vestal";

/// A path on the host: absolute, or below the user's home as `~` or `~/…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPath(String);

impl HostPath {
    /// Makes a path, unless it is relative or cannot be one.
    pub(super) fn new(text: &str) -> Result<Self, String> {
        if text.contains('\0') {
            return Err("contains a NUL character".to_owned());
        }
        if text.starts_with('/') || text == "~" || text.starts_with("~/") {
            return Ok(Self(text.to_owned()));
        }
        if text.starts_with('~') {
            return Err("is in another user's home, which is not looked up".to_owned());
        }
        Err("is a relative path".to_owned())
    }

    /// Returns the path as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the absolute path; none when it is below the user's home and
    /// that is unknown.
    pub fn resolve(&self, user_home: Option<&Path>) -> Option<String> {
        let path = places::expand(Path::new(&self.0), user_home);
        path.is_absolute().then(|| path.to_string_lossy().into_owned())
    }
}

/// How mounts made later on one side of a bind mount are seen on the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// Not at all.
    Private,
    /// Not at all, nor for mounts below it.
    Rprivate,
    /// On both sides.
    Shared,
    /// On both sides, also for mounts below it.
    Rshared,
    /// The host's in the container.
    Slave,
    /// The host's in the container, also for mounts below it.
    Rslave,
}

impl Propagation {
    const WORDS: [(&'static str, Self); 6] = [
        ("private", Self::Private),
        ("rprivate", Self::Rprivate),
        ("shared", Self::Shared),
        ("rshared", Self::Rshared),
        ("slave", Self::Slave),
        ("rslave", Self::Rslave),
    ];

    pub(super) fn from_word(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(own, _)| *own == word).map(|(_, value)| *value)
    }

    /// Returns the word that engines take.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::Rprivate => "rprivate",
            Self::Shared => "shared",
            Self::Rshared => "rshared",
            Self::Slave => "slave",
            Self::Rslave => "rslave",
        }
    }
}

/// Reads the place of a mount in a container: an absolute path, which is
/// returned without needless slashes and dots.
pub(super) fn target(text: &str) -> Result<String, String> {
    if !text.starts_with('/') {
        return Err(format!("has the target {text:?}, which is not an absolute path"));
    }
    if text.contains('\0') {
        return Err("has a target with a NUL character".to_owned());
    }
    let mut path = String::new();
    for part in text.split('/').filter(|part| !matches!(*part, "" | ".")) {
        if part == ".." {
            return Err(format!("has the target {text:?}, which goes up with .."));
        }
        path.push('/');
        path.push_str(part);
    }
    if path.is_empty() {
        return Err("has the target /, which would hide the image".to_owned());
    }
    if path == OWN_DIR || path.starts_with("/.vestal/") {
        return Err(format!("has the target {text:?}, where Vestal's own files are"));
    }
    Ok(path)
}

/// Resolves `.` and `..` by name, as far as that is possible without looking.
pub(super) fn lexical(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    format!("/{}", parts.join("/"))
}
