//! What providers have said of their models, for as long as the process lives, and how a request is
//! adapted to it.
//!
//! Only a provider's own word gets in here: nothing is guessed, and nothing is
//! found out by trying smaller and smaller requests.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::endpoint::{ContextLimit, Endpoint};
use crate::error::ModelError;
use crate::message::{Message, Part};
use crate::refusal::ProviderRefusal;
use crate::request::ModelRequest;

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
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
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
    /// Whether what it thinks is not asked for in the form that can be sent back.
    pub(crate) without_encrypted_reasoning: bool,
    /// Whether no summary of what it thinks is asked for.
    pub(crate) without_reasoning_summary: bool,
    /// How it is told how much to think.
    pub(crate) thinking: ThinkingRule,
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

/// How a model is told how much to think.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ThinkingRule {
    /// As the API has it.
    #[default]
    Plain,
    /// By a word, where the API otherwise wants a number of tokens: newer models
    /// of Anthropic insist on it.
    Adaptive,
    /// Not at all: the model takes no such field.
    LeftOut,
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

/// Returns what the request shall be like instead, if the refusal is about a
/// field that can be left out, named differently or made smaller, and that has
/// not been tried yet.
pub(crate) fn adapt(
    error: &ModelError,
    refusal: &ProviderRefusal,
    request: &ModelRequest<'_>,
    quirks: Quirks,
) -> Option<Quirks> {
    let message = refusal.message.to_ascii_lowercase();
    if refuses_images(error, &message) && has_optional_images(request) {
        // What a person shows the model is not left out behind their back; what
        // a tool showed, or words do without, must not end the conversation.
        let adapted = Quirks { without_optional_images: true, ..quirks };
        return (adapted != quirks).then_some(adapted);
    }
    if !matches!(error, ModelError::BadRequest { .. }) {
        return None;
    }
    if let Some(most) = most_output(&message)
        && quirks.most_output.is_none_or(|known| most < known)
    {
        return Some(Quirks { most_output: Some(most), ..quirks });
    }
    if let Some(quirks) = other_reasoning(&message, quirks) {
        return Some(quirks);
    }
    if let Some(thinking) = other_thinking(&message, request, quirks.thinking) {
        return Some(Quirks { thinking, ..quirks });
    }
    let unsigned = message.contains("signature") && message.contains("thinking");
    if unsigned && !quirks.without_reasoning {
        return Some(Quirks { without_reasoning: true, ..quirks });
    }
    let unwanted = [
        "unsupported",
        "not supported",
        "unrecognized",
        "unknown",
        "extra inputs",
        "not permitted",
        "not allowed",
        "unexpected",
        "instead",
        "additional propert",
    ];
    if !unwanted.iter().any(|word| message.contains(word)) {
        return None;
    }
    // The longer name holds none of the shorter, but a refusal of one may
    // advise the other: the one that is in use is the one that is refused.
    let limited = request.max_output_tokens.is_some();
    if limited && message.contains("max_tokens") && quirks.output_limit == OutputLimit::MaxTokens {
        return Some(Quirks { output_limit: OutputLimit::MaxCompletionTokens, ..quirks });
    }
    let is_about_effort =
        message.contains("reasoning_effort") || message.contains("reasoning.effort");
    if message.contains("reasoning") && !is_about_effort && !quirks.without_reasoning {
        return Some(Quirks { without_reasoning: true, ..quirks });
    }
    if message.contains("stream_options") && !quirks.without_stream_options {
        return Some(Quirks { without_stream_options: true, ..quirks });
    }
    None
}

/// Returns what a model's thoughts are asked for and sent like instead, if the refusal is about them.
fn other_reasoning(message: &str, quirks: Quirks) -> Option<Quirks> {
    let is_encrypted =
        message.contains("encrypted content") || message.contains("encrypted_content");
    let is_unreadable = is_encrypted
        && ["could not be", "verif", "decrypt", "invalid"]
            .iter()
            .any(|word| message.contains(word));
    let is_alone =
        message.contains("type 'reasoning'") && message.contains("required following item");
    if (is_unreadable || is_alone) && !quirks.without_reasoning {
        return Some(Quirks { without_reasoning: true, ..quirks });
    }
    if is_encrypted && message.contains("not supported") && !quirks.without_encrypted_reasoning {
        return Some(Quirks { without_encrypted_reasoning: true, ..quirks });
    }
    let is_summary = message.contains("reasoning.summary") || message.contains("reasoning summar");
    if is_summary && !quirks.without_reasoning_summary {
        return Some(Quirks { without_reasoning_summary: true, ..quirks });
    }
    None
}

/// Returns how a model is told how much to think, if it does not take what it was
/// told as it was. A value that is not among those of the model is no such case:
/// the person who chose it reads which ones are.
fn other_thinking(
    message: &str,
    request: &ModelRequest<'_>,
    rule: ThinkingRule,
) -> Option<ThinkingRule> {
    let is_told = request.reasoning.is_some_and(|reasoning| !reasoning.is_auto());
    if !is_told || message.contains("unsupported value") || message.contains("signature") {
        return None;
    }
    if rule == ThinkingRule::Plain && message.contains("thinking") && message.contains("adaptive") {
        return Some(ThinkingRule::Adaptive);
    }
    let fields = ["reasoning_effort", "reasoning.effort", "thinking", "output_config"];
    let unwanted = [
        "not supported",
        "unsupported",
        "not support",
        "unknown",
        "unrecognized",
        "extra inputs",
        "not permitted",
        "not allowed",
        "unexpected",
        "additional propert",
    ];
    let is_about = fields.iter().any(|field| message.contains(field));
    let is_unwanted = unwanted.iter().any(|word| message.contains(word));
    (is_about && is_unwanted && rule != ThinkingRule::LeftOut).then_some(ThinkingRule::LeftOut)
}

/// Reports whether a model takes no pictures: some servers call that a wrong
/// request, some know nobody who would, and some fail.
pub(crate) fn refuses_images(error: &ModelError, message: &str) -> bool {
    let may_be = matches!(
        error,
        ModelError::BadRequest { .. } | ModelError::NotFound { .. } | ModelError::Server { .. }
    );
    may_be && ["image", "vision", "multimodal"].iter().any(|word| message.contains(word))
}

fn has_optional_images(request: &ModelRequest<'_>) -> bool {
    request.messages.iter().any(|message| match message {
        Message::Tool(result) => !result.images.is_empty(),
        Message::User(message) => message.parts.iter().any(Part::is_optional),
        Message::Assistant(_) => false,
    })
}

/// Returns the most a model may be allowed to write, where the provider says:
/// `max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens`.
fn most_output(message: &str) -> Option<u64> {
    if !message.contains("output tokens") {
        return None;
    }
    let (_, rest) = message.split_once("max_tokens: ")?;
    let (_, rest) = rest.split_once("> ")?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok().filter(|most| *most > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::ProviderApi;

    fn endpoint(context_length: Option<u64>) -> Endpoint {
        Endpoint {
            name: "there".to_owned(),
            api: ProviderApi::ChatCompletions,
            base_url: "http://h/v1".to_owned(),
            key: None,
            model: "m".to_owned(),
            context_length,
            prices: None,
            reasoning: crate::effort::ReasoningOptions::AUTO,
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

#[cfg(test)]
#[path = "adapt_tests.rs"]
mod adapt_tests;
