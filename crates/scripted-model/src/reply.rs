//! What the server says to one request, and how it says it.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

/// One reply of a script: what is said, and how it is delivered.
///
/// A reply is counted out in *deltas*: pieces of reasoning, text and tool
/// arguments, in that order. An answer that is not streamed, an error and
/// garbage count as one delta.
#[derive(Debug, Clone, PartialEq)]
pub struct ScriptedReply {
    pub(crate) content: ReplyContent,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) chunk_chars: usize,
    pub(crate) pace: Option<Duration>,
    pub(crate) holds: Vec<usize>,
    pub(crate) end: DeliveryEnd,
}

/// What a reply consists of.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ReplyContent {
    /// A message of the model, in the shape of the API that was asked.
    Message(ReplyMessage),
    /// An HTTP error.
    Error { status: u16, body: ScriptedError },
    /// Bytes no API would send, with status 200.
    Garbage(Vec<u8>),
    /// Nothing at all, not even a status line.
    Silence,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ScriptedError {
    /// A message, put into the error shape of the API that was asked.
    Message(String),
    /// Exactly this JSON.
    Json(Value),
    /// Exactly this text, which need not be JSON.
    Raw(String),
}

/// A message of the model.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ReplyMessage {
    pub(crate) reasoning: Option<String>,
    pub(crate) signature: Option<String>,
    pub(crate) redacted_reasoning: Option<String>,
    pub(crate) text: Option<String>,
    pub(crate) tool_calls: Vec<ScriptedToolCall>,
    pub(crate) finish: Option<ScriptedFinish>,
    pub(crate) usage: Option<BilledUsage>,
    pub(crate) quirks: BTreeSet<Quirk>,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedToolCall {
    /// The tool's name.
    pub name: String,
    /// The arguments: an object, or a string that is sent as it is, so that
    /// malformed JSON can be said too.
    #[serde(default = "no_arguments")]
    pub arguments: Value,
    /// The call's id; one is made up when absent.
    #[serde(default)]
    pub id: Option<String>,
}

fn no_arguments() -> Value {
    Value::Object(serde_json::Map::new())
}

impl ScriptedToolCall {
    /// Returns a call of `name`. A string as `arguments` is sent as it is.
    pub fn new(name: impl Into<String>, arguments: impl Into<Value>) -> Self {
        Self { name: name.into(), arguments: arguments.into(), id: None }
    }

    /// Gives the call an id of its own.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Returns the arguments as they go over the wire.
    pub(crate) fn arguments_text(&self) -> String {
        match &self.arguments {
            Value::String(raw) => raw.clone(),
            other => other.to_string(),
        }
    }
}

/// Why the model stopped, in words that both APIs have a value for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub enum ScriptedFinish {
    /// It said all it had to (`stop`, `end_turn`).
    Stop,
    /// It wants tools called (`tool_calls`, `tool_use`).
    ToolCalls,
    /// It ran into the limit of output (`length`, `max_tokens`).
    Length,
    /// It refused (`content_filter`, `refusal`).
    Refusal,
    /// Exactly this word.
    Other(String),
}

impl From<String> for ScriptedFinish {
    fn from(word: String) -> Self {
        match word.as_str() {
            "stop" => Self::Stop,
            "tool_calls" => Self::ToolCalls,
            "length" => Self::Length,
            "refusal" => Self::Refusal,
            _ => Self::Other(word),
        }
    }
}

/// Tokens as one request is billed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BilledUsage {
    /// Tokens of input that no cache knew.
    pub input: u64,
    /// Tokens of output, reasoning included.
    pub output: u64,
    /// Tokens of input read from the cache.
    pub cache_read: u64,
    /// Tokens of input written to the cache.
    pub cache_write: u64,
    /// Tokens of reasoning among the output.
    pub reasoning: u64,
}

/// How a provider may differ from the API it claims to speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quirk {
    /// Deltas of tool calls carry no `index` (`OpenAI`).
    NoIndex,
    /// Tool calls carry no `id` (`OpenAI`).
    NoId,
    /// A tool's name comes in two pieces to be joined (`OpenAI`).
    SplitNames,
    /// A tool's name comes in growing pieces, each with all before it (`OpenAI`).
    CumulativeNames,
    /// Every delta of a tool call repeats the whole name and id (`OpenAI`).
    RepeatedNames,
    /// Arguments come as an object instead of a string (`OpenAI`).
    ObjectArguments,
    /// Reasoning is called `reasoning` instead of `reasoning_content` (`OpenAI`).
    ReasoningField,
    /// No usage is reported, even where it was asked for.
    NoUsage,
    /// No reason for the end is reported.
    NoFinish,
    /// The stream ends without its last mark (`[DONE]`, `message_stop`).
    NoDone,
    /// Lines of the stream end with CR LF.
    Crlf,
    /// The stream carries comment lines between events.
    Comments,
}

/// How the delivery of a reply ends.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum DeliveryEnd {
    /// As the API says it should.
    #[default]
    Whole,
    /// The connection is closed after so many deltas.
    Cut(usize),
    /// Nothing more comes after so many deltas, until the client hangs up.
    Stall(usize),
    /// An error is sent inside the stream after so many deltas.
    Error {
        /// How many deltas come before it.
        after: usize,
        /// What it says.
        message: String,
    },
}

/// Characters per delta unless a reply says otherwise.
const CHUNK_CHARS: usize = 16;

impl ScriptedReply {
    fn of(content: ReplyContent) -> Self {
        Self {
            content,
            headers: Vec::new(),
            chunk_chars: CHUNK_CHARS,
            pace: None,
            holds: Vec::new(),
            end: DeliveryEnd::Whole,
        }
    }

    /// Returns a message without any content, to be added to.
    pub fn message() -> Self {
        Self::of(ReplyContent::Message(ReplyMessage::default()))
    }

    /// Returns a message that says `text`.
    pub fn text(text: impl Into<String>) -> Self {
        Self::message().with_text(text)
    }

    /// Returns a message that calls one tool. A string as `arguments` is sent
    /// as it is, so that malformed JSON can be said too.
    pub fn tool_call(name: impl Into<String>, arguments: impl Into<Value>) -> Self {
        Self::message().with_tool_call(ScriptedToolCall::new(name, arguments))
    }

    /// Returns a message that calls several tools at once.
    pub fn tool_calls(calls: impl IntoIterator<Item = ScriptedToolCall>) -> Self {
        calls.into_iter().fold(Self::message(), Self::with_tool_call)
    }

    /// Returns an HTTP error in the error shape of the API that was asked.
    pub fn error(status: u16, message: impl Into<String>) -> Self {
        Self::of(ReplyContent::Error { status, body: ScriptedError::Message(message.into()) })
    }

    /// Returns an HTTP error with exactly this body; a string is sent as plain
    /// text, anything else as JSON.
    pub fn error_body(status: u16, body: impl Into<Value>) -> Self {
        let body = match body.into() {
            Value::String(text) => ScriptedError::Raw(text),
            json => ScriptedError::Json(json),
        };
        Self::of(ReplyContent::Error { status, body })
    }

    /// Returns a reply of status 200 whose body is exactly `bytes`.
    pub fn garbage(bytes: impl Into<Vec<u8>>) -> Self {
        Self::of(ReplyContent::Garbage(bytes.into()))
    }

    /// Returns the reply that never comes: the request is taken and nothing is
    /// said until the client hangs up.
    pub fn stall() -> Self {
        Self::of(ReplyContent::Silence)
    }

    /// Returns the message in here. A reply that was none becomes one: the last
    /// word about what a reply is counts.
    fn message_mut(&mut self) -> &mut ReplyMessage {
        if !matches!(self.content, ReplyContent::Message(_)) {
            self.content = ReplyContent::Message(ReplyMessage::default());
        }
        match &mut self.content {
            ReplyContent::Message(message) => message,
            _ => unreachable!("it was made a message above"),
        }
    }

    fn edit(mut self, edit: impl FnOnce(&mut ReplyMessage)) -> Self {
        edit(self.message_mut());
        self
    }

    /// Says `text`.
    #[must_use]
    pub fn with_text(self, text: impl Into<String>) -> Self {
        self.edit(|message| message.text = Some(text.into()))
    }

    /// Thinks `reasoning` before anything else.
    #[must_use]
    pub fn with_reasoning(self, reasoning: impl Into<String>) -> Self {
        self.edit(|message| message.reasoning = Some(reasoning.into()))
    }

    /// Signs the reasoning with `signature` (Anthropic); one is made up when
    /// there is reasoning and no signature was given.
    #[must_use]
    pub fn with_signature(self, signature: impl Into<String>) -> Self {
        self.edit(|message| message.signature = Some(signature.into()))
    }

    /// Adds a block of reasoning that only the provider can read (Anthropic).
    #[must_use]
    pub fn with_redacted_reasoning(self, data: impl Into<String>) -> Self {
        self.edit(|message| message.redacted_reasoning = Some(data.into()))
    }

    /// Calls a tool, after the ones already there.
    #[must_use]
    pub fn with_tool_call(self, call: ScriptedToolCall) -> Self {
        self.edit(|message| message.tool_calls.push(call))
    }

    /// Ends for this reason instead of the one that fits the content.
    #[must_use]
    pub fn finish(self, finish: ScriptedFinish) -> Self {
        self.edit(|message| message.finish = Some(finish))
    }

    /// Bills `usage` instead of an estimate from the sizes.
    #[must_use]
    pub fn usage(self, usage: BilledUsage) -> Self {
        self.edit(|message| message.usage = Some(usage))
    }

    /// Differs from the API in this way.
    #[must_use]
    pub fn quirk(self, quirk: Quirk) -> Self {
        self.edit(|message| {
            message.quirks.insert(quirk);
        })
    }

    /// Sends `chars` characters per delta; 0 sends each part in one.
    #[must_use]
    pub fn chunked(mut self, chars: usize) -> Self {
        self.chunk_chars = chars;
        self
    }

    /// Waits before each delta. For benchmarks and people; tests hold instead.
    #[must_use]
    pub fn paced(mut self, pace: Duration) -> Self {
        self.pace = Some(pace);
        self
    }

    /// Stops after `deltas` deltas until `ScriptedModel::release`. Several
    /// holds in one reply are reached in turn. With more deltas than there
    /// are, only the end of the message is missing.
    #[must_use]
    pub fn hold_after(mut self, deltas: usize) -> Self {
        self.holds.push(deltas);
        self.holds.sort_unstable();
        self
    }

    /// Closes the connection after `deltas` deltas, without an end of message.
    #[must_use]
    pub fn cut_after(mut self, deltas: usize) -> Self {
        self.end = DeliveryEnd::Cut(deltas);
        self
    }

    /// Says nothing more after `deltas` deltas, until the client hangs up.
    #[must_use]
    pub fn stall_after(mut self, deltas: usize) -> Self {
        self.end = DeliveryEnd::Stall(deltas);
        self
    }

    /// Tells an error inside the stream after `deltas` deltas.
    #[must_use]
    pub fn error_after(mut self, deltas: usize, message: impl Into<String>) -> Self {
        self.end = DeliveryEnd::Error { after: deltas, message: message.into() };
        self
    }

    /// Adds a header to the response.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Adds `Retry-After` in seconds; [`Self::header`] takes any other form.
    #[must_use]
    pub fn retry_after(self, seconds: u64) -> Self {
        self.header("retry-after", seconds.to_string())
    }
}
