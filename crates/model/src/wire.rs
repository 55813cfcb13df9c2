//! What the two APIs have in common: how an answer is put together.

use bytes::Bytes;
use serde_json::Value;

use crate::endpoint::Endpoint;
use crate::memory::Quirks;
use crate::message::{Api, AssistantMessage};
use crate::refusal::Refusal;
use crate::request::{Progress, Request};
use crate::sse::{Event, TooLong};
use crate::usage::Usage;
use crate::{anthropic, chat_completions};

/// Who is told what happens.
pub(crate) type Watch<'a> = dyn FnMut(Progress) + Send + 'a;

/// Why an answer that had begun is none.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The provider said so.
    Refused(Refusal),
    /// It ended before it was whole.
    Cut(&'static str),
    /// It is not what the API says.
    Garbage(String),
}

impl From<TooLong> for Fault {
    fn from(_: TooLong) -> Self {
        Self::Garbage("an event of the answer is longer than 16 MiB".to_owned())
    }
}

/// How far an answer has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// More is to come.
    Open,
    /// The model has finished; only figures may follow.
    Finished,
    /// Nothing may follow.
    Closed,
}

/// A whole answer.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) message: AssistantMessage,
    /// None when the provider did not count.
    pub(crate) usage: Option<Usage>,
    /// What the provider says it cost, in US dollars.
    pub(crate) cost_usd: Option<f64>,
    /// What the provider calls the model.
    pub(crate) model: Option<String>,
}

/// An answer in the making.
pub(crate) trait Decoder: Send {
    /// Takes the next event of the stream.
    fn event(&mut self, event: &Event, watch: &mut Watch<'_>) -> Result<(), Fault>;
    /// Takes an answer that came in one piece though a stream was asked for.
    fn whole(&mut self, value: &Value, watch: &mut Watch<'_>) -> Result<(), Fault>;
    /// Says how far the answer has come.
    fn stage(&self) -> Stage;
    /// Returns the answer, if it is whole now that the stream has ended.
    fn end(self: Box<Self>, watch: &mut Watch<'_>) -> Result<Answer, Fault>;
}

/// Returns what takes an endpoint's answer apart.
pub(crate) fn decoder(endpoint: &Endpoint) -> Box<dyn Decoder> {
    match endpoint.api {
        Api::ChatCompletions => Box::new(chat_completions::Decoder::new(&endpoint.name)),
        Api::AnthropicMessages => Box::new(anthropic::Decoder::new(&endpoint.name)),
    }
}

/// Returns the body that asks an endpoint.
pub(crate) fn body(
    endpoint: &Endpoint,
    request: &Request<'_>,
    quirks: Quirks,
) -> Result<Bytes, serde_json::Error> {
    match endpoint.api {
        Api::ChatCompletions => chat_completions::body(endpoint, request, quirks),
        Api::AnthropicMessages => anthropic::body(endpoint, request, quirks),
    }
}

/// Returns the path of the resource that is asked.
pub(crate) const fn resource(api: Api) -> &'static [&'static str] {
    match api {
        Api::ChatCompletions => &["chat", "completions"],
        Api::AnthropicMessages => &["messages"],
    }
}

/// Reads the JSON of an event or a body.
pub(crate) fn json(text: &str) -> Result<Value, Fault> {
    serde_json::from_str(text).map_err(|error| Fault::Garbage(format!("not JSON: {error}")))
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
