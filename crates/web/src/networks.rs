//! Networks that may be reached though they are not public.

use std::net::IpAddr;

use serde_json::json;
use vestal_config::kind::{SettingInput, ValueRefusal, texts};
use vestal_config::{Setting, SettingValue};

/// Addresses, networks and host names, in the order given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedNetworks(Vec<AllowedPlace>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum AllowedPlace {
    /// The addresses that begin with the same bits.
    Network { address: IpAddr, bits: u8 },
    /// A host, whatever its addresses are.
    Host(String),
}

impl AllowedNetworks {
    /// None: only public addresses.
    pub const EMPTY: Self = Self(Vec::new());

    /// Reads them from texts.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let places = texts.into_iter().map(|text| {
            place(text.trim()).ok_or_else(|| {
                format!("holds {text:?}, which is neither an address, a network nor a host name")
            })
        });
        places.collect::<Result<_, _>>().map(Self)
    }

    /// Reports whether an address is in one of the networks.
    pub fn has_address(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|place| match place {
            AllowedPlace::Network { address: network, bits } => is_within(address, *network, *bits),
            AllowedPlace::Host(_) => false,
        })
    }

    /// Reports whether a host is named.
    pub fn has_host(&self, host: &str) -> bool {
        let host = host.trim_end_matches('.');
        self.0.iter().any(|place| match place {
            AllowedPlace::Host(name) => name.eq_ignore_ascii_case(host),
            AllowedPlace::Network { .. } => false,
        })
    }
}

fn place(text: &str) -> Option<AllowedPlace> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits.parse::<u8>().ok()?)),
        None => (text, None),
    };
    if let Ok(address) = address.trim_matches(['[', ']']).parse::<IpAddr>() {
        let address = address.to_canonical();
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        return (bits <= most).then_some(AllowedPlace::Network { address, bits });
    }
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
    };
    let name = text.trim_end_matches('.');
    // Digits alone are an address that is written wrongly, not a name.
    let is_host = bits.is_none()
        && name.len() <= 253
        && name.split('.').all(is_label)
        && name.rsplit('.').next().is_some_and(|last| last.bytes().any(|b| !b.is_ascii_digit()));
    is_host.then(|| AllowedPlace::Host(name.to_ascii_lowercase()))
}

fn is_within(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let (address, network, width) = match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            (u128::from(address.to_bits()), u128::from(network.to_bits()), 32)
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => (address.to_bits(), network.to_bits(), 128),
        _ => return false,
    };
    let free = u32::from(width - bits.min(width));
    address.checked_shr(free) == network.checked_shr(free)
}

impl Setting for AllowedNetworks {
    type Limits = ();

    fn read(input: SettingInput<'_>, (): &()) -> Result<Self, ValueRefusal> {
        let hint = r#"write it as ["10.0.0.0/8", "wiki.intranet"]"#;
        let texts = texts(input, hint)?;
        Self::parse(texts.iter().map(String::as_str)).map_err(ValueRefusal::new)
    }

    fn to_value(&self) -> SettingValue {
        let text = |place: &AllowedPlace| match place {
            AllowedPlace::Network { address, bits } => format!("{address}/{bits}"),
            AllowedPlace::Host(name) => name.clone(),
        };
        SettingValue::List(self.0.iter().map(text).map(SettingValue::Text).collect())
    }

    fn allowed((): &()) -> String {
        "a list of addresses, networks and host names".to_owned()
    }

    fn examples((): &()) -> Vec<String> {
        vec![r#"["10.0.0.0/8"]"#.to_owned(), r#"["192.168.1.20", "wiki.intranet"]"#.to_owned()]
    }

    fn schema((): &()) -> serde_json::Value {
        json!({"type": "array", "items": {"type": "string", "minLength": 1}})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_is_allowed_and_nothing_beside_it() {
        let allowed =
            AllowedNetworks::parse(["10.1.0.0/16", "127.0.0.1", "fd00::/8", "Wiki.intranet"])
                .unwrap();
        let has = |text: &str| allowed.has_address(text.parse().unwrap());
        for inside in ["10.1.255.1", "127.0.0.1", "fd12::1", "::ffff:10.1.0.1"] {
            assert!(has(inside), "{inside}");
        }
        for outside in ["10.2.0.1", "127.0.0.2", "fc00::1", "0.0.0.0", "::1"] {
            assert!(!has(outside), "{outside}");
        }
        assert!(allowed.has_host("wiki.INTRANET.") && !allowed.has_host("evil.wiki.intranet"));
        assert!(AllowedNetworks::parse(["0.0.0.0/0"]).unwrap().has_address([1, 2, 3, 4].into()));
    }

    #[test]
    fn what_names_nothing_is_refused() {
        for wrong in ["", "10.0.0.0/33", "::/129", "300.1.1.1", "a b", "http://x", "*.x", "1.2"] {
            assert!(AllowedNetworks::parse([wrong]).is_err(), "{wrong}");
        }
    }
}
