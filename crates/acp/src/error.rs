//! Why a request was not carried out.

use serde::Serialize;
use serde_json::{Value, json};
use vestal_agent::OpenError;
use vestal_agent::slash::SlashError;
use vestal_conversations::Error as StoreError;
use vestal_runtime::RuntimeError;

/// An error of JSON-RPC. Editors show its message, so the advice is in it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct AcpError {
    code: i32,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Value>,
}

impl AcpError {
    pub(crate) fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// It is not JSON.
    pub(crate) fn parse(message: impl Into<String>) -> Self {
        Self::new(-32700, message)
    }

    /// It is not a request, or not one for now.
    pub(crate) fn request(message: impl Into<String>) -> Self {
        Self::new(-32600, message)
    }

    pub(crate) fn method(name: &str) -> Self {
        Self::new(-32601, format!("unknown method: {}", shown(name)))
    }

    pub(crate) fn params(message: impl Into<String>) -> Self {
        Self::new(-32602, message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(-32603, message)
    }

    /// What is named is not there.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(-32002, message)
    }

    /// Says what to do about it.
    pub(crate) fn advise(mut self, advice: impl Into<String>) -> Self {
        let advice = advice.into();
        self.message = format!("{}; {advice}", self.message);
        self.data = Some(json!({ "advice": advice }));
        self
    }

    #[cfg(test)]
    pub(crate) fn message(&self) -> &str {
        &self.message
    }
}

/// Returns a name of the client's as it can be repeated to it.
pub(crate) fn shown(name: &str) -> String {
    name.chars().take(100).filter(|c| !c.is_control()).collect()
}

impl From<StoreError> for AcpError {
    fn from(error: StoreError) -> Self {
        let message = error.to_string();
        match error {
            StoreError::NotFound { .. } | StoreError::InvalidId(_) => {
                Self::not_found(message).advise("session/list lists the conversations")
            }
            StoreError::Busy { .. } => Self::request(message)
                .advise("close it there, or branch it: vestal conversations branch"),
            StoreError::InvalidTitle(_) | StoreError::TitleTaken { .. } => Self::params(message),
            _ => Self::internal(message).advise("`vestal doctor` checks the disk"),
        }
    }
}

impl From<RuntimeError> for AcpError {
    fn from(error: RuntimeError) -> Self {
        let message = error.to_string();
        match error {
            RuntimeError::Store(error) | RuntimeError::Open(OpenError::Store(error)) => {
                error.into()
            }
            RuntimeError::Endpoint { reason, profile } => {
                let advice = reason.advice_in(&profile).join("; ");
                Self::internal(message).advise(advice)
            }
            _ => Self::internal(message),
        }
    }
}

impl From<vestal_sandbox::Error> for AcpError {
    fn from(error: vestal_sandbox::Error) -> Self {
        Self::internal(error.to_string()).advise("`vestal doctor` checks what works here")
    }
}

impl From<SlashError> for AcpError {
    fn from(error: SlashError) -> Self {
        Self::params(error.to_string()).advise(error.advice())
    }
}
