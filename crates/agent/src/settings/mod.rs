//! The settings of the agent and its models, and what is read from them. The one place that does, so
//! every entry point gets the same.

mod base_url;
mod candidate;
mod endpoints;
mod hooks;
mod inherited;
mod model_keys;
mod options;
mod prices;
mod providers;
mod reasoning;
mod work_keys;

use vestal_config::Schema;

pub use base_url::BaseUrl;
pub use candidate::{ModelNameCheck, ProviderCandidate, check_model_name, known_models};
pub use endpoints::{
    EndpointError, KeyOwner, ProviderRow, endpoints, key_owner, provider_rows, split_model,
};
pub use hooks::{HookFailure, HookList, HookSetting};
pub use inherited::{inherited, known_secrets};
pub use model_keys::PROXY_VARIABLES;
pub use options::{model_lists, model_options, options, selection};
pub use prices::{PriceTable, TokenPrice, TokenPrices};
pub use providers::{
    ApiMode, Fallback, Fallbacks, Provider, ProviderChoice, ProviderName, Providers, TokensOrAuto,
};
pub use reasoning::{EffortChoice, ReasoningTable};
pub use work_keys::{ApprovalMode, Unattended};

/// The keys of the agent and its models.
pub mod keys {
    pub use super::model_keys::*;
    pub use super::work_keys::*;
}

/// Returns the schema of an agent: its sandboxes, its models and itself.
pub fn schema() -> Schema {
    vestal_sandbox::schema().with([&model_keys::GROUP, &work_keys::GROUP])
}
