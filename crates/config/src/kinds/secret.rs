//! Keys and tokens.

use std::fmt;

use serde_json::json;

use super::Setting;
use crate::input::{Input, Refusal};
use crate::value::{MASK, Value};

/// The longest secret; keys of providers are far shorter.
const MAX_BYTES: usize = 16 << 10;

/// A key or a token; empty means none. It is in no debug output.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// No secret.
    pub const EMPTY: Self = Self(String::new());

    /// Makes a secret of text as it stands in a variable. A key goes into the
    /// header of a request, so it is printable ASCII without blanks.
    pub fn new(text: &str) -> Result<Self, &'static str> {
        let text = text.trim();
        if text.len() > MAX_BYTES {
            return Err("is too long for a key");
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("contains characters that no key has");
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns the secret itself, or none when there is none.
    pub fn expose(&self) -> Option<&str> {
        (!self.0.is_empty()).then_some(self.0.as_str())
    }
}

/// Shows whether there is one, never what it is.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "Secret(none)" } else { MASK })
    }
}

impl Setting for Secret {
    type Limits = ();

    fn read(input: Input<'_>, (): &()) -> Result<Self, Refusal> {
        Self::new(input.scalar()?).map_err(|reason| Refusal::new(reason).about_a_secret())
    }

    fn to_value(&self) -> Value {
        Value::Text(self.0.clone())
    }

    fn in_words(&self) -> Option<String> {
        self.0.is_empty().then(|| "none".to_owned())
    }

    fn allowed((): &()) -> String {
        "a key: printable characters without blanks".to_owned()
    }

    fn examples((): &()) -> Vec<String> {
        vec!["sk-first-example".to_owned(), "sk-second-example".to_owned()]
    }

    fn schema((): &()) -> serde_json::Value {
        json!({"type": "string"})
    }
}
