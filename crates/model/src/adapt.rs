//! Taking a provider at its word when it names a field it doesn't take.

use crate::error::ModelError;
use crate::message::{Message, Part};
use crate::quirks::{OutputLimit, Quirks};
use crate::refusal::ProviderRefusal;
use crate::request::Request;

/// Returns what the request shall be like instead, if the refusal is about a
/// field that can be left out, named differently or made smaller, and that has
/// not been tried yet.
pub(crate) fn adapt(
    error: &ModelError,
    refusal: &ProviderRefusal,
    request: &Request<'_>,
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
    if message.contains("reasoning") && !quirks.without_reasoning {
        return Some(Quirks { without_reasoning: true, ..quirks });
    }
    if message.contains("stream_options") && !quirks.without_stream_options {
        return Some(Quirks { without_stream_options: true, ..quirks });
    }
    None
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

fn has_optional_images(request: &Request<'_>) -> bool {
    request.messages.iter().any(|message| match message {
        Message::Tool(result) => !result.images.is_empty(),
        Message::User(said) => said.parts.iter().any(Part::is_optional),
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
#[path = "adapt_tests.rs"]
mod tests;
