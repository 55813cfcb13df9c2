//! What is said in a conversation, whoever the provider is.
//!
//! These types are the one vocabulary of the loop, the store and the provider
//! clients. They are stored as JSON, so a field may be added with a default and
//! none may be renamed.

use serde::{Deserialize, Serialize};

use crate::image::Image;

/// One entry of a conversation, in the order the model sees them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// What a person, or whoever stands in for one, said.
    User(UserMessage),
    /// What the model said and which tools it called.
    Assistant(AssistantMessage),
    /// What one tool call came to.
    Tool(ToolResult),
}

/// What a person said.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserMessage {
    /// Text and images, in order.
    pub parts: Vec<Part>,
}

/// A piece of a person's message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Words.
    Text {
        /// The words.
        text: String,
    },
    /// A picture.
    Image(Image),
}

/// What the model said.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// The words for the person; empty when it only called tools.
    #[serde(default)]
    pub text: String,
    /// What it thought before it spoke, block by block, as the provider wants it back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasoning: Vec<Reasoning>,
    /// The tools it called, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ToolCall>,
    /// Why it stopped.
    pub finish: Finish,
}

/// A block of reasoning.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reasoning {
    /// What may be shown of it.
    #[serde(default)]
    pub text: String,
    /// What only the provider that made it can read, and which it wants back
    /// unchanged: a signature, an encrypted block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opaque: Option<Opaque>,
}

/// Something for one provider alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Opaque {
    /// The API it belongs to: another one is never sent it.
    pub api: Api,
    /// The provider that made it, by its configured name: another one is never
    /// sent it either, since it could not read it and might refuse the request.
    #[serde(default)]
    pub provider: String,
    /// What it is, in that API's own words.
    pub value: serde_json::Value,
}

/// The shape of a provider's API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Api {
    /// `POST /chat/completions`, as `OpenAI` has it and many others do.
    ChatCompletions,
    /// `POST /messages`, as Anthropic has it.
    AnthropicMessages,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The name the result refers to it by; unique within a message.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments as the model wrote them: JSON, if it did well.
    pub arguments: String,
}

/// What a tool call came to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call's [`ToolCall::id`].
    pub call: String,
    /// The tool.
    pub name: String,
    /// What the model reads.
    pub content: String,
    /// Whether it is to be taken for a failure.
    #[serde(default)]
    pub is_error: bool,
    /// Pictures that the model sees with it. A model that takes none reads the
    /// content alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
}

/// Why the model stopped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// It had said what it wanted.
    #[default]
    Stop,
    /// It waits for the results of its tool calls.
    ToolCalls,
    /// It ran into the limit of its output.
    Length,
    /// The provider refused to go on.
    Refused,
    /// Somebody stopped it; what it had said until then is kept.
    Interrupted,
}

impl Message {
    /// Returns a person's message of words alone.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User(UserMessage { parts: vec![Part::Text { text: text.into() }] })
    }

    /// Returns the words in it.
    pub fn text(&self) -> String {
        match self {
            Self::User(message) => message.text(),
            Self::Assistant(message) => message.text.clone(),
            Self::Tool(result) => result.content.clone(),
        }
    }
}

impl Part {
    /// Reports whether it is a picture that may be left out.
    pub fn is_optional(&self) -> bool {
        matches!(self, Self::Image(image) if image.optional)
    }
}

impl UserMessage {
    /// Returns the words, images left out.
    pub fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            Part::Text { text } => Some(text.as_str()),
            Part::Image(_) => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}
