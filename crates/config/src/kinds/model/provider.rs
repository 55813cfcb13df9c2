//! Names of providers.

use std::fmt;

use serde_json::json;

use crate::input::{Input, Refusal};
use crate::kinds::{Setting, text};
use crate::value::Value;

/// The name of a provider, built in or of `providers`: letters, digits, `_`,
/// `-`, `.` and `:`; capitals become small letters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProviderName(String);

impl ProviderName {
    /// Makes a name, unless it is none.
    pub fn new(name: &str) -> Option<Self> {
        let folded = name.trim().to_ascii_lowercase();
        (text::is_name(&folded) && folded != AUTO).then_some(Self(folded))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProviderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

const AUTO: &str = "auto";

/// The provider to ask.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ProviderChoice {
    /// The one that the model, the address and the keys at hand speak for.
    Auto,
    /// This one.
    Named(ProviderName),
}

impl Setting for ProviderChoice {
    type Limits = ();

    fn read(input: Input<'_>, (): &()) -> Result<Self, Refusal> {
        let text = input.scalar()?.trim();
        if text.is_empty() || text.eq_ignore_ascii_case(AUTO) {
            return Ok(Self::Auto);
        }
        ProviderName::new(text)
            .map(Self::Named)
            .ok_or_else(|| Refusal::new("is no name of a provider"))
    }

    fn to_value(&self) -> Value {
        Value::Text(match self {
            Self::Auto => AUTO.to_owned(),
            Self::Named(name) => name.0.clone(),
        })
    }

    fn allowed((): &()) -> String {
        "auto, a provider that is built in, or a name in providers".to_owned()
    }

    fn examples((): &()) -> Vec<String> {
        vec!["anthropic".to_owned(), "openrouter".to_owned()]
    }

    fn schema((): &()) -> serde_json::Value {
        json!({"type": "string"})
    }
}
