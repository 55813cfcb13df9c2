//! A message as it is stored.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vestal_model::{Completion, Cost, Message, Usage};

/// The number of a message in its conversation, from 1, never used twice.
/// Numbers grow as messages come; only a summary stands before messages of
/// lower numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub i64);

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why a message is there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Somebody said it. Such a message of a person begins a turn.
    #[default]
    Said,
    /// A person said it while a turn ran; it belongs to that turn.
    Aside,
    /// The program put it in for the model; it begins no turn.
    Note,
    /// It stands for messages before it.
    Summary,
}

impl Kind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Said => "said",
            Self::Aside => "aside",
            Self::Note => "note",
            Self::Summary => "summary",
        }
    }

    pub(crate) fn named(name: &str) -> Self {
        match name {
            "aside" => Self::Aside,
            "note" => Self::Note,
            "summary" => Self::Summary,
            _ => Self::Said,
        }
    }
}

/// A message to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct NewMessage {
    /// What is said.
    pub message: Message,
    /// Why it is there.
    pub kind: Kind,
    /// What the call took that brought it; counted once, here.
    pub usage: Option<Usage>,
    /// What that call cost.
    pub cost: Option<Cost>,
    /// The provider that was asked, if not the conversation's.
    pub provider: Option<String>,
    /// The model that was asked, if not the conversation's.
    pub model: Option<String>,
}

impl NewMessage {
    /// Makes one that somebody said.
    pub fn said(message: Message) -> Self {
        Self { message, kind: Kind::Said, usage: None, cost: None, provider: None, model: None }
    }

    /// Makes one that a person said while a turn ran.
    pub fn aside(message: Message) -> Self {
        Self { kind: Kind::Aside, ..Self::said(message) }
    }

    /// Makes one that the program puts in.
    pub fn note(message: Message) -> Self {
        Self { kind: Kind::Note, ..Self::said(message) }
    }
}

impl From<Message> for NewMessage {
    fn from(message: Message) -> Self {
        Self::said(message)
    }
}

/// What a model answered, with what it took.
impl From<&Completion> for NewMessage {
    fn from(completion: &Completion) -> Self {
        Self {
            usage: Some(completion.usage),
            cost: Some(completion.cost),
            provider: Some(completion.provider.clone()),
            model: Some(completion.model.clone()),
            ..Self::said(Message::Assistant(completion.message.clone()))
        }
    }
}

/// Whether a message still counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// The model sees it.
    Active,
    /// A summary stands for it; it is kept and found by a search.
    Compacted,
    /// It was taken back; it is kept, and nobody is shown it unasked.
    Undone,
}

/// A stored message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stored {
    /// Its number.
    pub seq: Seq,
    /// Why it is there.
    pub kind: Kind,
    /// Whether it still counts.
    pub standing: Standing,
    /// When it was stored.
    pub at: Timestamp,
    /// What is said.
    pub message: Message,
    /// What the call took that brought it.
    pub usage: Option<Usage>,
    /// What that call cost.
    pub cost: Option<Cost>,
    /// The provider that was asked, where it was told.
    pub provider: Option<String>,
    /// The model that was asked, where it was told.
    pub model: Option<String>,
}
