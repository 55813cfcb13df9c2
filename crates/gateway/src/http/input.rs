//! What clients say: messages in the shapes of `OpenAI`'s APIs, and the turn they ask for.

use schemars::JsonSchema;
use serde::Deserialize;
use vestal_conversations::ConversationId;
use vestal_model::{AssistantMessage, Image, Message, Part, ToolCall, ToolResult, UserMessage};
use vestal_runtime::{ConversationChoice, OpenRequest};

use super::error::ApiError;
use crate::turns::TurnRequest;

/// The origin of a conversation, as the store has it.
pub(super) const SOURCE: &str = "api_server";

/// The content of a message: text, or parts in order.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "must be text, or a list of parts that each have a type")]
pub(super) enum Content {
    /// Words.
    Text(String),
    /// Words and pictures, in order.
    Parts(Vec<ContentPart>),
}

/// A part of a message, as chat completions (`text`, `image_url`) or responses (`input_text`,
/// `output_text`, `input_image`) have it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ContentPart {
    /// Words.
    #[serde(alias = "input_text", alias = "output_text")]
    Text {
        /// The words.
        text: String,
    },
    /// A picture, as a `data:` URL in base64.
    #[serde(alias = "input_image")]
    ImageUrl {
        /// Where it is.
        image_url: ImageUrl,
    },
    /// Anything else, which is refused.
    #[serde(other)]
    Other,
}

/// Where a picture is: as chat completions and as responses have it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "must be a URL, or an object with one")]
pub(super) enum ImageUrl {
    /// The URL itself.
    Plain(String),
    /// The URL in an object.
    Object {
        /// The URL.
        url: String,
    },
}

/// What was said, sorted by what it means for a turn.
#[derive(Debug, Clone, Default)]
pub(super) struct Dialogue {
    instructions: Vec<String>,
    messages: Vec<Message>,
}

impl Dialogue {
    /// Adds to the instructions of the agent.
    pub(super) fn instruct(&mut self, text: String) {
        if !text.is_empty() {
            self.instructions.push(text);
        }
    }

    /// Adds a message; `param` is the member of the request that has it.
    pub(super) fn add(
        &mut self,
        param: &'static str,
        role: &str,
        content: Option<Content>,
    ) -> Result<(), ApiError> {
        let message = user_message(param, content)?;
        match role {
            "system" | "developer" => self.instruct(message.text()),
            "user" => self.messages.push(Message::User(message)),
            "assistant" => self.messages.push(Message::Assistant(AssistantMessage {
                text: message.text(),
                ..AssistantMessage::default()
            })),
            "tool" | "function" => return Err(foreign_tool(param)),
            other => {
                return Err(ApiError::invalid(param, format!("there is no role {other:?}")));
            }
        }
        Ok(())
    }

    /// Adds a call of a tool, as the agent made it before.
    pub(super) fn call(&mut self, id: String, name: String, arguments: String) {
        let call = ToolCall { id, name, arguments };
        match self.messages.last_mut() {
            Some(Message::Assistant(message)) => message.calls.push(call),
            _ => self.messages.push(Message::Assistant(AssistantMessage {
                calls: vec![call],
                ..AssistantMessage::default()
            })),
        }
    }

    /// Adds the result of a call that was added before.
    pub(super) fn called(&mut self, id: &str, content: String) -> Result<(), ApiError> {
        let is_answered = self
            .messages
            .iter()
            .any(|message| matches!(message, Message::Tool(result) if result.call == id));
        let call = self.messages.iter().rev().find_map(|message| match message {
            Message::Assistant(message) => message.calls.iter().find(|call| call.id == id),
            Message::User(_) | Message::Tool(_) => None,
        });
        let Some(call) = call.filter(|_| !is_answered) else { return Err(foreign_tool("input")) };
        let (call, name) = (call.id.clone(), call.name.clone());
        self.messages.push(Message::Tool(ToolResult {
            call,
            name,
            content,
            ..ToolResult::default()
        }));
        Ok(())
    }

    /// Refuses calls without a result: no provider takes them.
    fn check_calls(&self, param: &'static str) -> Result<(), ApiError> {
        let results: Vec<&str> = self
            .messages
            .iter()
            .filter_map(|message| match message {
                Message::Tool(result) => Some(result.call.as_str()),
                Message::User(_) | Message::Assistant(_) => None,
            })
            .collect();
        let calls = self.messages.iter().filter_map(|message| match message {
            Message::Assistant(message) => Some(&message.calls),
            Message::User(_) | Message::Tool(_) => None,
        });
        match calls.flatten().find(|call| !results.contains(&call.id.as_str())) {
            Some(open) => {
                let message = format!("the call {:?} has no output", open.id);
                Err(ApiError::invalid(param, message))
            }
            None => Ok(()),
        }
    }

    /// Returns the turn that is asked for: the last message is what is said now. What was said
    /// before counts only where no session is named, since the store knows what was said in one.
    pub(super) fn into_turn(
        mut self,
        param: &'static str,
        session: Option<ConversationId>,
    ) -> Result<TurnRequest, ApiError> {
        let Some(Message::User(message)) = self.messages.pop() else {
            return Err(ApiError::invalid(param, "the last message must be one of the user"));
        };
        if message.parts.is_empty() {
            return Err(ApiError::invalid(param, "the last message is empty"));
        }
        self.check_calls(param)?;
        let mut open = OpenRequest::new(SOURCE);
        if !self.instructions.is_empty() {
            open.role = Some(self.instructions.join("\n\n"));
        }
        let history = match session {
            Some(id) => {
                open.which = ConversationChoice::Id(id);
                Vec::new()
            }
            None => self.messages,
        };
        Ok(TurnRequest { history, ..TurnRequest::new(open, message) })
    }
}

/// Refuses results of tools that the agent does not have.
pub(super) fn foreign_tool(param: &'static str) -> ApiError {
    ApiError::unsupported(param, "results of tools that are not the agent's own are not taken")
}

fn user_message(param: &'static str, content: Option<Content>) -> Result<UserMessage, ApiError> {
    let parts = match content {
        None => Vec::new(),
        Some(Content::Text(text)) if text.is_empty() => Vec::new(),
        Some(Content::Text(text)) => vec![Part::Text { text }],
        Some(Content::Parts(parts)) => {
            parts.into_iter().map(|given| part(param, given)).collect::<Result<Vec<_>, _>>()?
        }
    };
    Ok(UserMessage { parts })
}

fn part(param: &'static str, part: ContentPart) -> Result<Part, ApiError> {
    match part {
        ContentPart::Text { text } => Ok(Part::Text { text }),
        ContentPart::ImageUrl { image_url: ImageUrl::Plain(url) | ImageUrl::Object { url } } => {
            picture(param, &url)
        }
        ContentPart::Other => Err(ApiError::unsupported(param, "content is text or a picture")),
    }
}

/// Reads a picture that is in the request. Nothing is fetched on a client's word.
fn picture(param: &'static str, url: &str) -> Result<Part, ApiError> {
    let data = url
        .strip_prefix("data:")
        .and_then(|rest| rest.split_once(";base64,"))
        .ok_or_else(|| ApiError::invalid(param, "a picture must be a data: URL in base64"))?;
    let (media_type, data) = data;
    if !["image/png", "image/jpeg", "image/gif", "image/webp"].contains(&media_type) {
        return Err(ApiError::invalid(
            param,
            format!("{media_type} is not a picture that models read"),
        ));
    }
    let image = Image { media_type: media_type.to_owned(), data: data.to_owned(), optional: false };
    Ok(Part::Image(image))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_picture_is_taken_from_the_request_and_never_fetched() {
        assert!(picture("messages", "data:image/png;base64,AAAA").is_ok());
        assert!(picture("messages", "http://127.0.0.1/secret.png").is_err());
        assert!(picture("messages", "data:text/html;base64,AAAA").is_err());
    }

    #[test]
    fn parts_of_both_apis_mean_the_same() {
        let url = "data:image/png;base64,AAAA";
        let chat = json!([{ "type": "text", "text": "a" },
            { "type": "image_url", "image_url": { "url": url } }]);
        let responses = json!([{ "type": "input_text", "text": "a" },
            { "type": "input_image", "image_url": url }]);
        let read = |value| {
            let content: Content = serde_json::from_value(value).unwrap();
            user_message("input", Some(content)).unwrap()
        };
        assert_eq!(read(chat), read(responses));
    }
}
