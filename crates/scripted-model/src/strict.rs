//! What the real APIs refuse in a request: a history that does not hold
//! together is a fault of the client, and a test should hear of it.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::request::{ReceivedRequest, RequestApi};

/// Returns why the API would refuse the request, if it would.
pub(crate) fn fault(request: &ReceivedRequest) -> Option<String> {
    let check = match request.api() {
        RequestApi::OpenAi => openai,
        RequestApi::Anthropic => anthropic,
        RequestApi::Responses => responses,
    };
    check(request).err()
}

fn ensure(holds: bool, fault: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(fault()) }
}

fn common(request: &ReceivedRequest) -> Result<(), String> {
    ensure(!request.model().is_empty(), || "model: field required".to_owned())?;
    ensure(!request.messages().is_empty(), || "messages: at least one is required".to_owned())?;
    let mut names = BTreeSet::new();
    for name in request.tool_names() {
        ensure(names.insert(name), || format!("tools: the name {name} is there twice"))?;
    }
    Ok(())
}

/// Checks that each call of a tool is answered at once, and nothing else is.
fn openai(request: &ReceivedRequest) -> Result<(), String> {
    common(request)?;
    let mut open: BTreeSet<&str> = BTreeSet::new();
    for (at, message) in request.messages().iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        if role == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            ensure(open.remove(id), || {
                format!("messages[{at}]: the tool message answers no open call ({id:?})")
            })?;
            ensure(!message["content"].is_null(), || {
                format!("messages[{at}]: the tool message has no content")
            })?;
            continue;
        }
        unanswered(&open, at)?;
        let known = matches!(role, "system" | "developer" | "user" | "assistant");
        ensure(known, || format!("messages[{at}]: {role:?} is not a role"))?;
        let calls = list(&message["tool_calls"]);
        ensure(!message["content"].is_null() || !calls.is_empty(), || {
            format!("messages[{at}]: neither content nor tool calls")
        })?;
        for call in calls {
            let id = call["id"].as_str().unwrap_or_default();
            ensure(!id.is_empty() && open.insert(id), || {
                format!("messages[{at}]: a tool call needs an id of its own ({id:?})")
            })?;
            let function = &call["function"];
            ensure(function["name"].is_string() && function["arguments"].is_string(), || {
                format!("messages[{at}]: a tool call needs name and arguments as strings")
            })?;
        }
    }
    unanswered(&open, request.messages().len())
}

/// Checks that each call of a function has its output, that reasoning can be read again and belongs
/// to something, and that nothing is of a kind the API refuses.
fn responses(request: &ReceivedRequest) -> Result<(), String> {
    common(request)?;
    let body = &request.body;
    ensure(body["max_output_tokens"].as_u64().is_none_or(|tokens| tokens >= 16), || {
        "max_output_tokens: expected a value >= 16".to_owned()
    })?;
    ensure(body["messages"].is_null(), || "unknown parameter: 'messages'".to_owned())?;
    for (at, tool) in list(&body["tools"]).iter().enumerate() {
        ensure(tool["type"] != "function" || tool["name"].is_string(), || {
            format!("tools[{at}].name: missing required parameter")
        })?;
    }
    let items = request.messages();
    let mut open: BTreeSet<&str> = BTreeSet::new();
    let mut ids: BTreeSet<&str> = BTreeSet::new();
    for (at, item) in items.iter().enumerate() {
        let text = |field: &str| item[field].as_str().unwrap_or_default();
        match item["type"].as_str().unwrap_or("message") {
            "message" => {
                let role = text("role");
                let known = matches!(role, "system" | "developer" | "user" | "assistant");
                ensure(known, || format!("input[{at}].role: {role:?} is not a role"))?;
                content(&item["content"], role, at)?;
            }
            "function_call" => {
                let id = text("call_id");
                ensure(!id.is_empty() && ids.insert(id) && open.insert(id), || {
                    format!("input[{at}]: a function_call needs a call_id of its own ({id:?})")
                })?;
                ensure(item["name"].is_string() && item["arguments"].is_string(), || {
                    format!("input[{at}]: a function_call needs name and arguments as strings")
                })?;
            }
            "function_call_output" => {
                let id = text("call_id");
                ensure(open.remove(id), || {
                    format!("No tool call found for function call output with call_id {id}.")
                })?;
                ensure(item["output"].is_string() || item["output"].is_array(), || {
                    format!("input[{at}].output: missing required parameter")
                })?;
            }
            "reasoning" => {
                let id = text("id");
                ensure(item["encrypted_content"].is_string() || body["store"] != false, || {
                    format!(
                        "Item with id '{id}' not found. Items are not persisted when `store` is set to false."
                    )
                })?;
                let next = items.get(at + 1);
                let follows = next.is_some_and(|next| {
                    next["role"] == "assistant"
                        || matches!(next["type"].as_str(), Some("function_call" | "reasoning"))
                });
                ensure(follows, || {
                    format!(
                        "Item '{id}' of type 'reasoning' was provided without its required following item."
                    )
                })?;
            }
            kind => return Err(format!("input[{at}].type: {kind:?} is not a type of item")),
        }
    }
    ensure(open.is_empty(), || format!("No tool output found for function call {open:?}."))
}

/// Checks what a message of responses holds.
fn content(content: &Value, role: &str, at: usize) -> Result<(), String> {
    if content.is_string() {
        return Ok(());
    }
    ensure(content.is_array(), || format!("input[{at}].content: missing required parameter"))?;
    for piece in list(content) {
        let kind = piece["type"].as_str().unwrap_or_default();
        let is_known = match role {
            "assistant" => matches!(kind, "output_text" | "refusal"),
            _ => matches!(kind, "input_text" | "input_image" | "input_file"),
        };
        ensure(is_known, || format!("input[{at}].content: invalid value: {kind:?}"))?;
    }
    Ok(())
}

/// Checks that each use of a tool has its result in the message after it, and
/// that no block is of a kind the API refuses.
fn anthropic(request: &ReceivedRequest) -> Result<(), String> {
    common(request)?;
    ensure(request.header("anthropic-version").is_some(), || {
        "anthropic-version: header is required".to_owned()
    })?;
    ensure(request.body["max_tokens"].as_u64().is_some_and(|tokens| tokens > 0), || {
        "max_tokens: field required".to_owned()
    })?;
    let mut open: BTreeSet<&str> = BTreeSet::new();
    for (at, message) in request.messages().iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        ensure(matches!(role, "user" | "assistant"), || {
            format!("messages.{at}.role: {role:?} is neither user nor assistant")
        })?;
        ensure(at > 0 || role == "user", || "messages: first message must use user".to_owned())?;
        let content = &message["content"];
        let empty =
            content.is_null() || content == "" || content.as_array().is_some_and(Vec::is_empty);
        ensure(!empty, || format!("messages.{at}.content: must not be empty"))?;
        let mut used = BTreeSet::new();
        let mut other_block = false;
        for block in list(content) {
            match block["type"].as_str().unwrap_or_default() {
                "tool_result" => {
                    let id = block["tool_use_id"].as_str().unwrap_or_default();
                    ensure(role == "user" && open.remove(id), || {
                        format!(
                            "messages.{at}: the tool_result answers no tool_use before it ({id:?})"
                        )
                    })?;
                    ensure(!other_block, || {
                        format!("messages.{at}: tool_result blocks must come first")
                    })?;
                    continue;
                }
                "tool_use" => {
                    let id = block["id"].as_str().unwrap_or_default();
                    ensure(!id.is_empty() && used.insert(id), || {
                        format!("messages.{at}: a tool_use needs an id of its own ({id:?})")
                    })?;
                    ensure(block["input"].is_object(), || {
                        format!("messages.{at}: the input of a tool_use must be an object")
                    })?;
                }
                "text" => {
                    ensure(block["text"].as_str().is_some_and(|text| !text.is_empty()), || {
                        format!("messages.{at}: text content blocks must be non-empty")
                    })?;
                }
                "thinking" => ensure(block["signature"].is_string(), || {
                    format!("messages.{at}: a thinking block needs its signature")
                })?,
                "image" | "document" | "redacted_thinking" => {}
                kind => return Err(format!("messages.{at}: {kind:?} is not a type of block")),
            }
            other_block = true;
        }
        unanswered(&open, at)?;
        open = used;
    }
    unanswered(&open, request.messages().len())
}

fn unanswered(open: &BTreeSet<&str>, at: usize) -> Result<(), String> {
    ensure(open.is_empty(), || {
        format!("messages before {at}: tool calls without a result: {open:?}")
    })
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
#[path = "strict_tests.rs"]
mod tests;
