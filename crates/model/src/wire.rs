//! What the APIs have in common: how an answer is put together.

use bytes::Bytes;
use serde_json::Value;

use crate::endpoint::Endpoint;
use crate::message::{AssistantMessage, ProviderApi};
use crate::quirks::Quirks;
use crate::refusal::ProviderRefusal;
use crate::request::{AnswerProgress, ModelRequest, TokenUsage};
use crate::{anthropic, chat_completions, responses};

/// The receiver of progress.
pub(crate) type ProgressWatch<'a> = dyn FnMut(AnswerProgress) + Send + 'a;

/// Why an answer that had started is none.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AnswerFault {
    /// The provider said so.
    Refused(ProviderRefusal),
    /// It ended before it was whole.
    Cut(&'static str),
    /// It is not what the API says.
    Garbage(String),
}

impl From<TooLong> for AnswerFault {
    fn from(_: TooLong) -> Self {
        Self::Garbage("an event of the answer is longer than 16 MiB".to_owned())
    }
}

/// How far an answer has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerStage {
    /// More is to come.
    Open,
    /// The model has finished; only figures may follow.
    Finished,
    /// Nothing may follow.
    Closed,
}

/// A whole answer.
#[derive(Debug, PartialEq)]
pub(crate) struct DecodedAnswer {
    pub(crate) message: AssistantMessage,
    /// None when the provider did not count.
    pub(crate) usage: Option<TokenUsage>,
    /// What the provider says it cost, in US dollars.
    pub(crate) cost_usd: Option<f64>,
    /// What the provider calls the model.
    pub(crate) model: Option<String>,
}

/// An answer in the making.
pub(crate) trait AnswerDecoder: Send {
    /// Takes the next event of the stream.
    fn event(
        &mut self,
        event: &StreamEvent,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<(), AnswerFault>;
    /// Takes an answer that came in one piece though a stream was asked for.
    fn whole(&mut self, value: &Value, watch: &mut ProgressWatch<'_>) -> Result<(), AnswerFault>;
    /// Says how far the answer has come.
    fn stage(&self) -> AnswerStage;
    /// Returns the answer, if it is whole now that the stream has ended.
    fn end(self: Box<Self>, watch: &mut ProgressWatch<'_>) -> Result<DecodedAnswer, AnswerFault>;
}

/// Returns what takes an endpoint's answer apart.
pub(crate) fn decoder(endpoint: &Endpoint) -> Box<dyn AnswerDecoder> {
    match endpoint.api {
        ProviderApi::ChatCompletions => {
            Box::new(chat_completions::ChatCompletionsDecoder::new(&endpoint.name))
        }
        ProviderApi::AnthropicMessages => {
            Box::new(anthropic::AnthropicDecoder::new(&endpoint.name))
        }
        ProviderApi::Responses => Box::new(responses::ResponsesDecoder::new(&endpoint.name)),
    }
}

/// Returns the body that asks an endpoint.
pub(crate) fn body(
    endpoint: &Endpoint,
    request: &ModelRequest<'_>,
    quirks: Quirks,
) -> Result<Bytes, serde_json::Error> {
    match endpoint.api {
        ProviderApi::ChatCompletions => chat_completions::body(endpoint, request, quirks),
        ProviderApi::AnthropicMessages => anthropic::body(endpoint, request, quirks),
        ProviderApi::Responses => responses::body(endpoint, request, quirks),
    }
}

/// Returns the path of the resource that is asked.
pub(crate) const fn resource(api: ProviderApi) -> &'static [&'static str] {
    match api {
        ProviderApi::ChatCompletions => &["chat", "completions"],
        ProviderApi::AnthropicMessages => &["messages"],
        ProviderApi::Responses => &["responses"],
    }
}

/// Reads the JSON of an event or a body.
pub(crate) fn json(text: &str) -> Result<Value, AnswerFault> {
    serde_json::from_str(text).map_err(|error| AnswerFault::Garbage(format!("not JSON: {error}")))
}

/// The longest line, and the longest event, that is taken.
pub(crate) const MAX_EVENT: usize = 16 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StreamEvent {
    /// Its `event` field; empty when there was none.
    pub(crate) name: String,
    /// Its `data` fields, joined by line feeds.
    pub(crate) data: String,
}

/// An event or a line longer than [`MAX_EVENT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLong;

/// The state between two pieces of a stream.
#[derive(Default)]
pub(crate) struct EventParser {
    line: Vec<u8>,
    name: String,
    data: Option<String>,
    after_carriage_return: bool,
    past_first_line: bool,
}

impl EventParser {
    /// Takes the next bytes and hands each event that they complete to `each`,
    /// until that breaks off.
    pub(crate) fn push<E: From<TooLong>>(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(StreamEvent) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(&first) = bytes.first() {
            if std::mem::take(&mut self.after_carriage_return) && first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let part = &bytes[..end.unwrap_or(bytes.len())];
            if self.line.len() + part.len() > MAX_EVENT {
                return Err(TooLong.into());
            }
            self.line.extend_from_slice(part);
            let Some(end) = end else { break };
            self.after_carriage_return = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            if let Some(event) = self.end_line()? {
                each(event)?;
            }
        }
        Ok(())
    }

    /// Returns the event that the end of the stream left without its blank
    /// line, as some servers leave their last.
    pub(crate) fn finish(mut self) -> Option<StreamEvent> {
        if !self.line.is_empty() {
            self.end_line().ok()?;
        }
        self.end_event()
    }

    fn end_line(&mut self) -> Result<Option<StreamEvent>, TooLong> {
        let line = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&line);
        let mut text = text.as_ref();
        if !std::mem::replace(&mut self.past_first_line, true) {
            text = text.strip_prefix('\u{feff}').unwrap_or(text);
        }
        if text.is_empty() {
            return Ok(self.end_event());
        }
        let (field, value) = text.split_once(':').unwrap_or((text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => match &mut self.data {
                Some(data) if data.len() + value.len() >= MAX_EVENT => return Err(TooLong),
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            // Comments (an empty field), `id` and `retry` say nothing to us.
            _ => {}
        }
        Ok(None)
    }

    fn end_event(&mut self) -> Option<StreamEvent> {
        let name = std::mem::take(&mut self.name);
        self.data.take().map(|data| StreamEvent { name, data })
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
