//! Errors of assembling an agent and opening conversations.

use vestal_agent::OpenError;
use vestal_agent::settings::EndpointError;
use vestal_config::{ConfigError, ProfileName};
use vestal_model::SetupError;

/// Why an agent could not be assembled or a conversation not be opened.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// A setting has a value that cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The settings name no model that can be asked.
    #[error("{reason}")]
    Endpoint {
        /// What is missing.
        reason: EndpointError,
        /// The profile whose settings they are.
        profile: ProfileName,
    },
    /// The client for model providers cannot be made.
    #[error(transparent)]
    Model(#[from] SetupError),
    /// The store of conversations failed, or has no such conversation.
    #[error(transparent)]
    Store(#[from] vestal_conversations::Error),
    /// The conversation could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// No tool belongs to a toolset of that name.
    #[error("there is no toolset {name:?}; there are: {}", .known.join(", "))]
    UnknownToolset {
        /// The name that was asked for.
        name: String,
        /// The names that there are.
        known: Vec<String>,
    },
}
