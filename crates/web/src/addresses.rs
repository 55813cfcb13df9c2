//! Which addresses may be connected to, and a resolver that knows no others.

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::networks::AllowedNetworks;

/// Reports whether an address is one of the public internet: not of this machine, its network, a
/// cloud's metadata, a group, or reserved, however it is written.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => match embedded(address) {
            Some(address) => is_public_v4(address),
            None => is_public_v6(address),
        },
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, d] = address.octets();
    !match a {
        0 | 10 | 127 | 224.. => true,
        100 => (64..=127).contains(&b),
        // Of Azure, where machines get their secrets from.
        168 => (b, c, d) == (63, 129, 16),
        // Also the metadata of most clouds, 169.254.169.254.
        169 => b == 254,
        172 => (16..=31).contains(&b),
        192 => b == 168 || matches!((b, c), (0, 0 | 2) | (88, 99)),
        198 => b == 18 || b == 19 || (b, c) == (51, 100),
        203 => (b, c) == (0, 113),
        _ => false,
    }
}

/// What is not allotted to the internet is not public, known or not.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    let is_allotted = first & 0xe000 == 0x2000;
    // Protocols (Teredo among them), documentation.
    let is_special = first == 0x2001 && (second < 0x0200 || second == 0x0db8)
        || first == 0x3fff && second < 0x1000;
    is_allotted && !is_special
}

/// Returns the address of the old kind that an address leads to.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let segments = address.segments();
    let of = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match segments {
        // Mapped, compatible (which `::` and `::1` look like, too), translated, and through a
        // translator.
        [0, 0, 0, 0, 0, 0xffff | 0, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        // 6to4.
        | [0x2002, high, low, ..] => Some(of(high, low)),
        _ => None,
    }
}

/// A host that must not be connected to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{host} is not on the public internet ({address})")]
pub(crate) struct NotPublic {
    pub(crate) host: String,
    pub(crate) address: IpAddr,
}

/// Reports an address that must not be connected to.
pub(crate) fn check(
    allowed: &AllowedNetworks,
    host: &str,
    address: IpAddr,
) -> Result<(), NotPublic> {
    if is_public(address) || allowed.has_address(address) {
        return Ok(());
    }
    Err(NotPublic { host: host.to_owned(), address })
}

/// Resolves names to addresses that may be connected to: the client connects to
/// what this returns, so what was checked is what is reached.
#[derive(Debug, Clone)]
pub(crate) struct PublicResolver {
    pub(crate) allowed: Arc<AllowedNetworks>,
}

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let allowed = Arc::clone(&self.allowed);
        Box::pin(async move {
            let host = name.as_str();
            let found = tokio::net::lookup_host((host, 0)).await?;
            let addresses = permitted(&allowed, host, found)?;
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

/// Returns the addresses of a host that may be connected to. One that must not be spoils the
/// others: a name with both kinds is made to be confused.
fn permitted(
    allowed: &AllowedNetworks,
    host: &str,
    found: impl Iterator<Item = SocketAddr>,
) -> Result<Vec<SocketAddr>, Box<dyn Error + Send + Sync>> {
    let found: Vec<SocketAddr> = found.collect();
    if !allowed.has_host(host) {
        for address in &found {
            check(allowed, host, address.ip())?;
        }
    }
    if found.is_empty() {
        return Err(format!("{host} has no address").into());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_the_public_internet_is_known_in_every_notation() {
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.100.100.200",
            "127.0.0.1",
            "127.255.255.254",
            "168.63.129.16",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.192",
            "192.168.0.1",
            "198.18.0.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:0:10.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::1",
            "2001::1",
            "2001:db8::1",
            "3fff::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "100::1",
            "5f00::1",
        ] {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn the_public_internet_is_public() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "168.63.129.17",
            "223.255.255.255",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
            "2606:4700:4700::1111",
            "2001:4860:4860::8888",
            "2a00:1450::1",
        ] {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn one_address_inside_spoils_those_outside() {
        let at = |text: &str| SocketAddr::new(text.parse().unwrap(), 0);
        let both = || [at("8.8.8.8"), at("127.0.0.1")].into_iter();
        let nothing = AllowedNetworks::EMPTY;
        let refused = permitted(&nothing, "both.example", both()).unwrap_err();
        assert_eq!(refused.to_string(), "both.example is not on the public internet (127.0.0.1)");
        assert!(permitted(&nothing, "none.example", [].into_iter()).is_err());
        assert_eq!(permitted(&nothing, "x", [at("8.8.8.8")].into_iter()).unwrap().len(), 1);
        let named = AllowedNetworks::parse(["both.example"]).unwrap();
        assert_eq!(permitted(&named, "both.example", both()).unwrap().len(), 2);
    }
}
