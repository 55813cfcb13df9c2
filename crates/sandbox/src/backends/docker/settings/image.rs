//! Names of images, and the program of the engine.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::json;
use vestal_config::kind::{self, SettingInput, ValueRefusal};
use vestal_config::{Setting, SettingValue};

/// The longest name that is taken; the engines allow less.
const MAX_NAME: usize = 512;

/// The name or the id of an image, as engines take it:
/// `[HOST[:PORT]/]NAME[:TAG][@DIGEST]` or `sha256:…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageName(Cow<'static, str>);

impl ImageName {
    /// Makes the name of a default.
    pub(in crate::backends) const fn declared(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }

    /// Makes a name, or says what is wrong with it, to be read after "which".
    pub fn new(name: &str) -> Result<Self, String> {
        check(name)?;
        Ok(Self(Cow::Owned(name.to_owned())))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reports whether it is an id, which is on the engine or nowhere: there is
    /// nothing to pull.
    pub fn is_id(&self) -> bool {
        self.0.strip_prefix("sha256:").is_some_and(is_sha256)
    }
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

fn check(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("is empty".to_owned());
    }
    if name.len() > MAX_NAME {
        return Err(format!("is longer than {MAX_NAME} characters"));
    }
    if name.starts_with('-') {
        return Err("begins with -, like a flag".to_owned());
    }
    if name.contains(char::is_whitespace) {
        return Err("contains white space".to_owned());
    }
    if name.contains("://") {
        return Err("is an address; an image is named without the part up to ://".to_owned());
    }
    let (name, digest) = match name.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (name, None),
    };
    if digest.is_some_and(|digest| !digest.strip_prefix("sha256:").is_some_and(is_sha256)) {
        return Err(
            "has something after @ that is not sha256: and 64 hexadecimal digits".to_owned()
        );
    }
    let last = name.rfind('/').map_or(0, |slash| slash + 1);
    let colon = name.get(last..).and_then(|part| part.find(':')).map(|at| last + at);
    let (path, tag) = match colon {
        Some(at) => (name.get(..at).unwrap_or(name), name.get(at + 1..)),
        None => (name, None),
    };
    if tag.is_some_and(|tag| !is_tag(tag)) {
        return Err("has a tag that is not letters, digits, ., _ and -".to_owned());
    }
    let mut parts: Vec<&str> = path.split('/').collect();
    if parts.len() > 1 && parts.first().is_some_and(|first| is_registry(first)) {
        parts.remove(0);
    }
    if parts.iter().any(|part| part.bytes().any(|b| b.is_ascii_uppercase())) {
        return Err("has capital letters before the tag, which engines refuse".to_owned());
    }
    if parts.iter().all(|part| is_component(part)) {
        Ok(())
    } else {
        Err("is not the name of an image".to_owned())
    }
}

/// Reports whether the first part names a host, by the rule of the engines.
fn is_registry(part: &str) -> bool {
    let host = part == "localhost" || part.contains(['.', ':']);
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b".:-[]".contains(&b);
    host && part.bytes().all(allowed)
}

fn is_component(part: &str) -> bool {
    let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b);
    edge(part.bytes().next()) && edge(part.bytes().last()) && part.bytes().all(inner)
}

fn is_tag(tag: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    (1..=128).contains(&tag.len()) && tag.bytes().all(inner) && !tag.starts_with(['.', '-'])
}

impl Setting for ImageName {
    type Limits = ();

    fn read(input: SettingInput<'_>, (): &()) -> Result<Self, ValueRefusal> {
        let text = input.scalar()?;
        let bare = text.strip_prefix("docker://").map(|bare| format!("did you mean {bare}?"));
        Self::new(text).map_err(|reason| ValueRefusal::new(reason).suggesting(bare))
    }

    fn to_value(&self) -> SettingValue {
        SettingValue::Text(self.0.clone().into_owned())
    }

    fn allowed((): &()) -> String {
        "the name of an image, [HOST/]NAME[:TAG][@DIGEST], or its id sha256:…".to_owned()
    }

    fn examples((): &()) -> Vec<String> {
        vec!["debian:12".to_owned(), "ghcr.io/owner/image:1.0".to_owned()]
    }

    fn schema((): &()) -> serde_json::Value {
        json!({"type": "string", "pattern": "^[A-Za-z0-9][^\\s]*$"})
    }
}

/// The program of the container engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DockerBinary {
    /// The one that is found: `docker`, else `podman`.
    Found,
    /// A name to look for on the search path.
    Name(String),
    /// A file: absolute, or below the user's home as `~/…`.
    At(PathBuf),
}

impl DockerBinary {
    /// Returns the name or the file, `~` replaced by the user's home when that
    /// is known; none when it is to be found.
    pub fn resolve(&self, user_home: Option<&Path>) -> Option<PathBuf> {
        match self {
            Self::Found => None,
            Self::Name(name) => Some(PathBuf::from(name)),
            Self::At(path) => Some(kind::expand(path, user_home)),
        }
    }
}

impl Setting for DockerBinary {
    type Limits = ();

    fn read(input: SettingInput<'_>, (): &()) -> Result<Self, ValueRefusal> {
        if matches!(input, SettingInput::Node(node) if node.scalar() == Some("")) {
            return Ok(Self::Found);
        }
        let path = kind::path(input)?;
        if path.is_absolute() || (path.starts_with("~") && path != Path::new("~")) {
            return Ok(Self::At(path));
        }
        let name = path.to_str().ok_or_else(|| ValueRefusal::new("is not valid UTF-8"))?;
        if name.contains('/') {
            let reason = "is a relative path, which would mean another file in every directory";
            return Err(ValueRefusal::new(reason));
        }
        if name.starts_with(['-', '~'])
            || name.contains(char::is_whitespace)
            || matches!(name, "." | "..")
        {
            return Err(ValueRefusal::new("is not the name of a program"));
        }
        Ok(Self::Name(name.to_owned()))
    }

    fn to_value(&self) -> SettingValue {
        SettingValue::Text(match self {
            Self::Found => String::new(),
            Self::Name(name) => name.clone(),
            Self::At(path) => path.to_string_lossy().into_owned(),
        })
    }

    fn in_words(&self) -> Option<String> {
        (*self == Self::Found).then(|| "found by itself".to_owned())
    }

    fn allowed((): &()) -> String {
        "a name on the search path, an absolute path, or one that starts with ~/".to_owned()
    }

    fn examples((): &()) -> Vec<String> {
        vec!["podman".to_owned(), "/opt/docker/bin/docker".to_owned()]
    }

    fn schema((): &()) -> serde_json::Value {
        json!({"type": "string"})
    }
}

#[cfg(test)]
#[path = "image_tests.rs"]
mod tests;
