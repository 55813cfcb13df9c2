//! Addresses of model providers.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::json;
use vestal_config::kind::{SettingInput, ValueRefusal};
use vestal_config::{Setting, SettingValue};

const MAX_BYTES: usize = 2048;

/// The address that a provider's paths are put behind, without a slash at its
/// end; empty means that nobody gave one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BaseUrl(String);

impl BaseUrl {
    /// No address.
    pub const EMPTY: Self = Self(String::new());

    /// Makes an address, or says what is wrong with it.
    fn new(text: &str) -> Result<Self, ValueRefusal> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(Self::EMPTY);
        }
        if text.len() > MAX_BYTES {
            return Err(ValueRefusal::new(format!("is longer than {MAX_BYTES} bytes")));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(ValueRefusal::new("contains blanks or characters that no address has"));
        }
        let lower = text.to_ascii_lowercase();
        let Some(rest) = ["http://", "https://"].iter().find_map(|scheme| {
            lower.starts_with(scheme).then(|| text.get(scheme.len()..)).flatten()
        }) else {
            let meant = (!lower.contains("://")).then(|| format!("did you mean https://{text}?"));
            return Err(
                ValueRefusal::new("does not begin with http:// or https://").suggesting(meant)
            );
        };
        if rest.contains(['?', '#']) {
            return Err(
                ValueRefusal::new("has a part after ? or #, which cannot be kept").about_a_secret()
            );
        }
        let authority = rest.split('/').next().unwrap_or_default();
        if authority.contains('@') {
            let advice = "put the key into .env and name it with api_key_env";
            return Err(ValueRefusal::new("has a user or a password in it")
                .suggesting(Some(advice.to_owned()))
                .about_a_secret());
        }
        if !is_host_and_port(authority) {
            return Err(ValueRefusal::new("has no host, or an invalid port"));
        }
        Ok(Self(text.trim_end_matches('/').to_owned()))
    }

    /// Returns the address, or none when nobody gave one.
    pub fn get(&self) -> Option<&str> {
        (!self.0.is_empty()).then_some(self.0.as_str())
    }
}

fn is_host_and_port(authority: &str) -> bool {
    let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
        match rest.split_once(']') {
            Some((host, port)) if host.parse::<Ipv6Addr>().is_ok() => (true, port),
            _ => return false,
        }
    } else {
        let end = authority.find(':').unwrap_or(authority.len());
        let (host, port) = authority.split_at(end);
        (is_host(host), port)
    };
    let port_is_one = match port.strip_prefix(':') {
        Some(digits) => digits.parse::<u16>().is_ok_and(|port| port > 0),
        None => port.is_empty(),
    };
    host && port_is_one
}

fn is_host(host: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
    };
    host.parse::<Ipv4Addr>().is_ok() || host.strip_suffix('.').unwrap_or(host).split('.').all(label)
}

impl Setting for BaseUrl {
    type Limits = ();

    fn read(input: SettingInput<'_>, (): &()) -> Result<Self, ValueRefusal> {
        Self::new(input.scalar()?)
    }

    fn to_value(&self) -> SettingValue {
        SettingValue::Text(self.0.clone())
    }

    fn in_words(&self) -> Option<String> {
        self.0.is_empty().then(|| "the provider's own".to_owned())
    }

    fn allowed((): &()) -> String {
        "an address that begins with http:// or https://".to_owned()
    }

    fn examples((): &()) -> Vec<String> {
        vec!["https://models.example.com/v1".to_owned(), "http://127.0.0.1:8000".to_owned()]
    }

    fn schema((): &()) -> serde_json::Value {
        json!({"type": "string", "pattern": "^([hH][tT][tT][pP][sS]?://[^ ?#@]+)?$"})
    }
}
