//! Messages of a conversation, the same for all providers.
//!
//! These types are the one vocabulary of the loop, the store and the provider
//! clients. They are stored as JSON, so a field may be added with a default and
//! none may be renamed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// One entry of a conversation, in the order the model sees them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// A message of the user.
    User(UserMessage),
    /// What the model said and which tools it called.
    Assistant(AssistantMessage),
    /// The result of a tool call.
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
    pub finish: FinishReason,
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
    pub api: ProviderApi,
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
pub enum ProviderApi {
    /// `POST /chat/completions`, as `OpenAI` has it and many others do.
    ChatCompletions,
    /// `POST /messages`, as Anthropic has it.
    AnthropicMessages,
    /// `POST /responses`, as `OpenAI` has it.
    Responses,
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

/// The result of a tool call.
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
pub enum FinishReason {
    /// It had said what it wanted.
    #[default]
    Stop,
    /// It waits for the results of its tool calls.
    ToolCalls,
    /// It ran into the limit of its output.
    Length,
    /// The provider refused to continue.
    Refused,
    /// It was interrupted; what had come until then is kept.
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

/// A picture, whole.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// What it is: `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
    pub media_type: String,
    /// Its bytes in base64.
    pub data: String,
    /// Whether it may be left out for a model that takes no pictures, because the
    /// words beside it do without. A person's own pictures may not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
}

impl Image {
    /// Bytes of a picture that are sent at most. Larger than any provider takes.
    pub const MOST_BYTES: u64 = 20 << 20;
    /// Bytes at the beginning that tell what a picture is.
    pub const HEAD: usize = 12;

    /// Reports whether what begins with these bytes is a picture that models read;
    /// [`Image::HEAD`] bytes tell.
    pub fn begins_with(head: &[u8]) -> bool {
        media_type(head).is_some()
    }

    /// Returns the picture that bytes are, by their content; none when they are
    /// none of the kinds that models read.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let media_type = media_type(bytes)?.to_owned();
        Some(Self { media_type, data: STANDARD.encode(bytes), optional: false })
    }
}

/// Shows what kind of picture it is and how large, not the picture.
impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Image({}, {} bytes of base64)", self.media_type, self.data.len())
    }
}

fn media_type(bytes: &[u8]) -> Option<&'static str> {
    if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        return Some("image/png");
    }
    if bytes.starts_with(b"\xff\xd8\xff") {
        return Some("image/jpeg");
    }
    if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") {
        return Some("image/gif");
    }
    (bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP")).then_some("image/webp")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_tells_what_a_picture_is() {
        assert_eq!(media_type(b"\x89PNG\r\n\x1a\n rest"), Some("image/png"));
        assert_eq!(media_type(b"\xff\xd8\xff\xe0"), Some("image/jpeg"));
        assert_eq!(media_type(b"GIF89a"), Some("image/gif"));
        assert_eq!(media_type(b"RIFF\x00\x00\x00\x00WEBPVP8 "), Some("image/webp"));
        for other in [&b""[..], b"%PDF-1.7", b"RIFF\x00\x00\x00\x00WAVE", b"RIFF", b"\x89PN"] {
            assert_eq!(media_type(other), None);
        }
    }
}
