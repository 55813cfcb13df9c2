//! The client of a connection: its address, and the host and scheme that it used.
//!
//! What a proxy says about a client counts only where the proxy's own address is listed.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use axum::http::uri::Authority as UriAuthority;
use axum::http::{HeaderMap, HeaderName, header};

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// A range of addresses, such as `10.0.0.0/8` or `::1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressRange {
    address: IpAddr,
    prefix: u8,
}

/// A text that is not a range of addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an address or a network, such as 10.0.0.7 or 10.0.0.0/8")]
pub struct ParseNetworkError(String);

impl FromStr for AddressRange {
    type Err = ParseNetworkError;

    fn from_str(text: &str) -> Result<Self, ParseNetworkError> {
        let wrong = || ParseNetworkError(text.to_owned());
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let widest = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            Some(prefix) => {
                prefix.parse().ok().filter(|prefix| *prefix <= widest).ok_or_else(wrong)?
            }
            None => widest,
        };
        Ok(Self { address, prefix })
    }
}

impl AddressRange {
    /// Reports whether an address is in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        let bits = |address: IpAddr| match address {
            IpAddr::V4(v4) => (u128::from(u32::from(v4)) << 96, 32),
            IpAddr::V6(v6) => (u128::from(v6), 128),
        };
        let ((own, width), (other, other_width)) =
            (bits(self.address), bits(address.to_canonical()));
        let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix)).unwrap_or(0);
        width == other_width && own & mask == other & mask
    }
}

/// A host and port as they stand in a `Host` header, in small letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostAndPort {
    host: String,
    port: Option<u16>,
}

impl HostAndPort {
    /// Reads a `Host` header. Nothing else may be in it: no user, no path.
    pub fn parse(text: &str) -> Option<Self> {
        let authority: UriAuthority = text.parse().ok()?;
        if authority.as_str().contains('@') || authority.host().is_empty() {
            return None;
        }
        let port = match authority.port() {
            Some(port) => Some(port.as_str().parse().ok()?),
            None => None,
        };
        let host = authority.host().trim_end_matches('.').to_ascii_lowercase();
        (!host.is_empty()).then_some(Self { host, port })
    }

    /// Returns the name or address, in small letters.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn port(&self) -> Option<u16> {
        self.port
    }

    pub(crate) fn ip(&self) -> Option<IpAddr> {
        let host = self.host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        host.unwrap_or(&self.host).parse().ok()
    }

    fn shown(&self) -> String {
        match self.port {
            Some(port) => format!("{}:{port}", self.host),
            None => self.host.clone(),
        }
    }
}

/// What a client is, as far as the gate can know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// Its address: the peer's, or the one that a listed proxy names.
    pub address: IpAddr,
    /// The only origin whose pages may change something.
    pub origin: String,
    /// Whether the way to it is encrypted, so that a cookie may insist on that.
    pub is_secure: bool,
    /// Whether the peer is a listed proxy.
    pub is_proxied: bool,
}

/// What the server listens on, and which names and proxies it knows.
#[derive(Debug, Clone)]
pub struct PeerPolicy {
    bound: SocketAddr,
    public: Option<(bool, HostAndPort)>,
    proxies: Vec<AddressRange>,
}

impl PeerPolicy {
    /// Returns the policy of a server at an address. `public_url` is what clients call it, if that
    /// is not the address.
    pub fn new(bound: SocketAddr, public_url: Option<&str>, proxies: Vec<AddressRange>) -> Self {
        Self { bound, public: public_url.and_then(split_url), proxies }
    }

    /// Reports whether only this machine can reach the server.
    pub fn is_loopback(&self) -> bool {
        self.bound.ip().is_loopback()
    }

    /// Works out who a request comes from. Nothing where its host is not one of this server: a name
    /// that somebody else made point here (DNS rebinding), no host at all, or several of them, which
    /// is an attempt to be read in two ways.
    pub fn client(&self, peer: SocketAddr, headers: &HeaderMap) -> Option<Client> {
        let peer = peer.ip().to_canonical();
        let is_proxied = self.is_proxy(peer);
        let asked = HostAndPort::parse(single(headers, &header::HOST).ok()??)?;
        if !self.is_known(&asked) {
            return None;
        }
        let (mut host, mut claims_secure, mut address) = (asked, None, peer);
        if is_proxied {
            // Beside the host that was asked for, not in its place: a page whose name was made to
            // point to a proxy's own machine can send any such header.
            if let Some(forwarded) = single(headers, &FORWARDED_HOST).ok()? {
                host = HostAndPort::parse(forwarded).filter(|host| self.is_known(host))?;
            }
            let proto = single(headers, &FORWARDED_PROTO).ok()?;
            claims_secure = proto.map(|proto| proto == "https");
            address = self.address(peer, headers);
        }
        let public = self.public.as_ref().filter(|(_, public)| *public == host);
        let is_secure = public.map(|(is_secure, _)| *is_secure).or(claims_secure).unwrap_or(false);
        let scheme = if is_secure { "https" } else { "http" };
        let origin = format!("{scheme}://{}", host.shown());
        Some(Client { address, origin, is_secure, is_proxied })
    }

    /// Reports whether many people may share an address: everybody on this machine, or behind a
    /// proxy.
    pub(crate) fn is_shared(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_loopback() || self.is_proxy(address)
    }

    fn is_known(&self, host: &HostAndPort) -> bool {
        self.public.as_ref().is_some_and(|(_, public)| public == host) || self.is_own(host)
    }

    /// Reports whether an address is that of a listed proxy.
    pub(crate) fn is_proxy(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.proxies.iter().any(|network| network.contains(address))
    }

    /// Reports whether a host is an address of this server. An address cannot be made to point
    /// elsewhere, so where the server listens everywhere, any address will do.
    fn is_own(&self, host: &HostAndPort) -> bool {
        if host.port.unwrap_or(80) != self.bound.port() {
            return false;
        }
        let bound = self.bound.ip();
        let is_local = bound.is_loopback() || bound.is_unspecified();
        match host.ip() {
            Some(ip) if bound.is_loopback() => ip.is_loopback(),
            Some(ip) => bound.is_unspecified() || ip == bound,
            None => is_local && host.host == "localhost",
        }
    }

    /// Returns the last address of the chain that is not a proxy of ours: what stands before it is the
    /// client's own claim. A chain in several headers is one: some proxies add a line of their own
    /// behind what the client sent.
    fn address(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut last = peer;
        let lines = headers.get_all(FORWARDED_FOR).iter().rev();
        let hops = lines.flat_map(|line| line.to_str().unwrap_or_default().rsplit(','));
        for hop in hops {
            let Ok(hop) = hop.trim().parse::<IpAddr>() else { return last };
            last = hop.to_canonical();
            if !self.is_proxy(last) {
                return last;
            }
        }
        last
    }
}

/// A header that is there more often than once, or is not text.
struct Ambiguous;

/// Returns a header that may be there once.
fn single<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, Ambiguous> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| Ambiguous),
        (Some(_), Some(_)) => Err(Ambiguous),
    }
}

/// Splits `https://host[:port]` into whether it is encrypted, and the rest. The default port of the
/// scheme is left out, as browsers do.
fn split_url(url: &str) -> Option<(bool, HostAndPort)> {
    let url = url.trim().trim_end_matches('/');
    let (is_secure, rest) = match url.split_once("://")? {
        ("https", rest) => (true, rest),
        ("http", rest) => (false, rest),
        _ => return None,
    };
    let mut authority = HostAndPort::parse(rest)?;
    if authority.port == Some(if is_secure { 443 } else { 80 }) {
        authority.port = None;
    }
    Some((is_secure, authority))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        };
        pairs.iter().map(pair).collect()
    }

    fn policy(bound: &str, public: Option<&str>, proxies: &[&str]) -> PeerPolicy {
        let proxies = proxies.iter().map(|text| text.parse().unwrap()).collect();
        PeerPolicy::new(bound.parse().unwrap(), public, proxies)
    }

    fn client(policy: &PeerPolicy, peer: &str, pairs: &[(&'static str, &str)]) -> Option<Client> {
        policy.client(format!("{peer}:5").parse().unwrap(), &headers(pairs))
    }

    #[test]
    fn a_name_that_somebody_made_point_here_is_no_host_of_this_server() {
        let policy = policy("127.0.0.1:9119", None, &[]);
        for good in ["127.0.0.1:9119", "localhost:9119", "LOCALHOST.:9119", "[::1]:9119"] {
            assert!(client(&policy, "127.0.0.1", &[("host", good)]).is_some(), "{good}");
        }
        for bad in [
            "evil.example:9119",
            "127.0.0.1",
            "127.0.0.1:80",
            "localhost.evil.example:9119",
            "user@localhost:9119",
            "10.0.0.1:9119",
            "",
        ] {
            assert!(client(&policy, "127.0.0.1", &[("host", bad)]).is_none(), "{bad}");
        }
        assert!(client(&policy, "127.0.0.1", &[]).is_none());
        let twice = &[("host", "localhost:9119"), ("host", "localhost:9119")];
        let mut map = headers(&twice[..1]);
        map.append(header::HOST, HeaderValue::from_static("evil.example"));
        assert!(policy.client("127.0.0.1:5".parse().unwrap(), &map).is_none());
    }

    #[test]
    fn a_server_on_all_addresses_knows_addresses_and_its_public_name_only() {
        let policy = policy("0.0.0.0:9119", Some("https://vestal.example"), &[]);
        assert!(client(&policy, "10.0.0.9", &[("host", "10.0.0.1:9119")]).is_some());
        assert!(client(&policy, "10.0.0.9", &[("host", "evil.example:9119")]).is_none());
        let public = client(&policy, "10.0.0.9", &[("host", "vestal.example")]).unwrap();
        assert_eq!((public.origin.as_str(), public.is_secure), ("https://vestal.example", true));
    }

    #[test]
    fn what_a_proxy_says_counts_only_from_a_listed_peer() {
        let policy = policy("127.0.0.1:9119", None, &["127.0.0.1", "10.0.0.0/8"]);
        let headers_sent = &[
            ("host", "localhost:9119"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-for", "198.51.100.7, 203.0.113.9, 10.1.2.3"),
        ];
        let found = client(&policy, "127.0.0.1", headers_sent).unwrap();
        assert_eq!(found.address, "203.0.113.9".parse::<IpAddr>().unwrap());
        assert_eq!((found.is_secure, found.is_proxied), (true, true));
        let found = client(&policy, "192.0.2.1", headers_sent).unwrap();
        assert_eq!(found.address, "192.0.2.1".parse::<IpAddr>().unwrap());
        assert_eq!((found.is_secure, found.is_proxied), (false, false));
    }

    #[test]
    fn what_is_sent_beside_the_words_of_a_proxy_is_not_believed() {
        let policy = policy("127.0.0.1:9119", Some("https://vestal.example"), &["127.0.0.1"]);
        let found_client = |pairs: &[(&'static str, &str)]| {
            let mut map = HeaderMap::new();
            for (name, value) in pairs {
                map.append(*name, HeaderValue::from_str(value).unwrap());
            }
            policy.client("127.0.0.1:5".parse().unwrap(), &map)
        };
        // A page of another name, in a browser on the proxy's machine, sends what it likes.
        let rebound = [("host", "evil.example:9119"), ("x-forwarded-host", "vestal.example")];
        assert_eq!(found_client(&rebound), None);
        let wrong = [("host", "vestal.example"), ("x-forwarded-host", "evil.example")];
        assert_eq!(found_client(&wrong), None);
        for name in ["x-forwarded-host", "x-forwarded-proto"] {
            let twice = [("host", "vestal.example"), (name, "vestal.example"), (name, "https")];
            assert_eq!(found_client(&twice), None, "{name} twice");
        }
        // A proxy that adds a line of its own behind the client's.
        let lines = [
            ("host", "vestal.example"),
            ("x-forwarded-for", "198.51.100.7"),
            ("x-forwarded-for", "203.0.113.9"),
        ];
        assert_eq!(found_client(&lines).unwrap().address, "203.0.113.9".parse::<IpAddr>().unwrap());
    }

    #[test]
    fn a_network_has_the_addresses_of_its_prefix() {
        let network: AddressRange = "10.1.0.0/16".parse().unwrap();
        assert!(network.contains("10.1.255.1".parse().unwrap()));
        assert!(network.contains("::ffff:10.1.0.1".parse().unwrap()));
        assert!(!network.contains("10.2.0.1".parse().unwrap()));
        let all: AddressRange = "::/0".parse().unwrap();
        assert!(all.contains("2001:db8::1".parse().unwrap()));
        assert!(!all.contains("10.0.0.1".parse().unwrap()));
        for bad in ["", "10.0.0.0/33", "10.0.0", "::1/129", "a/8", "10.0.0.0/-1"] {
            assert!(bad.parse::<AddressRange>().is_err(), "{bad}");
        }
    }
}
