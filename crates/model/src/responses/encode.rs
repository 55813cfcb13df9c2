//! A request in this API's shape. Nothing is stored at the provider: the whole conversation goes
//! with each request, and what the model thought comes back encrypted.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

use crate::chat_completions::effort;
use crate::effort::ReasoningEffort;
use crate::endpoint::Endpoint;
use crate::history::{Called, HistoryTurn, IdRule, turns};
use crate::message::{AssistantMessage, Image, Part, ProviderApi, UserMessage};
use crate::quirks::Quirks;
use crate::request::{ModelRequest, ToolSpec};

/// The fewest tokens that the API lets a model write.
const LEAST_OUTPUT: u64 = 16;

/// What a model that thinks shall send of it, so that it can be sent back.
const ENCRYPTED: &str = "reasoning.encrypted_content";

#[derive(Serialize)]
struct ResponsesBody<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    instructions: &'a str,
    input: Vec<InputItem<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<ResponsesTool<'a>>,
    stream: bool,
    store: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    include: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<ReasoningField>,
}

#[derive(Serialize)]
struct ReasoningField {
    effort: ReasoningEffort,
    /// Without it nothing of what the model thinks can be shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'static str>,
}

#[derive(Serialize)]
struct ResponsesTool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
    /// Schemas of tools are not in the subset that strictness asks for.
    strict: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
enum InputItem<'a> {
    Message {
        role: InputRole,
        content: InputContent<'a>,
    },
    Call {
        #[serde(rename = "type")]
        kind: &'static str,
        call_id: Cow<'a, str>,
        name: Cow<'a, str>,
        arguments: Cow<'a, str>,
    },
    Output {
        #[serde(rename = "type")]
        kind: &'static str,
        call_id: Cow<'a, str>,
        output: InputContent<'a>,
    },
    Kept(&'a Value),
}

#[derive(Serialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum InputRole {
    User,
    Assistant,
}

#[derive(Serialize)]
#[serde(untagged)]
enum InputContent<'a> {
    Text(Cow<'a, str>),
    Pieces(Vec<InputPiece<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum InputPiece<'a> {
    InputText { text: &'a str },
    InputImage { image_url: String, detail: &'static str },
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
    let effort = effort(request, quirks);
    let shows = |effort: ReasoningEffort| {
        effort != ReasoningEffort::None && !quirks.without_reasoning_summary
    };
    let body = ResponsesBody {
        model: &endpoint.model,
        instructions: request.system.trim(),
        input: items(endpoint, request, quirks),
        tools: request.tools.iter().map(tool).collect(),
        stream: true,
        store: false,
        include: if quirks.without_encrypted_reasoning { Vec::new() } else { vec![ENCRYPTED] },
        max_output_tokens: limit.map(|limit| limit.max(LEAST_OUTPUT)),
        reasoning: effort
            .map(|effort| ReasoningField { effort, summary: shows(effort).then_some("auto") }),
    };
    serde_json::to_vec(&body).map(Bytes::from)
}

fn tool(spec: &ToolSpec) -> ResponsesTool<'_> {
    let ToolSpec { name, description, parameters } = spec;
    ResponsesTool { kind: "function", name, description, parameters, strict: false }
}

fn items<'a>(
    endpoint: &Endpoint,
    request: &ModelRequest<'a>,
    quirks: Quirks,
) -> Vec<InputItem<'a>> {
    let mut items = Vec::with_capacity(request.messages.len());
    for turn in turns(request.messages, IdRule::Any) {
        match turn {
            HistoryTurn::User(message) => items.extend(user(message, quirks)),
            HistoryTurn::Assistant { message, calls } => {
                assistant(&mut items, endpoint, message, calls, quirks);
            }
        }
    }
    items
}

fn user(message: &UserMessage, quirks: Quirks) -> Option<InputItem<'_>> {
    let is_sent = |part: &&Part| !(quirks.without_optional_images && part.is_optional());
    let parts = message.parts.iter().filter(is_sent);
    let role = InputRole::User;
    if !parts.clone().any(|part| matches!(part, Part::Image(_))) {
        let text = message.text();
        let content = InputContent::Text(Cow::Owned(text.clone()));
        return (!text.is_empty()).then_some(InputItem::Message { role, content });
    }
    let pieces = parts.filter_map(|part| match part {
        Part::Text { text } if text.is_empty() => None,
        Part::Text { text } => Some(InputPiece::InputText { text }),
        Part::Image(image) => Some(picture(image)),
    });
    Some(InputItem::Message { role, content: InputContent::Pieces(pieces.collect()) })
}

fn assistant<'a>(
    items: &mut Vec<InputItem<'a>>,
    endpoint: &Endpoint,
    message: &'a AssistantMessage,
    calls: Vec<Called<'a>>,
    quirks: Quirks,
) {
    let is_silent = message.text.is_empty();
    if is_silent && calls.is_empty() {
        // Thoughts alone are refused.
        return;
    }
    if !quirks.without_reasoning {
        items.extend(own_thoughts(endpoint, message).map(InputItem::Kept));
    }
    if !is_silent {
        let content = InputContent::Text(Cow::Borrowed(&message.text));
        items.push(InputItem::Message { role: InputRole::Assistant, content });
    }
    let mut outputs = Vec::with_capacity(calls.len());
    for call in calls {
        outputs.push(InputItem::Output {
            kind: "function_call_output",
            call_id: call.id.clone(),
            output: output(&call, quirks),
        });
        items.push(InputItem::Call {
            kind: "function_call",
            call_id: call.id,
            name: call.name,
            arguments: call.arguments,
        });
    }
    items.extend(outputs);
}

/// Returns what this provider thought and can read again.
fn own_thoughts<'a>(
    endpoint: &Endpoint,
    message: &'a AssistantMessage,
) -> impl Iterator<Item = &'a Value> {
    let name = endpoint.name.clone();
    let opaque = message.reasoning.iter().filter_map(|block| block.opaque.as_ref());
    opaque
        .filter(move |opaque| opaque.api == ProviderApi::Responses && opaque.provider == name)
        .map(|opaque| &opaque.value)
        .filter(|value| value["encrypted_content"].is_string())
}

fn output<'a>(call: &Called<'a>, quirks: Quirks) -> InputContent<'a> {
    if call.images.is_empty() || quirks.without_optional_images {
        return InputContent::Text(Cow::Borrowed(call.content));
    }
    let words = Some(call.content).filter(|text| !text.is_empty());
    let words = words.map(|text| InputPiece::InputText { text });
    InputContent::Pieces(words.into_iter().chain(call.images.iter().map(picture)).collect())
}

fn picture<'a>(image: &Image) -> InputPiece<'a> {
    let image_url = format!("data:{};base64,{}", image.media_type, image.data);
    InputPiece::InputImage { image_url, detail: "auto" }
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
