//! The ways in which asking a model fails.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// Why there is no answer. A failed call is never an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelError {
    /// There is nobody to ask, or the address is none.
    NotConfigured {
        /// What is missing.
        message: String,
    },
    /// No connection came about, or it broke before an answer began.
    Unreachable {
        /// Who, and what was said.
        detail: FailureDetail,
    },
    /// Not one byte came for a long time.
    Timeout {
        /// Who, and what was said.
        detail: FailureDetail,
        /// How long was waited for a byte.
        after: Duration,
    },
    /// The provider wants to be asked less often.
    RateLimited {
        /// Who, and what was said.
        detail: FailureDetail,
        /// How long the provider wants to be left alone.
        retry_after: Option<Duration>,
    },
    /// The key is missing, wrong, or not good for this.
    Authentication {
        /// Who, and what was said.
        detail: FailureDetail,
    },
    /// The account has nothing left to spend.
    Quota {
        /// Who, and what was said.
        detail: FailureDetail,
    },
    /// The provider knows no such model or address.
    NotFound {
        /// Who, and what was said.
        detail: FailureDetail,
    },
    /// The provider doesn't take the request as it is.
    BadRequest {
        /// Who, and what was said.
        detail: FailureDetail,
    },
    /// The conversation is longer than the model can hold.
    ContextOverflow {
        /// Who, and what was said.
        detail: FailureDetail,
        /// How many tokens it can hold, if the provider said so.
        limit: Option<u64>,
    },
    /// The provider will not answer this, by its rules on content.
    Refused {
        /// Who, and what was said.
        detail: FailureDetail,
    },
    /// The provider failed.
    Server {
        /// Who, and what was said.
        detail: FailureDetail,
        /// How long the provider wants to be left alone.
        retry_after: Option<Duration>,
    },
    /// The answer broke off in the middle.
    Cut {
        /// Who, and what was said.
        detail: FailureDetail,
    },
    /// What came back is not what the API says.
    Protocol {
        /// Who, and what was said.
        detail: FailureDetail,
    },
    /// Every endpoint of the chain failed.
    Exhausted {
        /// Why each of them did, in the order they were asked.
        failures: Vec<ModelError>,
    },
}

/// The provider that failed, and its message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FailureDetail {
    /// The provider, as configured.
    pub provider: String,
    /// The model, as configured.
    pub model: String,
    /// The HTTP status, if there was an answer.
    pub status: Option<u16>,
    /// The provider's own words or, without an answer, what happened; on one
    /// line, bounded, and without the key.
    pub message: String,
    /// How often the endpoint was asked.
    pub attempts: u32,
}

impl ModelError {
    /// Returns who failed; none where nobody was asked, or more than one.
    pub fn detail(&self) -> Option<&FailureDetail> {
        match self {
            Self::NotConfigured { .. } | Self::Exhausted { .. } => None,
            Self::Unreachable { detail }
            | Self::Timeout { detail, .. }
            | Self::RateLimited { detail, .. }
            | Self::Authentication { detail }
            | Self::Quota { detail }
            | Self::NotFound { detail }
            | Self::BadRequest { detail }
            | Self::ContextOverflow { detail, .. }
            | Self::Refused { detail }
            | Self::Server { detail, .. }
            | Self::Cut { detail }
            | Self::Protocol { detail } => Some(detail),
        }
    }

    pub(crate) fn detail_mut(&mut self) -> Option<&mut FailureDetail> {
        match self {
            Self::NotConfigured { .. } | Self::Exhausted { .. } => None,
            Self::Unreachable { detail }
            | Self::Timeout { detail, .. }
            | Self::RateLimited { detail, .. }
            | Self::Authentication { detail }
            | Self::Quota { detail }
            | Self::NotFound { detail }
            | Self::BadRequest { detail }
            | Self::ContextOverflow { detail, .. }
            | Self::Refused { detail }
            | Self::Server { detail, .. }
            | Self::Cut { detail }
            | Self::Protocol { detail } => Some(detail),
        }
    }

    /// Returns a name for programs; it stays the same from version to version.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotConfigured { .. } => "not_configured",
            Self::Unreachable { .. } => "unreachable",
            Self::Timeout { .. } => "timeout",
            Self::RateLimited { .. } => "rate_limited",
            Self::Authentication { .. } => "authentication",
            Self::Quota { .. } => "quota",
            Self::NotFound { .. } => "not_found",
            Self::BadRequest { .. } => "bad_request",
            Self::ContextOverflow { .. } => "context_overflow",
            Self::Refused { .. } => "refused",
            Self::Server { .. } => "server",
            Self::Cut { .. } => "cut",
            Self::Protocol { .. } => "protocol",
            Self::Exhausted { .. } => "exhausted",
        }
    }

    /// Reports whether the same request may succeed a little later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::Timeout { .. }
            | Self::RateLimited { .. }
            | Self::Server { .. }
            | Self::Cut { .. } => true,
            Self::NotConfigured { .. }
            | Self::Authentication { .. }
            | Self::Quota { .. }
            | Self::NotFound { .. }
            | Self::BadRequest { .. }
            | Self::ContextOverflow { .. }
            | Self::Refused { .. }
            | Self::Protocol { .. } => false,
            Self::Exhausted { failures } => failures.iter().any(Self::is_retryable),
        }
    }

    /// Reports whether the provider has too much to do, or is not ready yet: a
    /// model that is being loaded, a gateway that waits for it.
    pub(crate) fn is_busy(&self) -> bool {
        match self {
            Self::RateLimited { .. } => true,
            Self::Server { detail, .. } => detail.status != Some(500),
            _ => false,
        }
    }

    /// Returns how long the provider wants to be left alone.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after, .. } | Self::Server { retry_after, .. } => {
                *retry_after
            }
            _ => None,
        }
    }

    /// Reports whether everybody who was asked takes no pictures, by what they said.
    pub fn refuses_images(&self) -> bool {
        match self {
            Self::Exhausted { failures } => {
                !failures.is_empty() && failures.iter().all(Self::refuses_images)
            }
            _ => self.detail().is_some_and(|detail| {
                crate::quirks::refuses_images(self, &detail.message.to_ascii_lowercase())
            }),
        }
    }

    /// Returns what a person can do about it.
    pub fn advice(&self) -> String {
        let provider = self.detail().map_or("the provider", |detail| detail.provider.as_str());
        match self {
            Self::NotConfigured { .. } => {
                "configure a model and the address of its provider".to_owned()
            }
            Self::Unreachable { .. } => {
                format!(
                    "check that the address of {provider} is right and can be reached from here"
                )
            }
            Self::Timeout { .. } => {
                format!(
                    "try again; if {provider} is known to think that long, raise the idle timeout"
                )
            }
            Self::RateLimited { retry_after: Some(after), .. } => {
                format!("try again in {} s, or configure a fallback", whole_seconds(*after))
            }
            Self::RateLimited { .. } | Self::Server { .. } => {
                "try again later, or configure a fallback".to_owned()
            }
            Self::Authentication { .. } => format!("check the key configured for {provider}"),
            Self::Quota { .. } => {
                format!("check the balance and limits of the account at {provider}")
            }
            Self::NotFound { .. } => {
                format!("check the model's name against those {provider} lists, and the address")
            }
            Self::BadRequest { .. } => {
                format!("read the message of {provider}; the model may not accept tools or images")
            }
            Self::ContextOverflow { .. } => {
                "compress the conversation, begin a new one, or choose a model that holds more"
                    .to_owned()
            }
            Self::Refused { .. } => "rephrase the message, or ask another model".to_owned(),
            Self::Cut { .. } => "try again".to_owned(),
            Self::Protocol { .. } => {
                format!(
                    "check that the address of {provider} is that of its API, and which API it is"
                )
            }
            Self::Exhausted { failures } => {
                let mut advice: Vec<String> = Vec::new();
                for failure in failures {
                    let one = failure.advice();
                    if !advice.contains(&one) {
                        advice.push(one);
                    }
                }
                advice.join("; ")
            }
        }
    }
}

fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

impl std::error::Error for ModelError {}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotConfigured { message } => f.write_str(message),
            Self::Unreachable { detail } => detail.write(f, "cannot be reached"),
            Self::Timeout { detail, after } => {
                detail.write(f, &format!("sent nothing for {} s", whole_seconds(*after)))
            }
            Self::RateLimited { detail, retry_after: Some(after) } => {
                let wait = whole_seconds(*after);
                detail.write(f, &format!("is asked too often and wants {wait} s of rest"))
            }
            Self::RateLimited { detail, retry_after: None } => {
                detail.write(f, "is asked too often")
            }
            Self::Authentication { detail } => detail.write(f, "refuses the key"),
            Self::Quota { detail } => detail.write(f, "says the account is used up"),
            Self::NotFound { detail } => detail.write(f, "has no such model or address"),
            Self::BadRequest { detail } => detail.write(f, "doesn't take the request"),
            Self::ContextOverflow { detail, limit: Some(limit) } => {
                detail.write(f, &format!("cannot hold a conversation beyond {limit} tokens"))
            }
            Self::ContextOverflow { detail, limit: None } => {
                detail.write(f, "cannot hold a conversation of this length")
            }
            Self::Refused { detail } => detail.write(f, "refuses to answer this"),
            Self::Server { detail, .. } => detail.write(f, "failed"),
            Self::Cut { detail } => detail.write(f, "broke off in the middle of its answer"),
            Self::Protocol { detail } => detail.write(f, "sent an invalid answer"),
            Self::Exhausted { failures } => {
                f.write_str("every model failed: ")?;
                for (index, failure) in failures.iter().enumerate() {
                    let separator = if index == 0 { "" } else { "; " };
                    write!(f, "{separator}{failure}")?;
                }
                Ok(())
            }
        }
    }
}

impl FailureDetail {
    fn write(&self, f: &mut fmt::Formatter<'_>, what: &str) -> fmt::Result {
        // A list of models is asked for without one.
        if self.model.is_empty() {
            write!(f, "{} {what}", self.provider)?;
        } else {
            write!(f, "{} (model {}) {what}", self.provider, self.model)?;
        }
        match (self.status, self.attempts) {
            (Some(status), 0 | 1) => write!(f, " (HTTP {status})")?,
            (Some(status), attempts) => write!(f, " (HTTP {status}, {attempts} attempts)")?,
            (None, 0 | 1) => {}
            (None, attempts) => write!(f, " ({attempts} attempts)")?,
        }
        if self.message.is_empty() { Ok(()) } else { write!(f, ": {}", self.message) }
    }
}

/// Returns the causes of an error, without the address in it and without the
/// client's own words for "it did not work", which say nothing.
pub(crate) fn chain(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut causes: Vec<String> = Vec::new();
    let mut next: Option<&dyn Error> = Some(&error);
    while let Some(cause) = next {
        let text = cause.to_string();
        if !causes.iter().any(|known| known.contains(&text)) {
            causes.push(text);
        }
        next = cause.source();
    }
    let empty = [
        "error sending request",
        "client error",
        "builder error",
        "request or response body",
        "error decoding response body",
        "error reading a body",
    ];
    let meaningful =
        causes.iter().filter(|text| !empty.iter().any(|empty| text.starts_with(empty)));
    let meaningful: Vec<&str> = meaningful.map(String::as_str).collect();
    if meaningful.is_empty() { causes.join(": ") } else { meaningful.join(": ") }
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
