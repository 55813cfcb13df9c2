//! Addresses of gateways: those that several profiles would share, and processes that listen where
//! clients look for one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
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

/// A process that listens where clients of a gateway or of the dashboard look for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForeignListenerView {
    /// Where it listens.
    pub address: String,
    /// Its pid; null if it is one that this user may not look at.
    pub pid: Option<u32>,
    /// The name it gave itself.
    pub process: Option<String>,
    /// The profile and the task of the sandbox that it runs in.
    pub sandbox: Option<ListenerSandboxView>,
}

/// The sandbox that a process runs in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenerSandboxView {
    /// The profile whose sandbox it is.
    pub profile: String,
    /// Its task.
    pub task: String,
}

impl ForeignListenerView {
    /// Returns the line that people read.
    pub fn line(&self) -> String {
        let who = match (&self.process, self.pid) {
            (Some(name), Some(pid)) => format!("{name:?} (pid {pid})"),
            _ => "a process of another user".to_owned(),
        };
        let place = self.sandbox.as_ref().map(|sandbox| {
            format!(" in the sandbox of task {:?} of profile {}", sandbox.task, sandbox.profile)
        });
        format!("{who}{} listens at {}", place.unwrap_or_default(), self.address)
    }

    /// Returns what an operator can do about it.
    pub fn advice(&self) -> String {
        let end = match (&self.sandbox, self.pid) {
            (Some(ListenerSandboxView { profile, task }), _) => {
                format!("vestal -p {profile} stop -t {task:?}")
            }
            (None, Some(pid)) => format!("see what process {pid} is"),
            (None, None) => "find the process as root".to_owned(),
        };
        format!("it is sent the keys of clients that take it for yours; {end}, then make new keys")
    }
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
