#![doc = include_str!("../README.md")]

mod addresses;
mod fetch;
pub mod keys;
mod markdown;
mod networks;
mod page;
mod search;
mod site;
mod tools;

use std::sync::Arc;

use vestal_agent::{Registry, Tool};
use vestal_config::{ConfigError, Settings};

use crate::keys::FetchApproval;

pub use addresses::is_public;
pub use fetch::{FetchError, FetchLimits, FetchedPage, Fetcher};
pub use markdown::{Converted, to_markdown};
pub use networks::AllowedNetworks;
pub use search::{SearchError, SearchResult, Searcher};
pub use site::SiteAddress;
pub use tools::{WebFetch, WebSearch};

/// Adds the tools that the settings ask for.
pub fn add_to(tools: &mut Registry, settings: &Settings) -> Result<(), ConfigError> {
    for tool in from_settings(settings)? {
        tools.add(tool);
    }
    Ok(())
}

/// Returns the tools that the settings ask for: `web_search` only where they say whom to ask.
pub fn from_settings(settings: &Settings) -> Result<Vec<Arc<dyn Tool>>, ConfigError> {
    let timeout = settings.get(&keys::WEB_TIMEOUT)?.value.duration();
    let limits =
        FetchLimits { timeout, max_bytes: settings.get(&keys::WEB_MAX_BYTES)?.value.get() };
    let allowed = settings.get(&keys::WEB_ALLOWED_NETWORKS)?.value;
    let asks = match settings.get(&keys::WEB_ASK)?.value {
        FetchApproval::Hosts => true,
        FetchApproval::Never => false,
        FetchApproval::Auto => !settings.get(&vestal_sandbox::keys::DOCKER_NETWORK)?.value,
    };
    let mut tools: Vec<Arc<dyn Tool>> =
        vec![Arc::new(WebFetch::new(Fetcher::new(Arc::new(allowed), limits), asks))];
    if let Some(url) = settings.get(&keys::WEB_SEARCH_URL)?.value.get() {
        tools.push(Arc::new(WebSearch::new(Searcher::new(url, timeout))));
    }
    Ok(tools)
}
