//! A conversation without its messages, and its id.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::title::Title;
use crate::usage::Totals;

/// A conversation to be created.
#[derive(Debug, Clone, Default)]
pub struct New {
    /// Its id; `None` to generate one.
    pub id: Option<ConversationId>,
    /// Its title.
    pub title: Option<Title>,
    /// Its front end: `cli`, `delegate`, `api`, …
    pub source: String,
    /// The conversation it comes from, and how.
    pub parent: Option<(ParentKind, ConversationId)>,
    /// The provider that is asked.
    pub provider: String,
    /// The model that is asked.
    pub model: String,
    /// The working directory on the host when it started.
    pub cwd: Option<PathBuf>,
    /// The system prompt.
    pub system_prompt: String,
    /// What its state has from its first moment on, by name: it is never seen without.
    pub state: Vec<(String, Value)>,
}

/// How a conversation relates to its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParentKind {
    /// It branches off at a message.
    Branch,
    /// It does a delegated part of the work.
    Delegation,
    /// It continues where the parent ended.
    Continuation,
}

impl ParentKind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Branch => "branch",
            Self::Delegation => "delegation",
            Self::Continuation => "continuation",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "branch" => Some(Self::Branch),
            "delegation" => Some(Self::Delegation),
            "continuation" => Some(Self::Continuation),
            _ => None,
        }
    }
}

/// The parent of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The relation.
    pub kind: ParentKind,
    /// The parent's id; `None` once it was deleted.
    pub id: Option<ConversationId>,
}

/// A conversation without its messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationRecord {
    /// Its name.
    pub id: ConversationId,
    /// Its title, if it has one.
    pub title: Option<String>,
    /// Its front end.
    pub source: String,
    /// The conversation it comes from, and how.
    pub parent: Option<Parent>,
    /// The provider that is asked.
    pub provider: String,
    /// The model that is asked.
    pub model: String,
    /// The working directory on the host when it started.
    pub cwd: Option<PathBuf>,
    /// When it was made.
    pub started_at: Timestamp,
    /// When it was last used.
    pub updated_at: Timestamp,
    /// When and why it ended; `None` while it is open.
    pub ended: Option<ConversationEnd>,
}

/// The end of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConversationEnd {
    /// When it ended.
    pub at: Timestamp,
    /// Why it ended.
    pub reason: String,
}

/// A conversation in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationSummary {
    /// The conversation.
    pub conversation: ConversationRecord,
    /// Number of messages, without undone ones and summaries.
    pub messages: u64,
    /// Number of tool calls in them.
    pub tool_calls: u64,
    /// Its usage so far, including undone turns.
    pub totals: Totals,
    /// The beginning of the first message of a person.
    pub preview: String,
}

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
pub struct InvalidConversationId {
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
    type Err = InvalidConversationId;

    fn from_str(text: &str) -> Result<Self, InvalidConversationId> {
        let valid = text.len() <= MAX_LENGTH
            && text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        if valid {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidConversationId { text: text.chars().take(2 * MAX_LENGTH).collect() })
        }
    }
}

impl TryFrom<String> for ConversationId {
    type Error = InvalidConversationId;

    fn try_from(text: String) -> Result<Self, InvalidConversationId> {
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
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_when_it_was_made_and_sorts_by_it() {
        let early = ConversationId::generate_at("2026-11-15T10:30:01Z".parse().unwrap()).unwrap();
        let late = ConversationId::generate_at("2026-11-15T10:30:02Z".parse().unwrap()).unwrap();
        assert_eq!(&early.as_str()[..16], "20261115-103001-");
        assert_eq!(early.as_str().len(), 22);
        assert!(early < late);
        assert_eq!(early.short(), &early.as_str()[16..]);
        assert_eq!(early.as_str().parse(), Ok(early.clone()));
    }

    #[test]
    fn names_made_at_the_same_moment_differ() {
        let now = Timestamp::now();
        let made: std::collections::BTreeSet<_> =
            (0..200).map(|_| ConversationId::generate_at(now).unwrap()).collect();
        assert_eq!(made.len(), 200);
    }

    #[test]
    fn what_is_unsafe_as_a_file_name_names_no_conversation() {
        for text in ["", "../x", "a/b", "a.b", "-x", "_x", "ä", "a b", "a\n", &"x".repeat(65)] {
            assert!(text.parse::<ConversationId>().is_err(), "{text:?}");
        }
        for text in ["a", "20260101_120000_ab12cd", "X-1", &"x".repeat(64)] {
            assert_eq!(text.parse::<ConversationId>().unwrap().as_str(), text);
        }
    }
}
