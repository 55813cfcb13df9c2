//! Which backend makes a sandbox's instances. The names are not known here:
//! they come with the declaration of the key.

use serde_json::json;

use super::Setting;
use crate::input::{Input, Refusal};
use crate::suggest;
use crate::value::Value;

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

/// The names that a backend can have.
#[derive(Debug, Clone, Copy)]
pub struct BackendNames {
    /// The backends there are, the best first.
    pub known: &'static [&'static str],
    /// Names that are none, each with the advice for people who try it.
    pub mistaken: &'static [(&'static str, &'static str)],
    /// Names of backends that a later version will have.
    pub reserved: &'static [&'static str],
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

impl BackendNames {
    fn words(&self) -> Vec<&'static str> {
        std::iter::once(AUTO).chain(self.known.iter().copied()).collect()
    }
}

impl Setting for BackendChoice {
    type Limits = BackendNames;

    fn read(input: Input<'_>, names: &BackendNames) -> Result<Self, Refusal> {
        let text = input.scalar()?.trim().to_ascii_lowercase();
        if text == AUTO {
            return Ok(Self::Auto);
        }
        if let Some(name) = names.known.iter().find(|name| **name == text) {
            return Ok(Self::Named(name));
        }
        if let Some((_, advice)) = names.mistaken.iter().find(|(name, _)| *name == text) {
            let refusal = Refusal::new("is no backend of its own");
            return Err(refusal.suggesting(Some((*advice).to_owned())));
        }
        if names.reserved.contains(&&*text) {
            return Err(Refusal::new("is a backend that is not in this version"));
        }
        let meant = suggest::closest(&text, names.words());
        let meant = meant.map(|word| format!("did you mean {word}?"));
        Err(Refusal::new("is no backend").suggesting(meant))
    }

    fn to_value(&self) -> Value {
        Value::Text(self.as_str().to_owned())
    }

    fn allowed(names: &BackendNames) -> String {
        names.words().join(", ")
    }

    fn examples(names: &BackendNames) -> Vec<String> {
        names.words().into_iter().rev().map(str::to_owned).collect()
    }

    fn schema(names: &BackendNames) -> serde_json::Value {
        json!({"enum": names.words()})
    }
}
