//! A conversation without its messages.

use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::ConversationId;
use crate::title::Title;
use crate::usage::Totals;

/// A conversation to be made.
#[derive(Debug, Clone, Default)]
pub struct New {
    /// Its name; `None`: a new one.
    pub id: Option<ConversationId>,
    /// Its title.
    pub title: Option<Title>,
    /// Who makes it: `cli`, `delegate`, `api`, …
    pub source: String,
    /// Where it comes from.
    pub parent: Option<(ParentKind, ConversationId)>,
    /// The provider that is asked.
    pub provider: String,
    /// The model that is asked.
    pub model: String,
    /// The directory of the host it was begun in.
    pub cwd: Option<PathBuf>,
    /// What the model is told before it.
    pub system_prompt: String,
}

/// How a conversation comes from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParentKind {
    /// It goes another way from some message on.
    Branch,
    /// It was given a part of the work.
    Delegation,
    /// It goes on where the other ended.
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

/// Where a conversation comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// How.
    pub kind: ParentKind,
    /// From which; `None` once that was deleted.
    pub id: Option<ConversationId>,
}

/// A conversation without its messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    /// Its name.
    pub id: ConversationId,
    /// Its title, if it has one.
    pub title: Option<String>,
    /// Who made it.
    pub source: String,
    /// Where it comes from.
    pub parent: Option<Parent>,
    /// The provider that is asked.
    pub provider: String,
    /// The model that is asked.
    pub model: String,
    /// The directory of the host it was begun in.
    pub cwd: Option<PathBuf>,
    /// When it was made.
    pub started_at: Timestamp,
    /// When it was last used.
    pub updated_at: Timestamp,
    /// When and why it ended, if nobody has used it since.
    pub ended: Option<Ended>,
}

/// The end of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// When.
    pub at: Timestamp,
    /// Why.
    pub reason: String,
}

/// A conversation in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The conversation.
    pub conversation: Conversation,
    /// Messages, those not counted that were taken back and those that stand
    /// for others.
    pub messages: u64,
    /// Calls of tools in them.
    pub tool_calls: u64,
    /// What it took so far, what was taken back included.
    pub totals: Totals,
    /// How the first message of a person begins.
    pub preview: String,
}
