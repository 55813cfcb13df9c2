//! What a provider said instead of an answer, and what it means.

use std::time::Duration;

use serde_json::Value;

use crate::error::{FailureDetail, ModelError};

/// A provider's own words on why there is no answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ProviderRefusal {
    /// The HTTP status or, inside of a stream, the number that stands for it.
    pub(crate) status: Option<u16>,
    /// The names it gives the error: its type and its code.
    pub(crate) names: Vec<String>,
    /// What it says to people.
    pub(crate) message: String,
    /// The size of the model's context, where a field of its own names it.
    pub(crate) context_size: Option<u64>,
}

impl ProviderRefusal {
    /// Reads the body of an answer with an error status.
    pub(crate) fn from_body(status: u16, body: &[u8]) -> Self {
        let mut refusal = match serde_json::from_slice::<Value>(body) {
            Ok(value) => Self::from_value(&value),
            Err(_) => {
                Self { message: String::from_utf8_lossy(body).into_owned(), ..Self::default() }
            }
        };
        refusal.status = Some(status);
        refusal
    }

    /// Reads an error in any of the shapes that are about.
    pub(crate) fn from_value(value: &Value) -> Self {
        let value = value.as_array().and_then(|list| list.first()).unwrap_or(value);
        let error = match &value["error"] {
            Value::Null => value,
            error => error,
        };
        let mut names = Vec::new();
        for key in ["type", "code", "status"] {
            if let Some(name) = error[key].as_str() {
                names.push(name.to_ascii_lowercase());
            }
        }
        let status = error["code"].as_u64().or_else(|| error["code"].as_str()?.parse().ok());
        let mut message = ["message", "detail", "error"]
            .iter()
            .map(|key| &error[*key])
            .find(|text| !text.is_null())
            .unwrap_or(error);
        if message.is_object() && message["message"].is_string() {
            message = &message["message"];
        }
        let mut message = message.as_str().map_or_else(|| message.to_string(), ToOwned::to_owned);
        // A provider of providers keeps the words of the one it asked here.
        if let Some(raw) = error["metadata"]["raw"].as_str() {
            message = format!("{message}: {raw}");
        }
        Self {
            status: status.and_then(|code| u16::try_from(code).ok()).filter(|code| *code >= 300),
            names,
            message,
            context_size: error["n_ctx"].as_u64(),
        }
    }

    /// Returns what it means. `detail` carries who was asked and the words as
    /// they may be shown.
    pub(crate) fn classify(
        &self,
        detail: FailureDetail,
        retry_after: Option<Duration>,
    ) -> ModelError {
        let status = self.status.unwrap_or(0);
        let limit = self.context_size.or_else(|| stated_limit(&self.message));
        if self.is_overflow(status) {
            return ModelError::ContextOverflow { detail, limit };
        }
        if status == 402 || self.is_about_money() {
            return ModelError::Quota { detail };
        }
        if self.named(&["content_filter", "content_policy_violation"]) {
            return ModelError::Refused { detail };
        }
        match status {
            401 | 403 => ModelError::Authentication { detail },
            404 => ModelError::NotFound { detail },
            429 => ModelError::RateLimited { detail, retry_after },
            408 | 409 | 425 | 500.. => ModelError::Server { detail, retry_after },
            300..400 => ModelError::Protocol { detail },
            400 if self.is_key_rejected() => ModelError::Authentication { detail },
            400..500 => ModelError::BadRequest { detail },
            _ => self.classify_by_name(detail, retry_after),
        }
    }

    /// Inside of a stream the name of the error stands in for a status.
    fn classify_by_name(&self, detail: FailureDetail, retry_after: Option<Duration>) -> ModelError {
        if self.named(&["authentication_error", "permission_error", "invalid_api_key"]) {
            ModelError::Authentication { detail }
        } else if self.named(&["rate_limit_error", "rate_limit_exceeded", "resource_exhausted"]) {
            ModelError::RateLimited { detail, retry_after }
        } else if self.named(&["not_found_error", "model_not_found"]) {
            ModelError::NotFound { detail }
        } else if self.named(&["invalid_request_error", "bad_request", "badrequesterror"]) {
            ModelError::BadRequest { detail }
        } else {
            ModelError::Server { detail, retry_after }
        }
    }

    fn named(&self, names: &[&str]) -> bool {
        self.names.iter().any(|name| names.contains(&name.as_str()))
    }

    fn is_about_money(&self) -> bool {
        self.named(&["insufficient_quota", "billing_error", "insufficient_balance"])
            || self.message.to_ascii_lowercase().contains("credit balance is too low")
    }

    fn is_key_rejected(&self) -> bool {
        let message = self.message.to_ascii_lowercase();
        message.contains("api key")
            && ["not valid", "invalid", "incorrect"].iter().any(|word| message.contains(word))
    }

    fn is_overflow(&self, status: u16) -> bool {
        if matches!(status, 401..=404 | 429) {
            return false;
        }
        let names = ["context_length_exceeded", "exceed_context_size_error", "request_too_large"];
        if status == 413 || self.named(&names) {
            return true;
        }
        let message = self.message.to_ascii_lowercase();
        let phrases = [
            "maximum context length",
            "prompt is too long",
            "exceed context limit",
            "exceeds the context",
            "exceeds the available context",
            "context length exceeded",
            "context window exceeded",
            "exceeds the maximum number of tokens allowed",
            "input is too long for requested model",
            "reduce the length of the messages",
        ];
        phrases.iter().any(|phrase| message.contains(phrase))
    }
}

/// Returns the number of tokens a model can hold, where the text says it in
/// words that leave no doubt.
fn stated_limit(message: &str) -> Option<u64> {
    let text = message.to_ascii_lowercase();
    let before = [
        "maximum context length is ",
        "maximum context length of ",
        "maximum number of tokens allowed (",
        "available context size (",
        "context window of ",
    ];
    for phrase in before {
        if let Some((_, rest)) = text.split_once(phrase) {
            return leading_number(rest);
        }
    }
    // "prompt is too long: 210000 tokens > 200000 maximum",
    // "exceed context limit: 188240 + 21333 > 200000".
    for phrase in ["prompt is too long", "exceed context limit"] {
        if let Some((_, rest)) = text.split_once(phrase)
            && let Some((_, rest)) = rest.split_once("> ")
        {
            return leading_number(rest);
        }
    }
    let (rest, _) = text.split_once(" maximum context length")?;
    leading_number(rest.rsplit(' ').next()?)
}

/// Returns the number a text begins with, which may group its digits.
fn leading_number(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != ',' && c != '_');
    let digits = text[..end.unwrap_or(text.len())].replace([',', '_'], "");
    digits.parse().ok().filter(|number| *number > 0)
}

#[cfg(test)]
#[path = "refusal_tests.rs"]
mod tests;
