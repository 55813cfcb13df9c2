//! A conversation in the order and completeness that every API insists on.
//!
//! A stored history may have been cut anywhere: by an interrupt, a crash or a
//! compression. What is sent must not show it: each call has its result right
//! behind it, no result lacks its call, and arguments are a JSON object.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::message::{AssistantMessage, Image, Message, ToolCall, ToolResult, UserMessage};

/// What a call is said to have come to when its result was never recorded.
const INTERRUPTED: &str = "[interrupted: this call was cut off before it gave a result; \
                           what it had done by then is not known]";

/// The longest name of a tool that both APIs take.
const LONGEST_NAME: usize = 64;

/// One step of a conversation.
pub(crate) enum HistoryTurn<'a> {
    /// What a person said.
    User(&'a UserMessage),
    /// What the model said, each call with its result.
    Assistant { message: &'a AssistantMessage, calls: Vec<Called<'a>> },
}

/// A call with its result.
pub(crate) struct Called<'a> {
    /// The id both go by; unique in the conversation.
    pub(crate) id: Cow<'a, str>,
    pub(crate) name: Cow<'a, str>,
    /// A JSON object.
    pub(crate) arguments: Cow<'a, str>,
    pub(crate) content: &'a str,
    pub(crate) is_error: bool,
    pub(crate) images: &'a [Image],
}

/// Which ids an API takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdRule {
    /// Any that isn't empty.
    Any,
    /// Letters, digits, `_` and `-`.
    Word,
}

/// Returns the conversation, repaired.
pub(crate) fn turns(messages: &[Message], rule: IdRule) -> Vec<HistoryTurn<'_>> {
    let mut turns = Vec::with_capacity(messages.len());
    let mut ids = HashSet::new();
    for (index, message) in messages.iter().enumerate() {
        match message {
            Message::User(message) => turns.push(HistoryTurn::User(message)),
            Message::Assistant(message) => {
                let results = results_after(&messages[index + 1..]);
                let calls = pair(&message.calls, results, rule, &mut ids);
                turns.push(HistoryTurn::Assistant { message, calls });
            }
            // Each goes with its call; one without a call has nowhere to go.
            Message::Tool(_) => {}
        }
    }
    turns
}

/// Returns the results up to the model's next message.
fn results_after(messages: &[Message]) -> Vec<Option<&ToolResult>> {
    let until_next = messages.iter().take_while(|next| !matches!(next, Message::Assistant(_)));
    let results = until_next.filter_map(|message| match message {
        Message::Tool(result) => Some(Some(result)),
        Message::User(_) | Message::Assistant(_) => None,
    });
    results.collect()
}

fn pair<'a>(
    calls: &'a [ToolCall],
    mut results: Vec<Option<&'a ToolResult>>,
    rule: IdRule,
    ids: &mut HashSet<String>,
) -> Vec<Called<'a>> {
    let mut called = Vec::with_capacity(calls.len());
    for call in calls {
        // Each result is taken once, so that calls which share an id get one each.
        let result = results
            .iter_mut()
            .find(|result| result.is_some_and(|result| result.call == call.id))
            .and_then(Option::take);
        called.push(Called {
            id: unique_id(&call.id, rule, ids),
            name: tool_name(&call.name),
            arguments: arguments(&call.arguments),
            content: result.map_or(INTERRUPTED, |result| result.content.as_str()),
            is_error: result.is_none_or(|result| result.is_error),
            images: result.map_or(&[], |result| &result.images),
        });
    }
    called
}

fn unique_id<'a>(id: &'a str, rule: IdRule, ids: &mut HashSet<String>) -> Cow<'a, str> {
    let mut wanted = match rule {
        IdRule::Any => Cow::Borrowed(id),
        IdRule::Word => word(id),
    };
    if wanted.is_empty() {
        wanted = Cow::Borrowed("call");
    }
    let mut unique = wanted.clone();
    let mut number = 1_u32;
    while ids.contains(unique.as_ref()) {
        number += 1;
        unique = Cow::Owned(format!("{wanted}_{number}"));
    }
    ids.insert(unique.clone().into_owned());
    unique
}

/// Returns the name as APIs take it. A model may call what does not exist, by a
/// name that no API would take back; the conversation must go on all the same.
fn tool_name(name: &str) -> Cow<'_, str> {
    let name = word(name);
    match name.char_indices().nth(LONGEST_NAME) {
        Some((end, _)) => Cow::Owned(name[..end].to_owned()),
        None if name.is_empty() => Cow::Borrowed("unknown"),
        None => name,
    }
}

/// Replaces what is neither a letter, a digit, `_` nor `-`.
fn word(text: &str) -> Cow<'_, str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if text.chars().all(fits) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|c| if fits(c) { c } else { '_' }).collect())
}

/// Returns the arguments as written if they are a JSON object, else an object
/// that holds what was written, so that the model can see what it did.
fn arguments(written: &str) -> Cow<'_, str> {
    let trimmed = written.trim();
    if trimmed.is_empty() {
        return Cow::Borrowed("{}");
    }
    let is_json = serde_json::from_str::<serde::de::IgnoredAny>(trimmed).is_ok();
    if is_json && trimmed.starts_with('{') {
        return Cow::Borrowed(trimmed);
    }
    Cow::Owned(serde_json::json!({ "unreadable_arguments": written }).to_string())
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
