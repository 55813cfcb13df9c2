//! Where the lists of models are kept that providers gave.

use std::time::Duration;

use vestal_config::Settings;
use vestal_model::ListCache;

/// How long a provider's list counts.
const MAX_AGE: Duration = Duration::from_hours(24);

/// Returns the lists that are kept, so that whoever names a model is helped
/// without anybody being asked.
pub fn model_lists(settings: &Settings) -> ListCache {
    ListCache::new(settings.home().dir().join("cache").join("models.json"), MAX_AGE)
}
