//! A provider's key, and how it is kept out of everything people read.

use std::fmt;

/// What stands where a secret stood.
const MASK: &str = "***";

/// Shorter words are no secrets, and masking them would only garble a message.
const SHORTEST_SECRET: usize = 4;

/// A key that is never shown: neither `Debug` nor anything else prints it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps a key; blanks around it, as a copied line has them, are no part of it.
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into().trim().to_owned())
    }

    /// Returns the key itself, for the one header that carries it.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// Reports whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Prints nothing of the key, not even its length.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Masks the secrets of one endpoint in text that came from elsewhere.
#[derive(Clone, Default)]
pub(crate) struct Mask {
    secrets: Vec<String>,
}

impl Mask {
    /// Adds a secret, also in the form it has inside of JSON.
    pub(crate) fn add(&mut self, secret: &str) {
        if secret.len() < SHORTEST_SECRET {
            return;
        }
        if let Ok(quoted) = serde_json::to_string(secret) {
            let escaped = quoted.trim_matches('"');
            if escaped != secret {
                self.secrets.push(escaped.to_owned());
            }
        }
        self.secrets.push(secret.to_owned());
        // A secret that is part of another must not tear the longer one apart.
        self.secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    }

    /// Returns the text on one line, without secrets and control characters,
    /// at most `limit` characters long.
    pub(crate) fn clean(&self, text: &str, limit: usize) -> String {
        let mut text = text.to_owned();
        for secret in &self.secrets {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), MASK);
            }
        }
        let words =
            text.split(|c: char| c.is_control() || c == ' ').filter(|word| !word.is_empty());
        let line = words.collect::<Vec<_>>().join(" ");
        match line.char_indices().nth(limit) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line,
        }
    }
}

#[cfg(test)]
#[path = "secret_tests.rs"]
mod tests;
