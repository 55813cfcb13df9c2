//! Shapes of answers for the document where they are not types that are served: those of `OpenAI`'s
//! APIs, which are made piece by piece, and what other crates serialize.
//!
//! A test reads what is served as these types, so that the document stays true.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use vestal_api::{ScheduleRunView, ScheduleView};

/// An `OpenAPI` document.
#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct Document {
    /// The version of `OpenAPI`.
    openapi: String,
    /// What is described.
    info: BTreeMap<String, Value>,
    /// The routes.
    paths: BTreeMap<String, Value>,
    /// The types.
    components: BTreeMap<String, Value>,
}

/// Lets a page of a browser connect.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct Ticket {
    /// What is sent as `ticket`; it counts once.
    ticket: String,
    /// How many seconds it counts.
    expires_in: u64,
}

/// The schedules of a profile.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct ScheduleList {
    /// `list`.
    object: String,
    /// What is due next first.
    data: Vec<ScheduleView>,
    /// What is wrong with those that cannot be read.
    unreadable: Vec<String>,
}

/// Runs of a schedule.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct ScheduleRunList {
    /// `list`.
    object: String,
    /// The latest first.
    data: Vec<ScheduleRunView>,
}

/// A message of a session.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct StoredMessage {
    /// Its number in the session.
    seq: i64,
    /// `said`, `aside` (during a turn), `note` (of the program) or `summary`.
    kind: String,
    /// `active`.
    standing: String,
    /// When it was stored.
    at: String,
    /// Its content.
    message: MessageBody,
    /// Tokens of the call that produced it.
    usage: Option<BTreeMap<String, u64>>,
    /// What that call cost.
    cost: Option<MessageCost>,
    /// The provider that was asked.
    provider: Option<String>,
    /// The model that was asked.
    model: Option<String>,
}

/// The content of a message.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "role", rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is used")]
enum MessageBody {
    /// What a person or the program said.
    User {
        /// Words and pictures, in order.
        parts: Vec<MessagePart>,
    },
    /// What the model said.
    Assistant {
        /// The words.
        text: String,
        /// What it thought before.
        #[serde(default)]
        reasoning: Vec<MessageReasoning>,
        /// The tools that it called.
        #[serde(default)]
        calls: Vec<MessageCall>,
        /// Why it stopped.
        finish: String,
    },
    /// What a tool answered.
    Tool {
        /// The call.
        call: String,
        /// The tool.
        name: String,
        /// The answer, secrets masked.
        content: String,
        /// Whether it failed.
        is_error: bool,
        /// Pictures of it.
        #[serde(default)]
        images: Vec<MessageImage>,
    },
}

/// A piece of a message.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is used")]
enum MessagePart {
    /// Words.
    Text {
        /// The words.
        text: String,
    },
    /// A picture.
    Image(MessageImage),
}

/// A picture.
#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct MessageImage {
    /// As `image/png`.
    media_type: String,
    /// Its bytes in base64.
    data: String,
    /// Whether it may be left out for a model that reads no pictures.
    #[serde(default)]
    optional: bool,
}

/// What a model thought.
#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct MessageReasoning {
    /// What may be shown of it.
    text: String,
    /// What only its provider can read.
    #[serde(default)]
    opaque: Option<BTreeMap<String, Value>>,
}

/// A call of a tool.
#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct MessageCall {
    /// The call.
    id: String,
    /// The tool.
    name: String,
    /// JSON, as the model wrote it.
    arguments: String,
}

/// What a call of the model cost.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is used")]
enum MessageCost {
    /// Nobody knows.
    Unknown,
    /// Known.
    Known {
        /// In millionths of a US dollar.
        micro_usd: u64,
        /// `provider` or `prices`.
        source: String,
    },
}

/// A chat completion.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct ChatCompletion {
    /// Its id.
    id: String,
    /// `chat.completion`.
    object: String,
    /// Seconds of Unix time.
    created: i64,
    /// The name that the client gave.
    model: String,
    /// One answer.
    choices: Vec<ChatChoice>,
    /// What it took.
    usage: ChatUsage,
}

/// An answer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct ChatChoice {
    /// 0.
    index: u32,
    /// What the agent said.
    message: ChatAnswer,
    /// Null.
    logprobs: Option<Value>,
    /// `stop`; `length` at the limit of model calls; `content_filter` if the provider refused.
    finish_reason: String,
}

/// What the agent said.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct ChatAnswer {
    /// `assistant`.
    role: String,
    /// The words.
    content: String,
    /// Null.
    refusal: Option<String>,
}

/// What a chat completion took.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct ChatUsage {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    prompt_tokens_details: CachedTokens,
    completion_tokens_details: ReasoningTokens,
}

/// Tokens from the provider's cache.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct CachedTokens {
    cached_tokens: u64,
}

/// Tokens of reasoning.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct ReasoningTokens {
    reasoning_tokens: u64,
}

/// A response.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct ResponseBody {
    /// Its id.
    id: String,
    /// `response`.
    object: String,
    /// Seconds of Unix time.
    created_at: i64,
    /// `in_progress`, `completed`, `incomplete` or `failed`.
    status: String,
    /// False.
    background: bool,
    /// Why it failed.
    error: Option<ResponseError>,
    /// Why it is incomplete.
    incomplete_details: Option<IncompleteDetails>,
    /// What was added to the agent's own instructions.
    instructions: Option<String>,
    /// Null.
    max_output_tokens: Option<u64>,
    /// What the request had.
    metadata: BTreeMap<String, Value>,
    /// The name that the client gave.
    model: String,
    /// What the agent said and did, in order.
    output: Vec<ResponseItem>,
    /// True.
    parallel_tool_calls: bool,
    /// The response that it goes on from.
    previous_response_id: Option<String>,
    /// Members that are null.
    reasoning: BTreeMap<String, Option<String>>,
    /// Whether it is kept.
    store: bool,
    /// Null.
    temperature: Option<f64>,
    /// That the answer is text.
    text: BTreeMap<String, BTreeMap<String, String>>,
    /// `auto`.
    tool_choice: String,
    /// Empty: the agent has its own tools.
    tools: Vec<Value>,
    /// Null.
    top_p: Option<f64>,
    /// `disabled`.
    truncation: String,
    /// What it took.
    usage: Option<ResponseUsage>,
    /// Null.
    user: Option<String>,
}

/// Why a response failed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct ResponseError {
    /// `server_error`.
    code: String,
    /// What happened.
    message: String,
}

/// Why a response is incomplete.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct IncompleteDetails {
    /// `max_output_tokens` or `content_filter`.
    reason: String,
}

/// What the agent said or did.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is used")]
enum ResponseItem {
    /// Words.
    Message {
        /// Its id.
        id: String,
        /// `in_progress` or `completed`.
        status: String,
        /// `assistant`.
        role: String,
        /// One part.
        content: Vec<ResponseText>,
    },
    /// A call of a tool.
    FunctionCall {
        /// Its id.
        id: String,
        /// `in_progress` or `completed`.
        status: String,
        /// What its output refers to.
        call_id: String,
        /// The tool.
        name: String,
        /// JSON, as the model wrote it, secrets masked.
        arguments: String,
    },
    /// What a tool answered.
    FunctionCallOutput {
        /// Its id.
        id: String,
        /// `in_progress` or `completed`.
        status: String,
        /// The call.
        call_id: String,
        /// The answer, secrets masked.
        output: String,
    },
}

/// Words of a response.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct ResponseText {
    /// `output_text`.
    r#type: String,
    /// The words.
    text: String,
    /// Empty.
    annotations: Vec<Value>,
    /// Empty.
    logprobs: Vec<Value>,
}

/// What a response took.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct ResponseUsage {
    input_tokens: u64,
    input_tokens_details: CachedTokens,
    output_tokens: u64,
    output_tokens_details: ReasoningTokens,
    total_tokens: u64,
}

#[cfg(test)]
mod tests {
    use vestal_conversations::{MessageKind, MessageStanding, Seq, Stored};
    use vestal_model::{
        AssistantMessage, Cost, Image, Message, Part, TokenUsage, ToolCall, ToolResult, UserMessage,
    };

    use super::*;

    #[test]
    fn a_message_is_what_the_document_says() {
        let image =
            || Image { media_type: "image/png".to_owned(), data: "AA".to_owned(), optional: true };
        let text = Part::Text { text: "look".to_owned() };
        let call =
            ToolCall { id: "c".to_owned(), name: "t".to_owned(), arguments: "{}".to_owned() };
        for message in [
            Message::User(UserMessage { parts: vec![text, Part::Image(image())] }),
            Message::Assistant(AssistantMessage {
                calls: vec![call],
                ..AssistantMessage::default()
            }),
            Message::Tool(ToolResult { images: vec![image()], ..ToolResult::default() }),
        ] {
            let stored = Stored {
                seq: Seq(1),
                kind: MessageKind::Dialogue,
                standing: MessageStanding::Active,
                at: jiff::Timestamp::UNIX_EPOCH,
                message,
                usage: Some(TokenUsage::default()),
                cost: Some(Cost::Unknown),
                provider: None,
                model: None,
            };
            let read: Result<StoredMessage, _> =
                serde_json::from_value(serde_json::to_value(stored).unwrap());
            assert!(read.is_ok(), "{read:?}");
        }
    }
}
