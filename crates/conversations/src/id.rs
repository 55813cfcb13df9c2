//! The name of a conversation.

use std::fmt;
use std::str::FromStr;

use jiff::{Timestamp, tz::TimeZone};
use serde::{Deserialize, Serialize};

const MAX_LENGTH: usize = 64;
const RANDOM: usize = 6;
/// Letters and digits that nobody takes for another: 32, so that five random
/// bits are one of them.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The name of a conversation: the time it began and six random letters, as in
/// `20261115-103001-k3f9ab`. Names sort by time, are safe as file names, and
/// any unambiguous beginning, or the last part alone, finds them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ConversationId(String);

/// A text that cannot name a conversation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} cannot name a conversation; allowed: up to {MAX_LENGTH} of a-z, A-Z, 0-9, _ and -, a letter or a digit first"
)]
pub struct InvalidId {
    /// The text, shortened.
    pub text: String,
}

impl ConversationId {
    /// Makes a new name.
    ///
    /// Fails only when the system has no randomness to give.
    pub fn generate() -> std::io::Result<Self> {
        Self::generate_at(Timestamp::now())
    }

    pub(crate) fn generate_at(now: Timestamp) -> std::io::Result<Self> {
        let mut random = [0_u8; RANDOM];
        getrandom::fill(&mut random).map_err(std::io::Error::other)?;
        let letters: String = random.iter().map(|byte| char::from(letter(*byte))).collect();
        let began = now.to_zoned(TimeZone::UTC).strftime("%Y%m%d-%H%M%S").to_string();
        Ok(Self(format!("{began}-{letters}")))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the part after the last `-`: short enough to type.
    pub fn short(&self) -> &str {
        self.0.rsplit('-').next().filter(|short| !short.is_empty()).unwrap_or(&self.0)
    }
}

fn letter(byte: u8) -> u8 {
    ALPHABET.get(usize::from(byte & 31)).copied().unwrap_or(b'0')
}

impl FromStr for ConversationId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let valid = text.len() <= MAX_LENGTH
            && text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        if valid {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidId { text: text.chars().take(2 * MAX_LENGTH).collect() })
        }
    }
}

impl TryFrom<String> for ConversationId {
    type Error = InvalidId;

    fn try_from(text: String) -> Result<Self, InvalidId> {
        text.parse()
    }
}

impl From<ConversationId> for String {
    fn from(id: ConversationId) -> Self {
        id.0
    }
}

impl fmt::Display for ConversationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
#[path = "id_tests.rs"]
mod tests;
