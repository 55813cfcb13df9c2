//! A request in this API's shape.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::effort::ReasoningEffort;
use crate::endpoint::Endpoint;
use crate::history::{Called, HistoryTurn, IdRule, turns};
use crate::message::{AssistantMessage, Image, Part, ProviderApi, UserMessage};
use crate::quirks::{Quirks, ThinkingRule};
use crate::request::{ModelRequest, ToolSpec};

/// What a model may write unless the caller says: the API insists on a number,
/// and this one leaves room for a long file.
pub(crate) const DEFAULT_MAX_TOKENS: u64 = 32_000;

/// The fewest tokens that the API takes for thinking.
const LEAST_BUDGET: u64 = 1024;

/// Tokens of an answer that are left beside what is thought.
const LEAST_ANSWER: u64 = 1024;

/// How many of the last messages of the person's side end a cached prefix. The
/// API takes four marks; one goes to the tools and one to the system prompt.
const CACHED_MESSAGES: usize = 2;

#[derive(Serialize)]
struct MessagesBody<'a> {
    model: &'a str,
    max_tokens: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<SystemBlock<'a>>,
    messages: Vec<MessagesEntry<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<MessagesTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<TypeTag>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig>,
    stream: bool,
}

/// Whether the model thinks, and with how many tokens.
#[derive(Serialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Thinking {
    Enabled { budget_tokens: u64 },
    Adaptive,
}

#[derive(Serialize, Debug, Clone, Copy, PartialEq, Eq)]
struct OutputConfig {
    effort: &'static str,
}

#[derive(Serialize, Clone, Copy)]
struct TypeTag {
    #[serde(rename = "type")]
    kind: &'static str,
}

const EPHEMERAL: TypeTag = TypeTag { kind: "ephemeral" };

#[derive(Serialize)]
struct SystemBlock<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    text: &'a str,
    cache_control: TypeTag,
}

#[derive(Serialize)]
struct MessagesTool<'a> {
    name: Cow<'a, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    input_schema: Cow<'a, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<TypeTag>,
}

#[derive(Serialize)]
struct MessagesEntry<'a> {
    role: MessagesRole,
    content: Vec<MarkedBlock<'a>>,
}

#[derive(Serialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum MessagesRole {
    User,
    Assistant,
}

#[derive(Serialize)]
struct MarkedBlock<'a> {
    #[serde(flatten)]
    block: MessageBlock<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<TypeTag>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum MessageBlock<'a> {
    Text {
        text: &'a str,
    },
    Image {
        source: ImageSource<'a>,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: Cow<'a, str>,
        input: Box<RawValue>,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<ResultContent<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
    #[serde(untagged)]
    Kept(&'a Value),
}

/// The result of a tool.
#[derive(Serialize)]
#[serde(untagged)]
enum ResultContent<'a> {
    Words(&'a str),
    /// Words and pictures.
    Blocks(Vec<MessageBlock<'a>>),
}

#[derive(Serialize)]
struct ImageSource<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    media_type: &'a str,
    data: &'a str,
}

/// Returns the body of a request.
pub(crate) fn body(
    endpoint: &Endpoint,
    request: &ModelRequest<'_>,
    quirks: Quirks,
) -> Result<Bytes, serde_json::Error> {
    let turns = turns(request.messages, IdRule::Word);
    let (tools, tool_choice) = tools(request.tools, &turns);
    let may_think = may_think(endpoint, &turns, quirks);
    let mut messages = entries(endpoint, turns, quirks)?;
    mark(&mut messages);
    let blank = request.system.trim().is_empty();
    let system = (!blank).then_some(SystemBlock {
        kind: "text",
        text: request.system,
        cache_control: EPHEMERAL,
    });
    let budget = budget(request, quirks);
    // What it thinks counts among what it may write.
    let wanted =
        request.max_output_tokens.unwrap_or(DEFAULT_MAX_TOKENS.saturating_add(budget.unwrap_or(0)));
    let max_tokens = wanted.min(quirks.most_output.unwrap_or(u64::MAX));
    let thinking = match quirks.thinking {
        ThinkingRule::Plain if may_think => budget
            .map(|budget| budget.min(max_tokens.saturating_sub(LEAST_ANSWER)))
            .filter(|budget| *budget >= LEAST_BUDGET)
            .map(|budget_tokens| Thinking::Enabled { budget_tokens }),
        ThinkingRule::Adaptive => is_thinking(request).then_some(Thinking::Adaptive),
        ThinkingRule::Plain | ThinkingRule::LeftOut => None,
    };
    let body = MessagesBody {
        model: &endpoint.model,
        max_tokens,
        system: system.into_iter().collect(),
        messages,
        tools,
        tool_choice,
        thinking,
        output_config: output_config(request, quirks),
        stream: true,
    };
    serde_json::to_vec(&body).map(Bytes::from)
}

/// Returns the tokens that the model may think with, if the API is told a number.
fn budget(request: &ModelRequest<'_>, quirks: Quirks) -> Option<u64> {
    let reasoning = request.reasoning.unwrap_or_default();
    if quirks.thinking != ThinkingRule::Plain || reasoning.effort == Some(ReasoningEffort::None) {
        return None;
    }
    reasoning.budget_tokens.or_else(|| reasoning.effort?.budget()).map(|n| n.max(LEAST_BUDGET))
}

/// Reports whether the model was told to think at all.
fn is_thinking(request: &ModelRequest<'_>) -> bool {
    let reasoning = request.reasoning.unwrap_or_default();
    !reasoning.is_auto() && reasoning.effort != Some(ReasoningEffort::None)
}

/// Returns how much the model thinks where that is said by a word.
fn output_config(request: &ModelRequest<'_>, quirks: Quirks) -> Option<OutputConfig> {
    let effort = request.reasoning.unwrap_or_default().effort?;
    let effort = match effort {
        ReasoningEffort::None => return None,
        ReasoningEffort::Minimal | ReasoningEffort::Low => "low",
        ReasoningEffort::Medium => "medium",
        ReasoningEffort::High => "high",
        ReasoningEffort::XHigh => "max",
    };
    (quirks.thinking == ThinkingRule::Adaptive).then_some(OutputConfig { effort })
}

/// Reports whether the API lets the model think about what comes next: amid calls
/// of tools only if their message begins with thoughts, which are missing where
/// another model made it.
fn may_think(endpoint: &Endpoint, turns: &[HistoryTurn<'_>], quirks: Quirks) -> bool {
    let last = turns.iter().rev().find_map(|turn| match turn {
        HistoryTurn::Assistant { message, calls } => Some((message, calls)),
        HistoryTurn::User(_) => None,
    });
    let Some((message, _)) = last.filter(|(_, calls)| !calls.is_empty()) else { return true };
    !quirks.without_reasoning && own_thoughts(endpoint, message).next().is_some()
}

/// Returns the blocks of thoughts that this provider made and takes back.
fn own_thoughts<'a>(
    endpoint: &Endpoint,
    message: &'a AssistantMessage,
) -> impl Iterator<Item = &'a Value> {
    let opaque = message.reasoning.iter().filter_map(|block| block.opaque.as_ref());
    opaque
        .filter(|opaque| {
            opaque.api == ProviderApi::AnthropicMessages && opaque.provider == endpoint.name
        })
        .map(|opaque| &opaque.value)
        .filter(|value| value.is_object())
}

/// Returns the tools. A history with calls needs tools to go with them: where
/// none may be called, those that were are named and forbidden.
fn tools<'a>(
    specs: &'a [ToolSpec],
    turns: &[HistoryTurn<'a>],
) -> (Vec<MessagesTool<'a>>, Option<TypeTag>) {
    let mut tools: Vec<MessagesTool<'a>> = Vec::with_capacity(specs.len());
    for spec in specs {
        tools.push(MessagesTool {
            name: Cow::Borrowed(&spec.name),
            description: &spec.description,
            input_schema: Cow::Borrowed(&spec.parameters),
            cache_control: None,
        });
    }
    let mut tool_choice = None;
    if specs.is_empty() {
        let calls = turns.iter().flat_map(|turn| match turn {
            HistoryTurn::Assistant { calls, .. } => calls.as_slice(),
            HistoryTurn::User(_) => &[],
        });
        for call in calls {
            if tools.iter().all(|tool| tool.name != call.name) {
                tools.push(MessagesTool {
                    name: call.name.clone(),
                    description: "",
                    input_schema: Cow::Owned(serde_json::json!({ "type": "object" })),
                    cache_control: None,
                });
            }
        }
        tool_choice = (!tools.is_empty()).then_some(TypeTag { kind: "none" });
    }
    if let Some(last) = tools.last_mut() {
        last.cache_control = Some(EPHEMERAL);
    }
    (tools, tool_choice)
}

fn entries<'a>(
    endpoint: &Endpoint,
    turns: Vec<HistoryTurn<'a>>,
    quirks: Quirks,
) -> Result<Vec<MessagesEntry<'a>>, serde_json::Error> {
    let mut entries = Vec::with_capacity(turns.len() + 2);
    for turn in turns {
        match turn {
            HistoryTurn::User(message) => {
                push(&mut entries, MessagesRole::User, user(message, quirks));
            }
            HistoryTurn::Assistant { message, calls } => {
                let (blocks, results) = assistant(endpoint, message, calls, quirks)?;
                push(&mut entries, MessagesRole::Assistant, blocks);
                push(&mut entries, MessagesRole::User, results);
            }
        }
    }
    // The API wants a person's side to begin and to end with.
    if entries.first().is_some_and(|entry| entry.role == MessagesRole::Assistant) {
        let content = vec![plain("(Earlier messages are left out.)")];
        entries.insert(0, MessagesEntry { role: MessagesRole::User, content });
    }
    if entries.last().is_some_and(|entry| entry.role == MessagesRole::Assistant) {
        push(&mut entries, MessagesRole::User, vec![plain("Continue.")]);
    }
    Ok(entries)
}

/// Adds blocks, to the last entry if that is of the same role: roles alternate.
fn push<'a>(
    entries: &mut Vec<MessagesEntry<'a>>,
    role: MessagesRole,
    content: Vec<MarkedBlock<'a>>,
) {
    if content.is_empty() {
        return;
    }
    match entries.last_mut() {
        Some(last) if last.role == role => last.content.extend(content),
        _ => entries.push(MessagesEntry { role, content }),
    }
}

fn user(message: &UserMessage, quirks: Quirks) -> Vec<MarkedBlock<'_>> {
    let is_sent = |part: &&Part| !(quirks.without_optional_images && part.is_optional());
    let blocks = message.parts.iter().filter(is_sent).filter_map(|part| match part {
        Part::Text { text } if text.trim().is_empty() => None,
        Part::Text { text } => Some(plain(text)),
        Part::Image(image) => Some(unmarked(picture(image))),
    });
    blocks.collect()
}

fn picture(image: &Image) -> MessageBlock<'_> {
    let source = ImageSource { kind: "base64", media_type: &image.media_type, data: &image.data };
    MessageBlock::Image { source }
}

fn result_content<'a>(call: &Called<'a>, quirks: Quirks) -> Option<ResultContent<'a>> {
    let words = Some(call.content).filter(|content| !content.trim().is_empty());
    if call.images.is_empty() || quirks.without_optional_images {
        return words.map(ResultContent::Words);
    }
    let words = words.map(|text| MessageBlock::Text { text });
    Some(ResultContent::Blocks(words.into_iter().chain(call.images.iter().map(picture)).collect()))
}

type MarkedBlocks<'a> = Vec<MarkedBlock<'a>>;

/// Returns what the model said, and the results that follow it.
fn assistant<'a>(
    endpoint: &Endpoint,
    message: &'a AssistantMessage,
    calls: Vec<Called<'a>>,
    quirks: Quirks,
) -> Result<(MarkedBlocks<'a>, MarkedBlocks<'a>), serde_json::Error> {
    let silent = message.text.trim().is_empty();
    if silent && calls.is_empty() {
        // Thoughts alone are not a message.
        return Ok((Vec::new(), Vec::new()));
    }
    let mut blocks = Vec::new();
    let mut results = Vec::new();
    if !quirks.without_reasoning {
        blocks
            .extend(own_thoughts(endpoint, message).map(|kept| unmarked(MessageBlock::Kept(kept))));
    }
    if !silent {
        // The API refuses a last text with blanks at its end.
        blocks.push(plain(message.text.trim_end()));
    }
    for call in calls {
        results.push(unmarked(MessageBlock::ToolResult {
            tool_use_id: call.id.clone(),
            content: result_content(&call, quirks),
            is_error: call.is_error,
        }));
        let input = RawValue::from_string(call.arguments.into_owned())?;
        blocks.push(unmarked(MessageBlock::ToolUse { id: call.id, name: call.name, input }));
    }
    Ok((blocks, results))
}

/// Marks where the prefixes end that the provider shall keep.
fn mark(entries: &mut [MessagesEntry<'_>]) {
    let theirs = entries.iter_mut().rev().filter(|entry| entry.role == MessagesRole::User);
    for entry in theirs.take(CACHED_MESSAGES) {
        if let Some(last) = entry.content.last_mut() {
            last.cache_control = Some(EPHEMERAL);
        }
    }
}

const fn unmarked(block: MessageBlock<'_>) -> MarkedBlock<'_> {
    MarkedBlock { block, cache_control: None }
}

const fn plain(text: &str) -> MarkedBlock<'_> {
    unmarked(MessageBlock::Text { text })
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
