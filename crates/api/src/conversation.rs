//! Conversations: what `conversations` and its verbs show, and the lines of an export.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vestal_conversations::{
    ConversationSummary, Hit, MessageAuthor, ParentKind, SnippetPiece, Stored, Totals,
};

use crate::turn::dollars;

/// One conversation without its messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConversationView {
    /// Its id: `YYYYMMDD-HHMMSS-xxxxxx`, in UTC.
    pub id: String,
    /// Its title; no other conversation has it.
    pub title: Option<String>,
    /// What made it, such as `cli`.
    pub source: String,
    /// The conversation it comes from.
    pub parent: Option<ParentView>,
    /// The provider it began with.
    pub provider: String,
    /// The model it began with.
    pub model: String,
    /// The directory it began in.
    pub cwd: Option<String>,
    /// When it began.
    pub started_at: String,
    /// When something was last said in it.
    pub updated_at: String,
    /// When it ended.
    pub ended_at: Option<String>,
    /// Why it ended.
    pub end_reason: Option<String>,
    /// Messages that count.
    pub messages: u64,
    /// Calls of tools in them.
    pub tool_calls: u64,
    /// What it took.
    pub usage: UsageView,
    /// The beginning of what was said first.
    pub preview: String,
}

/// The conversation that another comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ParentView {
    /// How it comes from it: `branch`, `delegation` or `continuation`.
    #[schemars(with = "String")]
    pub kind: ParentKind,
    /// The conversation; null when it was deleted.
    pub id: Option<String>,
}

/// What a conversation took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UsageView {
    /// Calls of the model.
    pub calls: u64,
    /// Tokens that were sent.
    pub input_tokens: u64,
    /// Tokens that came back.
    pub output_tokens: u64,
    /// Tokens read from the provider's cache.
    pub cache_read_tokens: u64,
    /// Tokens written to the provider's cache.
    pub cache_write_tokens: u64,
    /// Tokens that the model thought with.
    pub reasoning_tokens: u64,
    /// What those calls cost whose cost is known.
    pub cost_usd: f64,
    /// Number of calls whose cost is unknown.
    pub unpriced_calls: u64,
}

impl From<&ConversationSummary> for ConversationView {
    fn from(summary: &ConversationSummary) -> Self {
        let conversation = summary.conversation.clone();
        let (ended_at, end_reason) =
            conversation.ended.map(|ended| (ended.at.to_string(), ended.reason)).unzip();
        Self {
            id: conversation.id.into(),
            title: conversation.title,
            source: conversation.source,
            parent: conversation
                .parent
                .map(|parent| ParentView { kind: parent.kind, id: parent.id.map(String::from) }),
            provider: conversation.provider,
            model: conversation.model,
            cwd: conversation.cwd.map(|cwd| cwd.to_string_lossy().into_owned()),
            started_at: conversation.started_at.to_string(),
            updated_at: conversation.updated_at.to_string(),
            ended_at,
            end_reason,
            messages: summary.messages,
            tool_calls: summary.tool_calls,
            usage: (&summary.totals).into(),
            preview: summary.preview.clone(),
        }
    }
}

impl From<&Totals> for UsageView {
    fn from(totals: &Totals) -> Self {
        Self {
            calls: totals.calls,
            input_tokens: totals.usage.input,
            output_tokens: totals.usage.output,
            cache_read_tokens: totals.usage.cache_read,
            cache_write_tokens: totals.usage.cache_write,
            reasoning_tokens: totals.usage.reasoning,
            cost_usd: dollars(totals.micro_usd),
            unpriced_calls: totals.unpriced,
        }
    }
}

/// A conversation with all its messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConversationDetailsView {
    /// What a list says of it.
    #[serde(flatten)]
    pub conversation: ConversationView,
    /// What the model was told first.
    pub system_prompt: String,
    /// The messages in order, undone and compacted ones included.
    pub history: Vec<Stored>,
}

/// Something a search found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HitView {
    /// The conversation.
    pub conversation: String,
    /// Its title.
    pub title: Option<String>,
    /// The message's number.
    pub seq: i64,
    /// Whose message it is.
    pub role: MessageAuthor,
    /// When it was said.
    pub at: String,
    /// The pieces of the text around what was found, in order.
    pub snippet: Vec<SnippetPiece>,
}

impl From<&Hit> for HitView {
    fn from(hit: &Hit) -> Self {
        Self {
            conversation: hit.conversation.to_string(),
            title: hit.title.clone(),
            seq: hit.seq.0,
            role: hit.role,
            at: hit.at.to_string(),
            snippet: hit.snippet.clone(),
        }
    }
}

/// A conversation that was given a title.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenamedConversationView {
    /// The conversation.
    pub id: String,
    /// Its title now.
    pub title: String,
}

/// Turns that were taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoneView {
    /// The conversation.
    pub id: String,
    /// How many turns.
    pub turns: u64,
    /// How many messages that were.
    pub messages: u64,
}

/// A conversation that is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeletedConversationView {
    /// The conversation.
    pub id: String,
    /// Its title.
    pub title: Option<String>,
    /// How many messages it had.
    pub messages: u64,
}

impl From<&ConversationSummary> for DeletedConversationView {
    fn from(summary: &ConversationSummary) -> Self {
        Self {
            id: summary.conversation.id.to_string(),
            title: summary.conversation.title.clone(),
            messages: summary.messages,
        }
    }
}

/// A conversation that was written to a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportedConversationView {
    /// The conversation.
    pub id: String,
    /// The file.
    pub path: String,
    /// How many messages.
    pub messages: usize,
    /// How large the file is.
    pub bytes: usize,
}

/// The version of the lines of an export.
pub const EXPORT_VERSION: u32 = 1;

/// A line of an export.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ExportLine {
    /// The first line: the conversation.
    Conversation {
        /// [`EXPORT_VERSION`].
        version: u32,
        /// What a list says of it.
        #[serde(flatten)]
        conversation: Box<ConversationView>,
        /// What the model was told first.
        system_prompt: String,
    },
    /// Every other line: a message.
    Message(Box<Stored>),
}
