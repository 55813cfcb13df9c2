//! `session_search`: what was said in earlier conversations.

mod around;
mod find;
mod recent;
mod text;

use async_trait::async_trait;
use serde_json::{Value, json};
use vestal_agent::tools::{Arguments, BadArgument};
use vestal_agent::{Footprint, Oversized, Tool, ToolContext, ToolOutput};
use vestal_conversations::{ConversationId, Error, Seq, Store};
use vestal_model::ToolSpec;

/// The group the tool is enabled and disabled with.
const TOOLSET: &str = "session_search";

/// Conversations that one call tells of: unasked, and at most.
const LIMIT: usize = 5;
const MOST: usize = 20;

/// Messages on each side of the one that is looked at: unasked, and at most.
const AROUND: usize = 5;
const MOST_AROUND: usize = 25;

/// Characters of what went wrong, which may quote what was asked for.
const COMPLAINT: usize = 1_000;

const DESCRIPTION: &str = "\
Searches everything that was said in past conversations with this user, by them, by you and by tools. Use it whenever something from before is referred to, or would help, \
before you ask for it again. \
With `query`: the conversations in which the words occur, best first, with what stands around them and the numbers of the messages; every word is looked for at the beginning of words, \"words in quotes\" beside each other. \
With `conversation` and `message`: what was said around that message, to read on. \
Without any: the most recent conversations. This conversation is left out unless `conversation` is \"current\".";

/// The tool.
#[derive(Debug, Clone)]
pub struct SessionSearch {
    store: Store,
}

impl SessionSearch {
    /// Returns the tool for these conversations.
    pub fn new(store: Store) -> Self {
        Self { store }
    }
}

#[async_trait]
impl Tool for SessionSearch {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "session_search".to_owned(),
            description: DESCRIPTION.to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "The words to look for."},
                    "limit": {"type": "integer", "description": format!("Conversations at most, up to {MOST}. Default {LIMIT}.")},
                    "conversation": {"type": "string", "description": "Only this one: its id or title, or \"current\"."},
                    "message": {"type": "integer", "description": "The number of a message to read around."},
                    "around": {"type": "integer", "description": format!("Messages to read on each side of it, up to {MOST_AROUND}. Default {AROUND}.")}
                }
            }),
        }
    }

    fn toolset(&self) -> &'static str {
        TOOLSET
    }

    fn footprint(&self, _: &Value) -> Footprint {
        Footprint::Reads
    }

    async fn call(&self, context: &ToolContext, arguments: Value) -> ToolOutput {
        let request = match Request::read(arguments) {
            Ok(request) => request,
            Err(bad) => return bad.into(),
        };
        match self.answer(context, request).await {
            Ok(told) => {
                let content = told.to_string();
                let content = context.redactor.redact_result(&content).into_owned();
                ToolOutput { oversized: Oversized::Keep, ..ToolOutput::ok(content) }
            }
            Err(error) => {
                let said = context.redactor.redact(&error.to_string()).into_owned();
                ToolOutput::error(text::beginning(&said, COMPLAINT))
            }
        }
    }
}

/// What is wanted.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    query: Option<String>,
    limit: usize,
    conversation: Option<String>,
    message: Option<i64>,
    around: usize,
}

impl Request {
    fn read(arguments: Value) -> Result<Self, BadArgument> {
        let arguments = Arguments::new(arguments)?;
        let words = |name: &str| -> Result<Option<String>, BadArgument> {
            let text = arguments.optional_text(name)?;
            Ok(text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()))
        };
        let request = Self {
            query: words("query")?,
            limit: arguments.count("limit", 1)?.unwrap_or(LIMIT).min(MOST),
            conversation: words("conversation")?,
            message: arguments.integer("message")?,
            around: arguments.count("around", 0)?.unwrap_or(AROUND).min(MOST_AROUND),
        };
        if request.message.is_some() && request.conversation.is_none() {
            return Err(BadArgument::new("`message` needs the `conversation` it belongs to"));
        }
        Ok(request)
    }
}

impl SessionSearch {
    async fn answer(&self, context: &ToolContext, request: Request) -> Result<Value, Error> {
        let Request { query, limit, conversation, message, around } = request;
        let current = &context.conversation;
        let only = match conversation.as_deref() {
            None => None,
            Some("current") => Some(current.clone()),
            Some(wanted) => Some(self.store.find(wanted).await?),
        };
        let place = (&self.store, &*context.redactor);
        match (query, only, message) {
            (_, Some(id), Some(message)) => around::read(place, &id, Seq(message), around).await,
            (Some(query), only, _) => find::find(place, &query, only, current, limit).await,
            (None, Some(id), None) => around::begin(place, &id, around).await,
            (None, None, _) => recent::list(&self.store, current, limit).await,
        }
    }
}

/// Says in which conversation something is.
async fn about(store: &Store, id: &ConversationId) -> Result<Value, Error> {
    let conversation = store.get(id).await?;
    Ok(json!({
        "conversation": id,
        "title": conversation.title,
        "date": text::moment(conversation.started_at),
        "source": conversation.source,
    }))
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
