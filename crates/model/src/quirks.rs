//! What providers have said of their models, for as long as the process lives.
//!
//! Only a provider's own word gets in here: nothing is guessed, and nothing is
//! found out by trying smaller and smaller requests.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::endpoint::{ContextLimit, Endpoint};

/// What is known of each model at each address.
#[derive(Default)]
pub(crate) struct QuirkMemory {
    known: Mutex<HashMap<(String, String), KnownQuirks>>,
    /// The providers whose lists were looked up.
    looked_up: Mutex<HashSet<String>>,
}

#[derive(Default, Clone, Copy)]
struct KnownQuirks {
    /// The limit a provider named when it refused a longer conversation.
    refused_beyond: Option<u64>,
    /// The limit its list of models names.
    listed: Option<u64>,
    quirks: Quirks,
}

/// What a provider has said it takes differently, each learned from a refusal
/// that named the field.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quirks {
    /// `max_completion_tokens` in the place of `max_tokens`, or the other way round.
    pub(crate) output_limit: OutputLimit,
    /// Whether `stream_options` is left out.
    pub(crate) without_stream_options: bool,
    /// Whether reasoning is not sent back.
    pub(crate) without_reasoning: bool,
    /// Whether pictures in the results of tools, and those that words do without,
    /// are left out.
    pub(crate) without_optional_images: bool,
    /// The most tokens the model may be allowed to write.
    pub(crate) most_output: Option<u64>,
}

/// The name of the field that limits what a model writes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputLimit {
    /// The name everybody knows.
    #[default]
    MaxTokens,
    /// The name that newer models insist on.
    MaxCompletionTokens,
}

impl QuirkMemory {
    /// Keeps the limit a refusal named.
    pub(crate) fn refused_beyond(&self, endpoint: &Endpoint, limit: u64) {
        self.lock().entry(key(endpoint)).or_default().refused_beyond = Some(limit);
    }

    /// Keeps the limit a list of models names for one of them.
    pub(crate) fn listed(&self, endpoint: &Endpoint, model: &str, limit: u64) {
        let key = (endpoint.public_url(), model.to_owned());
        self.lock().entry(key).or_default().listed = Some(limit);
    }

    /// Notes that a provider's list is looked up; reports whether it was not yet.
    pub(crate) fn begin_lookup(&self, endpoint: &Endpoint) -> bool {
        let mut looked_up = self.looked_up.lock().unwrap_or_else(PoisonError::into_inner);
        looked_up.insert(format!("{} {}", endpoint.name, endpoint.public_url()))
    }

    /// Returns how much the model can hold. What a refusal said counts before
    /// what a list says; of the provider's word and the configured number the
    /// smaller counts: one may set less, but not make a model hold more.
    pub(crate) fn context_limit(&self, endpoint: &Endpoint) -> ContextLimit {
        let known = self.lock().get(&key(endpoint)).copied().unwrap_or_default();
        match (known.refused_beyond.or(known.listed), endpoint.context_length) {
            (Some(learned), Some(configured)) if configured <= learned => {
                ContextLimit::Configured(configured)
            }
            (Some(learned), _) => ContextLimit::Learned(learned),
            (None, Some(configured)) => ContextLimit::Configured(configured),
            (None, None) => ContextLimit::Unknown,
        }
    }

    pub(crate) fn quirks(&self, endpoint: &Endpoint) -> Quirks {
        self.lock().get(&key(endpoint)).copied().unwrap_or_default().quirks
    }

    pub(crate) fn set_quirks(&self, endpoint: &Endpoint, quirks: Quirks) {
        self.lock().entry(key(endpoint)).or_default().quirks = quirks;
    }

    /// A panic elsewhere leaves the map whole: every change is one assignment.
    fn lock(&self) -> MutexGuard<'_, HashMap<(String, String), KnownQuirks>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(endpoint: &Endpoint) -> (String, String) {
    (endpoint.public_url(), endpoint.model.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Api;

    fn endpoint(context_length: Option<u64>) -> Endpoint {
        Endpoint {
            name: "there".to_owned(),
            api: Api::ChatCompletions,
            base_url: "http://h/v1".to_owned(),
            key: None,
            model: "m".to_owned(),
            context_length,
            prices: None,
        }
    }

    #[test]
    fn a_limit_is_the_providers_word_or_as_configured_or_unknown() {
        let memory = QuirkMemory::default();
        assert_eq!(memory.context_limit(&endpoint(None)), ContextLimit::Unknown);
        assert_eq!(memory.context_limit(&endpoint(Some(7))), ContextLimit::Configured(7));
        memory.listed(&endpoint(None), "m", 100);
        memory.listed(&endpoint(None), "other", 5);
        assert_eq!(memory.context_limit(&endpoint(None)), ContextLimit::Learned(100));
        assert_eq!(memory.context_limit(&endpoint(Some(70))), ContextLimit::Configured(70));
        assert_eq!(memory.context_limit(&endpoint(Some(170))), ContextLimit::Learned(100));
        memory.refused_beyond(&endpoint(None), 90);
        assert_eq!(memory.context_limit(&endpoint(None)), ContextLimit::Learned(90));
    }
}
