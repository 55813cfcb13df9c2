//! `session_search`: messages of earlier conversations.

mod find;

use async_trait::async_trait;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use vestal_agent::redact::Redactor;
use vestal_agent::tools::arguments::{BadArgument, CountArgument, parse, tool_spec};
use vestal_agent::{Footprint, Oversized, Tool, ToolContext, ToolOutput};
use vestal_conversations::{
    ConversationFilter, ConversationId, ConversationStore, Error, MessageKind, Seq, Stored,
};
use vestal_model::{Message, ToolSpec};

/// The group the tool is enabled and disabled with.
const TOOLSET: &str = "session_search";

/// Conversations that one call lists: unasked, and at most.
const LIMIT: usize = 5;
const MOST: usize = 20;

/// Messages on each side of the one that is looked at: unasked, and at most.
const AROUND: usize = 5;
const MOST_AROUND: usize = 25;

/// Characters of what went wrong, which may quote what was asked for.
const COMPLAINT: usize = 1_000;

const DESCRIPTION: &str = "\
Searches all messages of past conversations with this user, by the user, by you and by tools. Use it when something from earlier is mentioned, or would help, \
before you ask for it again. \
With `query`: the conversations that contain the words, best first, with the surrounding text and message numbers; every word matches the beginning of words, \"words in quotes\" match next to each other. \
With `conversation` and `message`: the messages around that one, to read on. \
Without arguments: the most recent conversations. This conversation is left out unless `conversation` is \"current\".";

/// The tool.
#[derive(Debug, Clone)]
pub struct SessionSearch {
    store: ConversationStore,
}

impl SessionSearch {
    /// Returns the tool for these conversations.
    pub fn new(store: ConversationStore) -> Self {
        Self { store }
    }
}

#[async_trait]
impl Tool for SessionSearch {
    fn spec(&self) -> ToolSpec {
        tool_spec::<SearchArguments>("session_search", DESCRIPTION)
    }

    fn toolset(&self) -> &'static str {
        TOOLSET
    }

    fn footprint(&self, _: &Value) -> Footprint {
        Footprint::Reads
    }

    async fn call(&self, context: &ToolContext, arguments: Value) -> ToolOutput {
        let request = match SearchCall::read(arguments) {
            Ok(request) => request,
            Err(bad) => return bad.into(),
        };
        match self.answer(context, request).await {
            Ok(output) => {
                let content = output.to_string();
                let content = context.redactor.redact_result(&content).into_owned();
                ToolOutput { oversized: Oversized::Keep, ..ToolOutput::ok(content) }
            }
            Err(error) => {
                let message = context.redactor.redact(&error.to_string()).into_owned();
                ToolOutput::error(beginning(&message, COMPLAINT))
            }
        }
    }
}

#[derive(Deserialize, JsonSchema)]
struct SearchArguments {
    /// The words to look for.
    query: Option<String>,
    /// Conversations at most, up to 20. Default 5.
    limit: Option<CountArgument<1>>,
    /// Only this one: its id or title, or "current".
    conversation: Option<String>,
    /// The number of a message to read around.
    message: Option<i64>,
    /// Messages to read on each side of it, up to 25. Default 5.
    around: Option<CountArgument<0>>,
}

#[derive(Debug, PartialEq, Eq)]
struct SearchCall {
    query: Option<String>,
    limit: usize,
    conversation: Option<String>,
    message: Option<i64>,
    around: usize,
}

impl SearchCall {
    fn read(arguments: Value) -> Result<Self, BadArgument> {
        let arguments: SearchArguments = parse(arguments)?;
        let words = |text: Option<String>| {
            text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
        };
        let request = Self {
            query: words(arguments.query),
            limit: arguments.limit.map_or(LIMIT, |CountArgument(limit)| limit).min(MOST),
            conversation: words(arguments.conversation),
            message: arguments.message,
            around: arguments
                .around
                .map_or(AROUND, |CountArgument(around)| around)
                .min(MOST_AROUND),
        };
        if request.message.is_some() && request.conversation.is_none() {
            return Err(BadArgument::new("`message` needs the `conversation` it belongs to"));
        }
        Ok(request)
    }
}

impl SessionSearch {
    async fn answer(&self, context: &ToolContext, request: SearchCall) -> Result<Value, Error> {
        let SearchCall { query, limit, conversation, message, around } = request;
        let current = &context.conversation;
        let only = match conversation.as_deref() {
            None => None,
            Some("current") => Some(current.clone()),
            Some(wanted) => Some(self.store.find(wanted).await?),
        };
        let place = (&self.store, &*context.redactor);
        match (query, only, message) {
            (_, Some(id), Some(message)) => find::read(place, &id, Seq(message), around).await,
            (Some(query), only, _) => find::find(place, &query, only, current, limit).await,
            (None, Some(id), None) => find::begin(place, &id, around).await,
            (None, None, _) => recent(&self.store, current, limit).await,
        }
    }
}

/// Says in which conversation something is.
async fn about(store: &ConversationStore, id: &ConversationId) -> Result<Value, Error> {
    let conversation = store.get(id).await?;
    Ok(json!({
        "conversation": id,
        "title": conversation.title,
        "date": moment(conversation.started_at),
        "source": conversation.source,
    }))
}

/// Characters of how a conversation began.
const PREVIEW: usize = 200;

/// Lists the most recent conversations but the current one.
pub(super) async fn recent(
    store: &ConversationStore,
    current: &ConversationId,
    limit: usize,
) -> Result<Value, Error> {
    let wanted = u32::try_from(limit).unwrap_or(u32::MAX).saturating_add(1);
    let summaries =
        store.list(&ConversationFilter { limit: wanted, ..ConversationFilter::default() }).await?;
    let others = summaries.iter().filter(|summary| summary.conversation.id != *current);
    let results: Vec<Value> = others
        .take(limit)
        .map(|summary| {
            let conversation = &summary.conversation;
            json!({
                "conversation": conversation.id,
                "title": conversation.title,
                "date": moment(conversation.started_at),
                "source": conversation.source,
                "messages": summary.messages,
                "began": beginning(&summary.preview, PREVIEW),
            })
        })
        .collect();
    Ok(json!({
        "results": results,
        "hint": "give `query` to look for words, or `conversation` to read how one began",
    }))
}

/// Returns a time as the user's clock shows it.
pub(super) fn moment(at: Timestamp) -> String {
    at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string()
}

/// Returns the beginning of a text, with how much is left out.
pub(super) fn beginning(text: &str, most: usize) -> String {
    let text = text.trim();
    match text.char_indices().nth(most) {
        Some((end, _)) => {
            let left = text.chars().count().saturating_sub(most);
            format!("{} [… {left} more characters]", &text[..end])
        }
        None => text.to_owned(),
    }
}

/// Returns what a message says, the tools it calls included. Secrets are masked
/// before anything is cut off: half of one would not be known for what it is.
pub(super) fn text_of(message: &Message, redactor: &Redactor) -> String {
    let text = match message {
        Message::User(user) => {
            let images = user.parts.iter().any(|part| matches!(part, vestal_model::Part::Image(_)));
            let text = user.text();
            if images { format!("{text} [with images]") } else { text }
        }
        Message::Assistant(answer) => {
            let calls = answer.calls.iter().map(|call| {
                let arguments = redactor.redact_result(&call.arguments);
                format!("[calls {} {}]", call.name, beginning(&arguments, CALL))
            });
            let texts = std::iter::once(answer.text.clone()).filter(|text| !text.trim().is_empty());
            texts.chain(calls).collect::<Vec<_>>().join("\n")
        }
        Message::Tool(result) => {
            format!("[{}] {}", result.name, redactor.redact_result(&result.content))
        }
    };
    redactor.redact(&text).into_owned()
}

/// Characters of a call's arguments.
const CALL: usize = 200;

/// Returns whose message it is. What the program put in, or let stand for other
/// messages, is nobody's words.
pub(super) const fn role(stored: &Stored) -> &'static str {
    match (stored.kind, &stored.message) {
        (MessageKind::Summary, _) => "summary",
        (MessageKind::Note, _) => "note",
        (MessageKind::Dialogue | MessageKind::Aside, Message::User(_)) => "user",
        (MessageKind::Dialogue | MessageKind::Aside, Message::Assistant(_)) => "assistant",
        (MessageKind::Dialogue | MessageKind::Aside, Message::Tool(_)) => "tool",
    }
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
