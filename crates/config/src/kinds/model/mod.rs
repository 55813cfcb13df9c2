//! Who answers: providers of models, what follows when one fails, and prices.

mod fallbacks;
pub(super) mod fields;
mod prices;
mod provider;
mod providers;

pub use fallbacks::{Fallback, Fallbacks};
pub use prices::{Price, Prices, TokenPrices};
pub use provider::{ProviderChoice, ProviderName};
pub use providers::{Provider, Providers};

#[cfg(test)]
#[path = "model_tests.rs"]
mod model_tests;
