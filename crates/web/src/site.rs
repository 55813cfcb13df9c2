//! Addresses of web sites in the settings.

use vestal_agent::settings::BaseUrl;
use vestal_config::kind::{Json, SettingInput, ValueRefusal};
use vestal_config::{Setting, SettingValue};

/// The address of a web site, without a slash at its end; empty means that nobody gave one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SiteAddress(BaseUrl);

impl SiteAddress {
    /// No address.
    pub const EMPTY: Self = Self(BaseUrl::EMPTY);

    /// Returns the address, or none when nobody gave one.
    pub fn get(&self) -> Option<&str> {
        self.0.get()
    }
}

impl Setting for SiteAddress {
    type Limits = ();

    fn read(input: SettingInput<'_>, (): &()) -> Result<Self, ValueRefusal> {
        BaseUrl::read(input, &()).map(Self)
    }

    fn to_value(&self) -> SettingValue {
        self.0.to_value()
    }

    fn in_words(&self) -> Option<String> {
        self.get().is_none().then(|| "none".to_owned())
    }

    fn allowed((): &()) -> String {
        BaseUrl::allowed(&())
    }

    fn examples((): &()) -> Vec<String> {
        BaseUrl::examples(&())
    }

    fn schema((): &()) -> Json {
        BaseUrl::schema(&())
    }
}
