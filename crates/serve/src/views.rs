//! What sessions look like to clients.

use schemars::JsonSchema;
use serde::Serialize;
use vestal_agent::TurnResult;
use vestal_api::KnownCost;
use vestal_conversations::{ConversationSummary, MessageKind, Stored};
use vestal_model::{Message, Part};

use crate::events::{ApprovalQuestion, ClarifyQuestion};

/// What is known of a session.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct SessionInfo {
    /// The conversation in the store; null until the first prompt.
    pub(crate) stored_session_id: Option<String>,
    /// Its title.
    pub(crate) title: Option<String>,
    /// The model that is asked.
    pub(crate) model: Option<String>,
    /// Its provider.
    pub(crate) provider: Option<String>,
    /// The profile.
    pub(crate) profile_name: String,
    /// The directory of the host that it is about.
    pub(crate) cwd: Option<String>,
    /// The task whose sandbox it works in; null until the first prompt.
    pub(crate) task: Option<String>,
    /// Names of the tools that the model has.
    pub(crate) tools: Vec<String>,
    /// Names of the skills that it can use.
    pub(crate) skills: Vec<String>,
    /// Whether everything is allowed unasked.
    pub(crate) yolo: bool,
    /// `approvals.mode` of the settings.
    pub(crate) approval_mode: String,
    /// What becomes of a prompt while a turn runs: `interrupt`, `queue` or `steer`.
    pub(crate) busy: String,
    /// Tokens that the next request takes, by estimate.
    pub(crate) context_tokens: Option<u64>,
    /// Tokens that the model can hold.
    pub(crate) context_window: Option<u64>,
    /// Whether the conversation is opened by the first prompt only.
    pub(crate) lazy: bool,
}

/// What a live session is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SessionStatus {
    /// Nothing.
    Idle,
    /// A turn, or other work in the conversation.
    Running,
    /// A turn that waits for an answer.
    Waiting,
}

/// A live session as a client that attaches to it needs it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct LiveSession {
    /// Its id among the live sessions.
    pub(crate) session_id: String,
    /// The conversation in the store; null until the first prompt.
    pub(crate) stored_session_id: Option<String>,
    /// Whether it goes on with an earlier conversation.
    pub(crate) resumed: bool,
    /// Number of messages.
    pub(crate) message_count: usize,
    /// The messages, oldest first. Those of a turn that runs are as events have told them until event
    /// `seq`, without a number; what the model is saying at that moment is `inflight`.
    pub(crate) messages: Vec<MessageView>,
    /// Whether a turn or other work in the conversation is being done.
    pub(crate) running: bool,
    /// What it is doing.
    pub(crate) status: SessionStatus,
    /// What is known of it.
    pub(crate) info: SessionInfo,
    /// Of a turn that runs, what it has said and done until event `seq`.
    pub(crate) inflight: Option<Inflight>,
    /// Questions that wait for an answer.
    pub(crate) questions: Vec<OpenQuestion>,
    /// Prompts that wait for the end of the turn.
    pub(crate) queued: usize,
    /// Pictures that go with the next prompt, from `image.attach`.
    pub(crate) images: usize,
    /// The number of the last event that this includes; later ones follow as events.
    pub(crate) seq: u64,
}

/// What a turn that runs has said and done.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Inflight {
    /// The words since the last `message.interim`.
    pub(crate) text: String,
    /// Tools at work.
    pub(crate) tools: Vec<RunningTool>,
}

/// A tool at work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct RunningTool {
    /// The id of the call.
    pub(crate) tool_id: String,
    /// The tool.
    pub(crate) name: String,
    /// What it is about, in a line.
    pub(crate) context: String,
}

/// A question that waits for an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum OpenQuestion {
    /// As `approval.request`.
    Approval(ApprovalQuestion),
    /// As `clarify.request`.
    Clarify(ClarifyQuestion),
}

/// A subagent at work.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct SubagentView {
    /// Its conversation.
    pub(crate) subagent_id: String,
    /// Which part it works on, from 0.
    pub(crate) index: usize,
    /// The tool that works for it.
    pub(crate) tool: Option<String>,
    /// How long it has been at work.
    pub(crate) running_s: f64,
}

/// A live session in a list.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct ActiveSession {
    /// Its id among the live sessions.
    pub(crate) id: String,
    /// The conversation in the store.
    pub(crate) session_key: Option<String>,
    /// Its title.
    pub(crate) title: Option<String>,
    /// The beginning of what was said first.
    pub(crate) preview: String,
    /// The model that is asked.
    pub(crate) model: Option<String>,
    /// What it is doing.
    pub(crate) status: SessionStatus,
    /// When it became live.
    pub(crate) started_at: String,
    /// When it was last used.
    pub(crate) last_active: String,
    /// Whether a connection watches it.
    pub(crate) attached: bool,
    /// Whether it is the one that was asked about.
    pub(crate) current: bool,
}

/// A conversation in a list.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct StoredSession {
    /// Its id.
    pub(crate) id: String,
    /// Its title.
    pub(crate) title: Option<String>,
    /// The beginning of what was said first.
    pub(crate) preview: String,
    /// When it began.
    pub(crate) started_at: String,
    /// When it was last used.
    pub(crate) updated_at: String,
    /// Number of messages.
    pub(crate) message_count: u64,
    /// What made it, such as `cli`.
    pub(crate) source: String,
    /// The live session that it is open in.
    pub(crate) live_session_id: Option<String>,
}

impl StoredSession {
    pub(crate) fn new(summary: ConversationSummary, live_session_id: Option<String>) -> Self {
        let conversation = summary.conversation;
        Self {
            id: conversation.id.to_string(),
            title: conversation.title,
            preview: summary.preview,
            started_at: conversation.started_at.to_string(),
            updated_at: conversation.updated_at.to_string(),
            message_count: summary.messages,
            source: conversation.source,
            live_session_id,
        }
    }
}

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct MessageView {
    /// Its number in the conversation; null of one that is not stored yet.
    pub(crate) seq: Option<i64>,
    /// Whose it is.
    pub(crate) role: MessageRole,
    /// The words.
    pub(crate) text: String,
    /// Of a tool's result, the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// Of an answer, the tools it called.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) calls: Vec<CallView>,
    /// Of a tool's result, whether it failed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_error: bool,
    /// Pictures in it.
    #[serde(skip_serializing_if = "is_none")]
    pub(crate) images: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_none(count: &usize) -> bool {
    *count == 0
}

impl MessageView {
    /// Returns a message as an event has told it: it has no number.
    pub(crate) fn live(role: MessageRole, text: String) -> Self {
        let (calls, is_error) = (Vec::new(), false);
        Self { seq: None, role, text, name: None, calls, is_error, images: 0 }
    }
}

/// Whose a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MessageRole {
    /// The person's.
    User,
    /// The model's.
    Assistant,
    /// A tool's.
    Tool,
    /// The program's, for the model.
    Note,
    /// Stands for messages before it.
    Summary,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct CallView {
    /// Its id.
    pub(crate) tool_id: String,
    /// The tool.
    pub(crate) name: String,
    /// Its arguments, as the model wrote them.
    pub(crate) context: String,
}

impl From<Stored> for MessageView {
    fn from(stored: Stored) -> Self {
        let plain = |role, text| Self { seq: Some(stored.seq.0), ..Self::live(role, text) };
        match stored.message {
            Message::User(message) => {
                let role = match stored.kind {
                    MessageKind::Dialogue | MessageKind::Aside => MessageRole::User,
                    MessageKind::Note => MessageRole::Note,
                    MessageKind::Summary => MessageRole::Summary,
                };
                let is_image = |part: &&Part| matches!(part, Part::Image(_));
                let images = message.parts.iter().filter(is_image).count();
                Self { images, ..plain(role, message.text()) }
            }
            Message::Assistant(message) => {
                let calls = message.calls.into_iter().map(|call| CallView {
                    tool_id: call.id,
                    name: call.name,
                    context: call.arguments,
                });
                Self { calls: calls.collect(), ..plain(MessageRole::Assistant, message.text) }
            }
            Message::Tool(result) => Self {
                name: Some(result.name),
                is_error: result.is_error,
                ..plain(MessageRole::Tool, result.content)
            },
        }
    }
}

/// What a turn took.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub(crate) struct TurnUsage {
    /// The model that answered last.
    pub(crate) model: String,
    /// Its provider.
    pub(crate) provider: String,
    /// Calls of the model.
    pub(crate) api_calls: u32,
    /// Calls of tools.
    pub(crate) tool_calls: u32,
    /// Tokens that were sent.
    pub(crate) input_tokens: u64,
    /// Tokens that came back.
    pub(crate) output_tokens: u64,
    /// Tokens read from the provider's cache.
    pub(crate) cache_read_tokens: u64,
    /// All tokens.
    pub(crate) total_tokens: u64,
    /// What it cost, where that is known.
    pub(crate) cost_usd: Option<f64>,
    /// How long it took.
    pub(crate) duration_s: f64,
}

impl From<&TurnResult> for TurnUsage {
    fn from(result: &TurnResult) -> Self {
        Self {
            model: result.model.clone(),
            provider: result.provider.clone(),
            api_calls: result.model_calls,
            tool_calls: result.tool_calls,
            input_tokens: result.usage.input,
            output_tokens: result.usage.output,
            cache_read_tokens: result.usage.cache_read,
            total_tokens: result.usage.total(),
            cost_usd: KnownCost::new(result.cost, !result.provider.is_empty()).usd,
            duration_s: result.took.as_secs_f64(),
        }
    }
}
