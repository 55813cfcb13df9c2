//! The engine's program.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::input::{Input, Refusal};
use crate::kinds::{Setting, places};
use crate::value::Value;

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
            Self::At(path) => Some(places::expand(path, user_home)),
        }
    }
}

impl Setting for DockerBinary {
    type Limits = ();

    fn read(input: Input<'_>, (): &()) -> Result<Self, Refusal> {
        if matches!(input, Input::Node(node) if node.scalar() == Some("")) {
            return Ok(Self::Found);
        }
        let path = places::path(input)?;
        if path.is_absolute() || (path.starts_with("~") && path != Path::new("~")) {
            return Ok(Self::At(path));
        }
        let name = path.to_str().ok_or_else(|| Refusal::new("is not valid UTF-8"))?;
        if name.contains('/') {
            let reason = "is a relative path, which would mean another file in every directory";
            return Err(Refusal::new(reason));
        }
        if name.starts_with(['-', '~'])
            || name.contains(char::is_whitespace)
            || matches!(name, "." | "..")
        {
            return Err(Refusal::new("is no name of a program"));
        }
        Ok(Self::Name(name.to_owned()))
    }

    fn to_value(&self) -> Value {
        Value::Text(match self {
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
