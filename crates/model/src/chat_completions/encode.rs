//! A request in this API's shape.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

use super::reasoning;
use crate::endpoint::Endpoint;
use crate::history::{Ids, Turn, turns};
use crate::memory::{OutputLimit, Quirks};
use crate::message::{AssistantMessage, Part, UserMessage};
use crate::request::{Request, ToolSpec};

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Entry<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
enum Entry<'a> {
    System {
        content: &'a str,
    },
    User {
        content: Content<'a>,
    },
    Assistant {
        content: Option<&'a str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Call<'a>>,
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
enum Content<'a> {
    Text(String),
    Pieces(Vec<Piece<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Piece<'a> {
    Text { text: &'a str },
    ImageUrl { image_url: ImageUrl },
}

#[derive(Serialize)]
struct ImageUrl {
    url: String,
}

#[derive(Serialize)]
struct Call<'a> {
    id: Cow<'a, str>,
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: Cow<'a, str>,
    arguments: Cow<'a, str>,
}

#[derive(Serialize)]
struct Tool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: &'a ToolSpec,
}

/// Returns the body of a request.
pub(crate) fn body(
    endpoint: &Endpoint,
    request: &Request<'_>,
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
    let body = Body {
        model: &endpoint.model,
        messages: entries(endpoint, request, quirks),
        tools: request.tools.iter().map(|tool| Tool { kind: "function", function: tool }).collect(),
        stream: true,
        stream_options: (!quirks.without_stream_options)
            .then_some(StreamOptions { include_usage: true }),
        max_tokens,
        max_completion_tokens,
    };
    serde_json::to_vec(&body).map(Bytes::from)
}

fn entries<'a>(endpoint: &Endpoint, request: &Request<'a>, quirks: Quirks) -> Vec<Entry<'a>> {
    let mut entries = Vec::with_capacity(request.messages.len() + 1);
    if !request.system.trim().is_empty() {
        entries.push(Entry::System { content: request.system });
    }
    let turns = turns(request.messages, Ids::Any);
    let last_user = turns.iter().rposition(|turn| matches!(turn, Turn::User(_)));
    for (index, turn) in turns.into_iter().enumerate() {
        match turn {
            Turn::User(message) => entries.extend(user(message)),
            Turn::Assistant { message, calls } => {
                if message.text.is_empty() && calls.is_empty() {
                    continue;
                }
                let in_this_turn = last_user.is_none_or(|user| user < index);
                let reasoning = if quirks.without_reasoning {
                    serde_json::Map::new()
                } else {
                    reasoning_back(endpoint, message, in_this_turn && !calls.is_empty())
                };
                let results = calls.iter().map(|call| Entry::Tool {
                    tool_call_id: call.id.clone(),
                    content: call.content,
                });
                let results: Vec<_> = results.collect();
                let tool_calls = calls.into_iter().map(|call| Call {
                    id: call.id,
                    kind: "function",
                    function: Function { name: call.name, arguments: call.arguments },
                });
                entries.push(Entry::Assistant {
                    content: Some(message.text.as_str()).filter(|text| !text.is_empty()),
                    tool_calls: tool_calls.collect(),
                    reasoning,
                });
                entries.extend(results);
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

fn user(message: &UserMessage) -> Option<Entry<'_>> {
    let with_images = message.parts.iter().any(|part| matches!(part, Part::Image(_)));
    if !with_images {
        // Words alone go as a plain string: every server takes that.
        let text = message.text();
        return (!text.is_empty()).then_some(Entry::User { content: Content::Text(text) });
    }
    let pieces = message.parts.iter().filter_map(|part| match part {
        Part::Text { text } if text.is_empty() => None,
        Part::Text { text } => Some(Piece::Text { text }),
        Part::Image(image) => {
            let url = format!("data:{};base64,{}", image.media_type, image.data);
            Some(Piece::ImageUrl { image_url: ImageUrl { url } })
        }
    });
    Some(Entry::User { content: Content::Pieces(pieces.collect()) })
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
