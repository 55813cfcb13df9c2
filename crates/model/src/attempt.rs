//! One HTTP request for one answer.

use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, Response, Url};
use tokio::time::{Instant, timeout, timeout_at};

use crate::anthropic;
use crate::backoff::{self, later};
use crate::cause::chain;
use crate::endpoint::Endpoint;
use crate::error::{Detail, ModelError};
use crate::message::Api;
use crate::models::Shared;
use crate::refusal::Refusal;
use crate::sse::{Event, Parser};
use crate::wire::{self, Answer, Fault, Stage, Watch};

/// The most bytes of an answer that are taken.
const MAX_ANSWER: usize = 64 << 20;

/// The most bytes of an error that are read.
const MAX_ERROR: usize = 64 << 10;

/// The most characters of an error that are shown.
const MAX_MESSAGE: usize = 600;

/// How long the figures of a finished answer are waited for.
const FIGURES: Duration = Duration::from_secs(5);

/// How long the end of a closed answer is waited for. It mostly comes along
/// with the last event; without it, the connection cannot be used again.
const DRAIN: Duration = Duration::from_millis(250);

/// An endpoint that is being asked.
pub(crate) struct Attempt<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) endpoint: &'a Endpoint,
}

/// An answer that failed, and in which words if the provider had some.
pub(crate) struct Failed {
    pub(crate) error: ModelError,
    pub(crate) refusal: Option<Refusal>,
}

impl From<ModelError> for Failed {
    fn from(error: ModelError) -> Self {
        Self { error, refusal: None }
    }
}

impl Attempt<'_> {
    /// Asks for an answer and takes it as it comes.
    pub(crate) async fn answer(
        &self,
        body: Bytes,
        watch: &mut Watch<'_>,
    ) -> Result<Answer, Failed> {
        let url = self.endpoint.url(wire::resource(self.endpoint.api))?;
        let response = self.send(Method::POST, url, Some(body)).await?;
        let mut decoder = wire::decoder(self.endpoint);
        match content_type(&response) {
            "application/json" => {
                let body = self.read(response, MAX_ANSWER).await?;
                let value = serde_json::from_slice(&body)
                    .map_err(|error| self.fault(Fault::Garbage(format!("not JSON: {error}"))))?;
                decoder.whole(&value, watch).map_err(|fault| self.fault(fault))?;
            }
            "text/html" => {
                let message = "a web page came in the place of an answer".to_owned();
                return Err(self.fault(Fault::Garbage(message)));
            }
            _ => self.stream(response, decoder.as_mut(), watch).await?,
        }
        decoder.end(watch).map_err(|fault| self.fault(fault))
    }

    async fn stream(
        &self,
        mut response: Response,
        decoder: &mut dyn wire::Decoder,
        watch: &mut Watch<'_>,
    ) -> Result<(), Failed> {
        let idle = self.shared.options.idle_timeout;
        let mut parser = Parser::default();
        let mut taken = 0_usize;
        // Once the model has finished, the rest has so much time in all: a
        // server that only keeps the connection alive must not keep us.
        let mut latest: Option<Instant> = None;
        loop {
            let now = Instant::now();
            let until = match decoder.stage() {
                Stage::Open => later(now, idle),
                Stage::Finished => *latest.get_or_insert(now + idle.min(FIGURES)),
                Stage::Closed => *latest.insert(latest.unwrap_or(now + DRAIN).min(now + DRAIN)),
            };
            let bytes = match timeout_at(until, response.chunk()).await {
                Ok(Ok(Some(bytes))) => bytes,
                Ok(Ok(None)) => break,
                // Nothing that was said is missing.
                Ok(Err(_)) | Err(_) if latest.is_some() => return Ok(()),
                Ok(Err(error)) => {
                    return Err(ModelError::Cut { detail: self.detail(None, &chain(error)) }.into());
                }
                Err(_) => return Err(self.stalled().into()),
            };
            taken = taken.saturating_add(bytes.len());
            if taken > MAX_ANSWER {
                let message = "the answer is longer than 64 MiB".to_owned();
                return Err(self.fault(Fault::Garbage(message)));
            }
            let each = |event: Event| decoder.event(&event, watch);
            parser.push(&bytes, each).map_err(|fault| self.fault(fault))?;
        }
        // A last event that broke off in its middle is no garbage but a cut,
        // which the end of the answer tells.
        match parser.finish().map(|event| decoder.event(&event, watch)) {
            Some(Err(fault @ Fault::Refused(_))) => Err(self.fault(fault)),
            _ => Ok(()),
        }
    }

    /// Sends a request and returns the answer if its status is one of success.
    pub(crate) async fn send(
        &self,
        method: Method,
        url: Url,
        body: Option<Bytes>,
    ) -> Result<Response, Failed> {
        let client = self.shared.client(&url).map_err(|error| {
            let detail = self.detail(None, &error.to_string());
            ModelError::Unreachable { detail }
        })?;
        let mut builder = client.request(method, url).headers(self.headers()?);
        if let Some(body) = body {
            builder = builder.body(body);
        }
        let response = match timeout(self.shared.options.idle_timeout, builder.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                let detail = self.detail(None, &chain(error));
                return Err(ModelError::Unreachable { detail }.into());
            }
            Err(_) => return Err(self.stalled().into()),
        };
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let retry_after = backoff::retry_after(response.headers(), jiff::Timestamp::now());
        let mut refusal = Refusal { status: Some(status.as_u16()), ..Refusal::default() };
        if let Ok(body) = self.read(response, MAX_ERROR).await {
            refusal = Refusal::from_body(status.as_u16(), &body);
        }
        Err(self.refused(refusal, retry_after))
    }

    /// Reads a body whole; of an error, only as much as is wanted.
    pub(crate) async fn read(
        &self,
        mut response: Response,
        most: usize,
    ) -> Result<Vec<u8>, Failed> {
        let mut body = Vec::new();
        loop {
            match timeout(self.shared.options.idle_timeout, response.chunk()).await {
                Ok(Ok(Some(bytes))) if body.len() + bytes.len() > most => {
                    if response.status().is_success() {
                        let message = format!("the answer is longer than {most} bytes");
                        return Err(self.fault(Fault::Garbage(message)));
                    }
                    body.extend_from_slice(&bytes[..most - body.len()]);
                    return Ok(body);
                }
                Ok(Ok(Some(bytes))) => body.extend_from_slice(&bytes),
                Ok(Ok(None)) => return Ok(body),
                Ok(Err(error)) => {
                    return Err(ModelError::Cut { detail: self.detail(None, &chain(error)) }.into());
                }
                Err(_) => return Err(self.stalled().into()),
            }
        }
    }

    fn headers(&self) -> Result<HeaderMap, ModelError> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
        let key = self.endpoint.key.as_ref().filter(|key| !key.is_empty());
        let (name, value) = match self.endpoint.api {
            Api::ChatCompletions => {
                (AUTHORIZATION, key.map(|key| format!("Bearer {}", key.expose())))
            }
            Api::AnthropicMessages => {
                headers.insert("anthropic-version", HeaderValue::from_static(anthropic::VERSION));
                let name = reqwest::header::HeaderName::from_static("x-api-key");
                (name, key.map(|key| key.expose().to_owned()))
            }
        };
        if let Some(value) = value {
            let mut value = HeaderValue::from_str(&value).map_err(|_| {
                let message = "the key has characters that a header cannot carry";
                ModelError::Authentication { detail: self.detail(None, message) }
            })?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(headers)
    }

    /// Turns what went wrong within an answer into an error.
    pub(crate) fn fault(&self, fault: Fault) -> Failed {
        match fault {
            Fault::Refused(refusal) => self.refused(refusal, None),
            Fault::Cut(message) => ModelError::Cut { detail: self.detail(None, message) }.into(),
            Fault::Garbage(message) => {
                ModelError::Protocol { detail: self.detail(None, &message) }.into()
            }
        }
    }

    fn refused(&self, refusal: Refusal, retry_after: Option<Duration>) -> Failed {
        let detail = self.detail(refusal.status, &refusal.message);
        let error = refusal.classify(detail, retry_after);
        Failed { error, refusal: Some(refusal) }
    }

    fn stalled(&self) -> ModelError {
        let after = self.shared.options.idle_timeout;
        ModelError::Timeout { detail: self.detail(None, ""), after }
    }

    pub(crate) fn detail(&self, status: Option<u16>, message: &str) -> Detail {
        Detail {
            provider: self.endpoint.name.clone(),
            model: self.endpoint.model.clone(),
            status,
            message: self.endpoint.mask().clean(message, MAX_MESSAGE),
            attempts: 1,
        }
    }
}

fn content_type(response: &Response) -> &'static str {
    let value = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = value.and_then(|value| value.split(';').next()).unwrap_or_default().trim();
    let known = ["application/json", "text/html"];
    known.into_iter().find(|known| essence.eq_ignore_ascii_case(known)).unwrap_or_default()
}
