//! Reads from the settings what the agent is to be like. The one place that
//! does, so every entry point gets the same.

mod endpoints;
mod options;

pub use endpoints::{EndpointError, ProviderRow, endpoints, provider_rows, split_model};
pub use options::{model_options, options, selection};
