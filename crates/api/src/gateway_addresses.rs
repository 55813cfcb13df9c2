//! Addresses of the API server that the gateways of several profiles would share.

use std::collections::BTreeMap;

use vestal_config::{ConfigError, Settings};

use crate::keys;

/// An address that several profiles are to serve their API at, which only one of them can.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedApiAddress {
    /// The port, which is `api_server.port` of all of them.
    pub port: u64,
    /// The profiles.
    pub profiles: Vec<String>,
}

/// Returns the addresses that several profiles would serve their API at. Settings that cannot be read
/// are for their gateway to complain about.
pub fn shared_api_addresses<'a>(
    profiles: impl IntoIterator<Item = (&'a str, &'a Settings)>,
) -> Vec<SharedApiAddress> {
    let mut hosts: BTreeMap<u64, Vec<(String, &str)>> = BTreeMap::new();
    for (profile, settings) in profiles {
        if let Ok(Some((host, port))) = api_address(settings) {
            hosts.entry(port).or_default().push((host, profile));
        }
    }
    let mut shared = Vec::new();
    for (port, users) in hosts {
        let meets = |(own, profile): &&(String, &str)| {
            let mut others = users.iter().filter(|(_, other)| other != profile);
            others.any(|(host, _)| host == own || is_every(host) || is_every(own))
        };
        let meeting = users.iter().filter(meets);
        let profiles: Vec<String> = meeting.map(|(_, profile)| (*profile).to_owned()).collect();
        if !profiles.is_empty() {
            shared.push(SharedApiAddress { port, profiles });
        }
    }
    shared
}

/// Returns the host and the port that a profile's API server is to listen on; none if it is off, has
/// a socket alone, or takes any port.
pub fn api_address(settings: &Settings) -> Result<Option<(String, u64)>, ConfigError> {
    let port = settings.get(&keys::API_SERVER_PORT)?.value.get();
    if !settings.get(&keys::API_SERVER_ENABLED)?.value || port == 0 {
        return Ok(None);
    }
    let host = settings.get(&keys::API_SERVER_HOST)?.value;
    if host.get().is_none() && settings.get(&keys::API_SERVER_SOCKET)?.value.get().is_some() {
        return Ok(None);
    }
    let host = match host.get() {
        None | Some("localhost") => "127.0.0.1",
        Some(host) => host,
    };
    Ok(Some((host.to_owned(), port.into())))
}

fn is_every(host: &str) -> bool {
    matches!(host, "0.0.0.0" | "::")
}

#[cfg(test)]
mod tests {
    use vestal_config::{Environment, Home};

    use super::*;

    #[test]
    fn profiles_that_would_serve_at_one_address_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let none = Environment::from_pairs::<String, String>([]);
        let settings = |name: &str, text: &str| {
            let home = dir.path().join(name);
            std::fs::create_dir(&home).unwrap();
            std::fs::write(home.join("config.yaml"), format!("api_server: {{{text}}}\n")).unwrap();
            let settings =
                Settings::load(&crate::schema(), Home::at(&home), none.clone(), Vec::new());
            (name.to_owned(), settings)
        };
        let all = [
            settings("a", "enabled: true"),
            settings("b", "enabled: true, host: localhost"),
            settings("off", "enabled: false"),
            settings("own", "enabled: true, port: 9000"),
            settings("any", "enabled: true, port: 0"),
            settings("here", "enabled: true, port: 9001, host: 127.0.0.2"),
            settings("there", "enabled: true, port: 9001, host: 127.0.0.3"),
            settings("all", "enabled: true, port: 9002, host: 0.0.0.0"),
            settings("one", "enabled: true, port: 9002, host: 127.0.0.3"),
        ];
        let found = shared_api_addresses(all.iter().map(|(name, own)| (name.as_str(), own)));
        let shared = |port, names: [&str; 2]| SharedApiAddress {
            port,
            profiles: names.map(str::to_owned).to_vec(),
        };
        assert_eq!(found, [shared(8642, ["a", "b"]), shared(9002, ["all", "one"])]);
    }
}
