//! Asking a chain of models until one answers.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_recursion::async_recursion as boxed;
use tokio::time::{Instant, sleep};

use crate::attempt::{Attempt, FailedAnswer, NextAttempt, RetryLimit, later, next_attempt};
use crate::endpoint::{ContextLimit, Endpoint, known_cost};
use crate::error::ModelError;
use crate::models::ModelsShared;
use crate::quirks::adapt;
use crate::request::{AnswerProgress, Cost, CostSource, ModelAnswer, ModelRequest};
use crate::wire::{self, DecodedAnswer, ProgressWatch};

/// How often one call is repeated because the provider refused a field of it.
const MOST_ADAPTATIONS: u32 = 4;

/// Asks the first model of a chain and, where it fails, the next.
pub struct ModelChain {
    shared: Arc<ModelsShared>,
    chain: Vec<Endpoint>,
    /// The model that was fallen back to, and until when it is asked first:
    /// a conversation does not wait for the same failure at every step.
    held: Mutex<Option<(usize, Instant)>>,
}

impl ModelChain {
    pub(crate) fn new(shared: Arc<ModelsShared>, chain: Vec<Endpoint>) -> Self {
        Self { shared, chain, held: Mutex::new(None) }
    }

    /// Asks for an answer, telling `watch` what happens meanwhile. Dropping the
    /// future ends the request.
    ///
    /// What was reported as [`AnswerProgress::Text`] and the like is void once
    /// [`AnswerProgress::Retrying`] or [`AnswerProgress::FellBack`] is reported, or an error returned.
    #[boxed]
    pub async fn complete(
        &self,
        request: &ModelRequest<'_>,
        watch: &mut (dyn FnMut(AnswerProgress) + Send),
    ) -> Result<ModelAnswer, ModelError> {
        let first = self.first();
        let mut failures: Vec<ModelError> = Vec::new();
        for offset in 0..self.chain.len() {
            let index = (first + offset) % self.chain.len();
            let endpoint = &self.chain[index];
            if let Some(failure) = failures.last() {
                watch(AnswerProgress::FellBack {
                    provider: endpoint.name.clone(),
                    model: endpoint.model.clone(),
                    reason: failure.to_string(),
                });
            }
            let is_last = offset + 1 == self.chain.len();
            let retry_limit = if is_last { RetryLimit::Long } else { RetryLimit::Short };
            match self.ask(endpoint, request, retry_limit, watch).await {
                Ok(completion) => {
                    self.hold(index, offset > 0);
                    return Ok(completion);
                }
                // Not a failure of the provider: the caller can make it shorter.
                Err(error @ ModelError::ContextOverflow { .. }) => {
                    self.hold(index, offset > 0);
                    return Err(error);
                }
                Err(error) => failures.push(error),
            }
        }
        match failures.len() {
            0 => Err(ModelError::NotConfigured { message: "no model is configured".to_owned() }),
            1 => Err(failures.remove(0)),
            _ => Err(ModelError::Exhausted { failures }),
        }
    }

    /// Returns the context length of the model that is asked next.
    pub fn context_length(&self) -> ContextLimit {
        let endpoint = self.chain.get(self.first());
        endpoint
            .map_or(ContextLimit::Unknown, |endpoint| self.shared.memory.context_limit(endpoint))
    }

    /// Returns the model that is asked next; none if none is configured.
    pub fn endpoint(&self) -> Option<&Endpoint> {
        self.chain.get(self.first())
    }

    /// Asks one endpoint, again and again where that may help.
    async fn ask(
        &self,
        endpoint: &Endpoint,
        request: &ModelRequest<'_>,
        retry_limit: RetryLimit,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<ModelAnswer, ModelError> {
        let attempt = Attempt { shared: &self.shared, endpoint };
        // What is said for this call counts before what is configured for the model.
        let reasoning = request.reasoning.unwrap_or(endpoint.reasoning);
        let request = &ModelRequest { reasoning: Some(reasoning), ..request.clone() };
        let mut quirks = self.shared.memory.quirks(endpoint);
        let mut body = encode(&attempt, request, quirks)?;
        let mut number = 1;
        let mut adaptations = 0;
        loop {
            let started = Instant::now();
            let failed = match attempt.answer(body.clone(), watch).await {
                Ok(answer) => {
                    let elapsed_ms = started.elapsed().as_millis();
                    tracing::debug!(
                        provider = endpoint.name,
                        model = endpoint.model,
                        elapsed_ms,
                        "answered"
                    );
                    return Ok(completion(endpoint, answer));
                }
                Err(failed) => failed,
            };
            let FailedAnswer { mut error, refusal } = failed;
            let code = error.code();
            tracing::debug!(
                provider = endpoint.name,
                model = endpoint.model,
                number,
                code,
                "failed"
            );
            if let ModelError::ContextOverflow { limit: Some(limit), .. } = error {
                self.shared.memory.refused_beyond(endpoint, limit);
            }
            // A field that is not taken is left out or named differently, at
            // once: the request as it should have been is not a second attempt.
            let adapted =
                refusal.as_ref().and_then(|refusal| adapt(&error, refusal, request, quirks));
            if let Some(better) = adapted.filter(|_| adaptations < MOST_ADAPTATIONS) {
                adaptations += 1;
                quirks = better;
                self.shared.memory.set_quirks(endpoint, quirks);
                body = encode(&attempt, request, quirks)?;
                continue;
            }
            if let Some(detail) = error.detail_mut() {
                detail.attempts = number;
            }
            let next = next_attempt(&error, number, &self.shared.options, retry_limit);
            let NextAttempt::Again(after) = next else {
                return Err(error);
            };
            number += 1;
            watch(AnswerProgress::Retrying { attempt: number, after, reason: error.to_string() });
            sleep(after).await;
        }
    }

    fn first(&self) -> usize {
        let held = *self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.filter(|(_, until)| Instant::now() < *until).map_or(0, |(index, _)| index)
    }

    /// Stays with a model for a while after it was fallen back to.
    fn hold(&self, index: usize, fell_back: bool) {
        if fell_back {
            let until =
                (index != 0).then(|| later(Instant::now(), self.shared.options.fallback_hold));
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            *held = until.map(|until| (index, until));
        }
    }
}

impl fmt::Debug for ModelChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelChain").field("chain", &self.chain).finish_non_exhaustive()
    }
}

fn encode(
    attempt: &Attempt<'_>,
    request: &ModelRequest<'_>,
    quirks: crate::quirks::Quirks,
) -> Result<bytes::Bytes, ModelError> {
    wire::body(attempt.endpoint, request, quirks).map_err(|error| {
        let message = format!("cannot be written as JSON: {error}");
        ModelError::BadRequest { detail: attempt.detail(None, &message) }
    })
}

fn completion(endpoint: &Endpoint, answer: DecodedAnswer) -> ModelAnswer {
    let cost = match (answer.cost_usd, answer.usage, &endpoint.prices) {
        (Some(usd), _, _) => known_cost(usd * 1e6, CostSource::Provider),
        (None, Some(usage), Some(prices)) => prices.cost(&usage),
        // Without a token count there is no price.
        (None, _, _) => Cost::Unknown,
    };
    ModelAnswer {
        message: answer.message,
        usage: answer.usage.unwrap_or_default(),
        cost,
        provider: endpoint.name.clone(),
        model: answer.model.unwrap_or_else(|| endpoint.model.clone()),
    }
}
