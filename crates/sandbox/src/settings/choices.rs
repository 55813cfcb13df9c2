//! Settings of sandboxes that are one of a few words. Names of backends are those in the registry.

use serde_json::json;
use vestal_config::kind::{Input, Refusal, closest};
use vestal_config::{Setting, Value};

use crate::backends::{RESERVED_NAMES, registered};

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

impl Setting for BackendChoice {
    type Limits = ();

    fn read(input: Input<'_>, (): &()) -> Result<Self, Refusal> {
        let text = input.scalar()?.trim().to_ascii_lowercase();
        if text == AUTO {
            return Ok(Self::Auto);
        }
        if let Some(declared) = registered().find(|declared| declared.name == text) {
            return Ok(Self::Named(declared.name));
        }
        let mut mistaken = registered().flat_map(|declared| declared.mistaken_names);
        if let Some((_, advice)) = mistaken.find(|(name, _)| *name == text) {
            let refusal = Refusal::new("is no backend of its own");
            return Err(refusal.suggesting(Some((*advice).to_owned())));
        }
        if RESERVED_NAMES.contains(&&*text) {
            return Err(Refusal::new("is a backend that is not in this version"));
        }
        let meant = closest(&text, words()).map(|word| format!("did you mean {word}?"));
        Err(Refusal::new("is no backend").suggesting(meant))
    }

    fn to_value(&self) -> Value {
        Value::Text(self.as_str().to_owned())
    }

    fn allowed((): &()) -> String {
        words().join(", ")
    }

    fn examples((): &()) -> Vec<String> {
        words().into_iter().rev().map(str::to_owned).collect()
    }

    fn schema((): &()) -> serde_json::Value {
        json!({"enum": words()})
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    fn read(text: &str) -> Result<BackendChoice, Refusal> {
        BackendChoice::read(Input::Text(OsStr::new(text)), &())
    }

    #[test]
    fn a_backend_on_the_way_is_told_from_a_misspelt_one() {
        assert_eq!(read("LOCAL"), Ok(BackendChoice::Named("local")));
        assert_eq!(read("auto"), Ok(BackendChoice::Auto));
        for name in RESERVED_NAMES {
            let refusal = read(name).unwrap_err();
            assert_eq!(refusal.reason, "is a backend that is not in this version");
        }
        let refusal = read("Podman").unwrap_err();
        assert_eq!(refusal.reason, "is no backend of its own");
        let advice = "Podman is used through the backend docker; set terminal.backend: docker";
        assert_eq!(refusal.suggestion.as_deref(), Some(advice));
        let refusal = read("locl").unwrap_err();
        assert_eq!(refusal.reason, "is no backend");
        assert_eq!(refusal.suggestion.as_deref(), Some("did you mean local?"));
    }
}
