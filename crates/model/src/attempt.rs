//! One request to a provider, and when the next one is made after a failure.

use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, Response, Url};
use tokio::time::{Instant, timeout, timeout_at};

use crate::anthropic;
use crate::endpoint::Endpoint;
use crate::error::{FailureDetail, ModelError, chain};
use crate::message::ProviderApi;
use crate::models::{ModelOptions, ModelsShared};
use crate::refusal::ProviderRefusal;
use crate::wire::{
    self, AnswerFault, AnswerStage, DecodedAnswer, EventParser, ProgressWatch, StreamEvent,
};

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
    pub(crate) shared: &'a ModelsShared,
    pub(crate) endpoint: &'a Endpoint,
}

/// An answer that failed, and in which words if the provider had some.
pub(crate) struct FailedAnswer {
    pub(crate) error: ModelError,
    pub(crate) refusal: Option<ProviderRefusal>,
}

impl From<ModelError> for FailedAnswer {
    fn from(error: ModelError) -> Self {
        Self { error, refusal: None }
    }
}

impl Attempt<'_> {
    /// Asks for an answer and takes it as it comes.
    pub(crate) async fn answer(
        &self,
        body: Bytes,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<DecodedAnswer, FailedAnswer> {
        let url = self.endpoint.url(wire::resource(self.endpoint.api))?;
        let response = self.send(Method::POST, url, Some(body)).await?;
        let mut decoder = wire::decoder(self.endpoint);
        match content_type(&response) {
            "application/json" => {
                let body = self.read(response, MAX_ANSWER).await?;
                let value = serde_json::from_slice(&body).map_err(|error| {
                    self.fault(AnswerFault::Garbage(format!("not JSON: {error}")))
                })?;
                decoder.whole(&value, watch).map_err(|fault| self.fault(fault))?;
            }
            "text/html" => {
                let message = "a web page came in the place of an answer".to_owned();
                return Err(self.fault(AnswerFault::Garbage(message)));
            }
            _ => self.stream(response, decoder.as_mut(), watch).await?,
        }
        decoder.end(watch).map_err(|fault| self.fault(fault))
    }

    async fn stream(
        &self,
        mut response: Response,
        decoder: &mut dyn wire::AnswerDecoder,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<(), FailedAnswer> {
        let idle = self.shared.options.idle_timeout;
        let mut parser = EventParser::default();
        let mut taken = 0_usize;
        // Once the model has finished, the rest has so much time in all: a
        // server that only keeps the connection alive must not keep us.
        let mut latest: Option<Instant> = None;
        loop {
            let now = Instant::now();
            let until = match decoder.stage() {
                AnswerStage::Open => later(now, idle),
                AnswerStage::Finished => *latest.get_or_insert(now + idle.min(FIGURES)),
                AnswerStage::Closed => {
                    *latest.insert(latest.unwrap_or(now + DRAIN).min(now + DRAIN))
                }
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
                return Err(self.fault(AnswerFault::Garbage(message)));
            }
            let each = |event: StreamEvent| decoder.event(&event, watch);
            parser.push(&bytes, each).map_err(|fault| self.fault(fault))?;
        }
        // A last event that broke off in its middle is not garbage but a cut,
        // which the end of the answer tells.
        match parser.finish().map(|event| decoder.event(&event, watch)) {
            Some(Err(fault @ AnswerFault::Refused(_))) => Err(self.fault(fault)),
            _ => Ok(()),
        }
    }

    /// Sends a request and returns the answer if its status is one of success.
    pub(crate) async fn send(
        &self,
        method: Method,
        url: Url,
        body: Option<Bytes>,
    ) -> Result<Response, FailedAnswer> {
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
        let retry_after = retry_after(response.headers(), jiff::Timestamp::now());
        let mut refusal =
            ProviderRefusal { status: Some(status.as_u16()), ..ProviderRefusal::default() };
        if let Ok(body) = self.read(response, MAX_ERROR).await {
            refusal = ProviderRefusal::from_body(status.as_u16(), &body);
        }
        Err(self.refused(refusal, retry_after))
    }

    /// Reads a body whole; of an error, only as much as is wanted.
    pub(crate) async fn read(
        &self,
        mut response: Response,
        most: usize,
    ) -> Result<Vec<u8>, FailedAnswer> {
        let mut body = Vec::new();
        loop {
            match timeout(self.shared.options.idle_timeout, response.chunk()).await {
                Ok(Ok(Some(bytes))) if body.len() + bytes.len() > most => {
                    if response.status().is_success() {
                        let message = format!("the answer is longer than {most} bytes");
                        return Err(self.fault(AnswerFault::Garbage(message)));
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
            ProviderApi::ChatCompletions | ProviderApi::Responses => {
                (AUTHORIZATION, key.map(|key| format!("Bearer {}", key.expose())))
            }
            ProviderApi::AnthropicMessages => {
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
    pub(crate) fn fault(&self, fault: AnswerFault) -> FailedAnswer {
        match fault {
            AnswerFault::Refused(refusal) => self.refused(refusal, None),
            AnswerFault::Cut(message) => {
                ModelError::Cut { detail: self.detail(None, message) }.into()
            }
            AnswerFault::Garbage(message) => {
                ModelError::Protocol { detail: self.detail(None, &message) }.into()
            }
        }
    }

    fn refused(&self, refusal: ProviderRefusal, retry_after: Option<Duration>) -> FailedAnswer {
        let detail = self.detail(refusal.status, &refusal.message);
        let error = refusal.classify(detail, retry_after);
        FailedAnswer { error, refusal: Some(refusal) }
    }

    fn stalled(&self) -> ModelError {
        let after = self.shared.options.idle_timeout;
        ModelError::Timeout { detail: self.detail(None, ""), after }
    }

    pub(crate) fn detail(&self, status: Option<u16>, message: &str) -> FailureDetail {
        FailureDetail {
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

/// Longer than anybody waits.
const YEARS: Duration = Duration::from_hours(24 * 365 * 30);

/// What follows a failed attempt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NextAttempt {
    /// Another attempt, after a pause.
    Again(Duration),
    /// None at this endpoint.
    Stop,
}

/// How long an endpoint is asked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetryLimit {
    /// For seconds: another endpoint can be asked, or somebody only wants to look.
    Short,
    /// For minutes where the provider is busy: there is no other endpoint.
    Long,
}

/// Times that what is not a sign of a busy provider is tried again: a server that
/// is not there, or breaks off, is seldom another one a minute later.
const FEW: u32 = 3;

/// So many times longer are the pauses for a provider that is busy.
const BUSY: u32 = 4;

/// The longest pause that is granted to a provider while another can be asked.
const SHORT_PAUSE: Duration = Duration::from_mins(1);

/// Decides what follows after the `attempt`th attempt (from 1) failed.
pub(crate) fn next_attempt(
    error: &ModelError,
    attempt: u32,
    options: &ModelOptions,
    retry_limit: RetryLimit,
) -> NextAttempt {
    let is_waited_for = retry_limit == RetryLimit::Long && error.is_busy();
    let retries = if is_waited_for { options.retries } else { options.retries.min(FEW) };
    if !error.is_retryable() || attempt > retries {
        return NextAttempt::Stop;
    }
    let granted = match retry_limit {
        RetryLimit::Short => options.retry_after_cap.min(SHORT_PAUSE),
        RetryLimit::Long => options.retry_after_cap,
    };
    match error.retry_after() {
        Some(wanted) if wanted > granted => NextAttempt::Stop,
        // Clients with the same answer must not all come back at the same moment.
        Some(wanted) => {
            NextAttempt::Again(wanted.saturating_add(wanted.mul_f64(fastrand::f64() / 10.0)))
        }
        // At least half of it: minutes of asking must not shrink to seconds by chance.
        None if is_waited_for => {
            let ceiling = ceiling(attempt, options.backoff_base.saturating_mul(BUSY), options);
            NextAttempt::Again(ceiling.mul_f64(0.5 + fastrand::f64() / 2.0))
        }
        None => NextAttempt::Again(
            ceiling(attempt, options.backoff_base, options).mul_f64(fastrand::f64()),
        ),
    }
}

/// Returns the longest pause after the `attempt`th attempt.
fn ceiling(attempt: u32, base: Duration, options: &ModelOptions) -> Duration {
    let doubled = 2_u32.saturating_pow(attempt.saturating_sub(1));
    base.saturating_mul(doubled).min(options.backoff_cap)
}

/// Returns the moment that lies so far ahead; what no clock can tell is years.
pub(crate) fn later(now: Instant, ahead: Duration) -> Instant {
    now.checked_add(ahead).unwrap_or(now + YEARS)
}

/// Returns how long the provider wants to be left alone.
pub(crate) fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let header = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(millis) = header("retry-after-ms").and_then(|text| text.parse::<f64>().ok()) {
        return Duration::try_from_secs_f64(millis / 1000.0).ok();
    }
    let text = header("retry-after")?;
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    // A moment that has passed asks for no pause.
    Some(Duration::try_from(date.duration_since(now)).unwrap_or_default())
}

#[cfg(test)]
#[path = "attempt_tests.rs"]
mod tests;
