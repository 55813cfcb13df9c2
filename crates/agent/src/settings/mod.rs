//! Reads from the settings what the agent is to be like. The one place that
//! does, so every entry point gets the same.

mod candidate;
mod endpoints;
mod inherited;
mod options;

pub use candidate::Candidate;
pub use endpoints::{
    EndpointError, KeyOwner, ProviderRow, endpoints, key_owner, provider_rows, split_model,
};
pub use inherited::{inherited, known_secrets};
pub use options::{model_lists, model_options, options, selection};
