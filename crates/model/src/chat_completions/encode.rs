//! A request in this API's shape.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

use super::reasoning;
use crate::effort::ReasoningEffort;
use crate::endpoint::Endpoint;
use crate::history::{Called, HistoryTurn, IdRule, turns};
use crate::message::{AssistantMessage, Image, Part, UserMessage};
use crate::quirks::{OutputLimit, Quirks, ThinkingRule};
use crate::request::{ModelRequest, ToolSpec};

#[derive(Serialize)]
struct ChatBody<'a> {
    model: &'a str,
    messages: Vec<ChatEntry<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<ChatTool<'a>>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptionsField>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<ReasoningEffort>,
}

#[derive(Serialize)]
struct StreamOptionsField {
    include_usage: bool,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
enum ChatEntry<'a> {
    System {
        content: &'a str,
    },
    User {
        content: ChatContent<'a>,
    },
    Assistant {
        content: Option<&'a str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ChatCall<'a>>,
        #[serde(flatten)]
        reasoning: serde_json::Map<String, Value>,
    },
    Tool {
        tool_call_id: Cow<'a, str>,
        content: &'a str,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum ChatContent<'a> {
    Text(String),
    Pieces(Vec<ChatPiece<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ChatPiece<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ImageUrlField },
}

#[derive(Serialize)]
struct ImageUrlField {
    url: String,
}

impl<'a> ChatContent<'a> {
    /// Adds what follows in the same message.
    fn extend(&mut self, more: Self) {
        match (&mut *self, more) {
            (Self::Text(text), Self::Text(more)) => {
                text.push_str("\n\n");
                text.push_str(&more);
            }
            (_, more) => {
                let mut pieces = std::mem::replace(self, Self::Pieces(Vec::new())).into_pieces();
                pieces.extend(more.into_pieces());
                *self = Self::Pieces(pieces);
            }
        }
    }

    fn into_pieces(self) -> Vec<ChatPiece<'a>> {
        match self {
            Self::Text(text) => vec![ChatPiece::Text { text: Cow::Owned(text) }],
            Self::Pieces(pieces) => pieces,
        }
    }
}

#[derive(Serialize)]
struct ChatCall<'a> {
    id: Cow<'a, str>,
    #[serde(rename = "type")]
    kind: &'static str,
    function: ChatFunction<'a>,
}

#[derive(Serialize)]
struct ChatFunction<'a> {
    name: Cow<'a, str>,
    arguments: Cow<'a, str>,
}

#[derive(Serialize)]
struct ChatTool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: &'a ToolSpec,
}

/// Returns the body of a request.
pub(crate) fn body(
    endpoint: &Endpoint,
    request: &ModelRequest<'_>,
    quirks: Quirks,
) -> Result<Bytes, serde_json::Error> {
    let limit = match (request.max_output_tokens, quirks.most_output) {
        (Some(wanted), Some(most)) => Some(wanted.min(most)),
        (wanted, _) => wanted,
    };
    let (max_tokens, max_completion_tokens) = match quirks.output_limit {
        OutputLimit::MaxTokens => (limit, None),
        OutputLimit::MaxCompletionTokens => (None, limit),
    };
    let body = ChatBody {
        model: &endpoint.model,
        messages: entries(endpoint, request, quirks),
        tools: request
            .tools
            .iter()
            .map(|tool| ChatTool { kind: "function", function: tool })
            .collect(),
        stream: true,
        stream_options: (!quirks.without_stream_options)
            .then_some(StreamOptionsField { include_usage: true }),
        max_tokens,
        max_completion_tokens,
        reasoning_effort: effort(request, quirks),
    };
    serde_json::to_vec(&body).map(Bytes::from)
}

/// Returns how much the model is told to think.
pub(crate) fn effort(request: &ModelRequest<'_>, quirks: Quirks) -> Option<ReasoningEffort> {
    let reasoning = request.reasoning.unwrap_or_default();
    reasoning.effort.filter(|_| quirks.thinking != ThinkingRule::LeftOut)
}

fn entries<'a>(
    endpoint: &Endpoint,
    request: &ModelRequest<'a>,
    quirks: Quirks,
) -> Vec<ChatEntry<'a>> {
    let mut entries = Vec::with_capacity(request.messages.len() + 1);
    if !request.system.trim().is_empty() {
        entries.push(ChatEntry::System { content: request.system });
    }
    let turns = turns(request.messages, IdRule::Any);
    let last_user = turns.iter().rposition(|turn| matches!(turn, HistoryTurn::User(_)));
    for (index, turn) in turns.into_iter().enumerate() {
        match turn {
            HistoryTurn::User(message) => push_user(&mut entries, user(message, quirks)),
            HistoryTurn::Assistant { message, calls } => {
                if message.text.is_empty() && calls.is_empty() {
                    continue;
                }
                let in_this_turn = last_user.is_none_or(|user| user < index);
                let reasoning = if quirks.without_reasoning {
                    serde_json::Map::new()
                } else {
                    reasoning_back(endpoint, message, in_this_turn && !calls.is_empty())
                };
                let results = calls.iter().map(|call| ChatEntry::Tool {
                    tool_call_id: call.id.clone(),
                    content: call.content,
                });
                let results: Vec<_> = results.collect();
                let images = if quirks.without_optional_images { None } else { shown(&calls) };
                let tool_calls = calls.into_iter().map(|call| ChatCall {
                    id: call.id,
                    kind: "function",
                    function: ChatFunction { name: call.name, arguments: call.arguments },
                });
                entries.push(ChatEntry::Assistant {
                    content: Some(message.text.as_str()).filter(|text| !text.is_empty()),
                    tool_calls: tool_calls.collect(),
                    reasoning,
                });
                entries.extend(results);
                push_user(&mut entries, images);
            }
        }
    }
    entries
}

/// Returns the fields that give a provider back what it thought.
fn reasoning_back(
    endpoint: &Endpoint,
    message: &AssistantMessage,
    amid_calls: bool,
) -> serde_json::Map<String, Value> {
    let mut fields = serde_json::Map::new();
    for block in &message.reasoning {
        reasoning::give_back(block, &endpoint.name, amid_calls, &mut fields);
    }
    fields
}

/// Adds what is said on the person's side, to the last entry if that is of the
/// same side: there are servers that insist on roles that alternate.
fn push_user<'a>(entries: &mut Vec<ChatEntry<'a>>, added: Option<ChatContent<'a>>) {
    let Some(added) = added else { return };
    match entries.last_mut() {
        Some(ChatEntry::User { content }) => content.extend(added),
        _ => entries.push(ChatEntry::User { content: added }),
    }
}

/// Returns the pictures of results. A result itself takes words alone here, so
/// they follow on the person's side.
fn shown<'a>(calls: &[Called<'a>]) -> Option<ChatContent<'a>> {
    let mut pieces = Vec::new();
    for call in calls.iter().filter(|call| !call.images.is_empty()) {
        let text = format!("[Pictures in the result of {}:]", call.name);
        pieces.push(ChatPiece::Text { text: Cow::Owned(text) });
        pieces.extend(call.images.iter().map(picture));
    }
    (!pieces.is_empty()).then_some(ChatContent::Pieces(pieces))
}

fn picture<'a>(image: &Image) -> ChatPiece<'a> {
    let url = format!("data:{};base64,{}", image.media_type, image.data);
    ChatPiece::ImageUrl { image_url: ImageUrlField { url } }
}

fn user(message: &UserMessage, quirks: Quirks) -> Option<ChatContent<'_>> {
    let is_sent = |part: &&Part| !(quirks.without_optional_images && part.is_optional());
    let parts = message.parts.iter().filter(is_sent);
    if !parts.clone().any(|part| matches!(part, Part::Image(_))) {
        // Words alone go as a plain string: every server takes that.
        let text = message.text();
        return (!text.is_empty()).then_some(ChatContent::Text(text));
    }
    let pieces = parts.filter_map(|part| match part {
        Part::Text { text } if text.is_empty() => None,
        Part::Text { text } => Some(ChatPiece::Text { text: Cow::Borrowed(text) }),
        Part::Image(image) => Some(picture(image)),
    });
    Some(ChatContent::Pieces(pieces.collect()))
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
