//! The login on a machine, and the options of `ssh` that follow from it.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::key::hex;

/// A login on a host. What is absent is left to the user's `ssh_config`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct HostLogin {
    pub(super) host: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) user: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) port: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) config: Option<PathBuf>,
}

/// How long `ssh` waits for a host to accept a connection, in seconds.
const CONNECT_TIMEOUT: u32 = 10;

/// How often a silent connection is asked for a sign of life, in seconds.
const ALIVE_INTERVAL: u32 = 5;

/// After how many questions without an answer it is given up.
const ALIVE_COUNT: u32 = 3;

/// How long the shared connection stays when nobody uses it, in seconds.
const PERSIST: u32 = 300;

impl HostLogin {
    /// Returns the name of the control socket: the same for everybody who means the same login.
    pub(super) fn control_name(&self) -> String {
        // A login always serializes.
        let text = serde_json::to_vec(self).unwrap_or_default();
        format!("ssh-{}", hex(&Sha256::digest(text)[..8]))
    }

    /// Returns whether both lead to the same place, whatever they prove themselves by.
    pub(super) fn is_same_place(&self, other: &Self) -> bool {
        (&self.host, &self.user, self.port) == (&other.host, &other.user, other.port)
    }

    /// Returns the arguments that all uses of `ssh` have in common. Nothing is asked on a
    /// terminal, and nothing but the connection itself is handed to the host.
    fn common(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = Vec::new();
        if let Some(config) = &self.config {
            arguments.extend(["-F".into(), config.clone().into_os_string()]);
        }
        arguments.extend(["-T", "-a", "-x"].map(OsString::from));
        for option in [
            "BatchMode=yes".to_owned(),
            "ClearAllForwardings=yes".to_owned(),
            "LogLevel=ERROR".to_owned(),
            "PermitLocalCommand=no".to_owned(),
            "RemoteCommand=none".to_owned(),
            "RequestTTY=no".to_owned(),
            format!("ConnectTimeout={CONNECT_TIMEOUT}"),
            format!("ServerAliveInterval={ALIVE_INTERVAL}"),
            format!("ServerAliveCountMax={ALIVE_COUNT}"),
        ] {
            arguments.extend(["-o".into(), option.into()]);
        }
        if let Some(key) = &self.key {
            arguments.extend(["-o".into(), "IdentitiesOnly=yes".into(), "-i".into()]);
            arguments.push(key.clone().into_os_string());
        }
        if let Some(user) = &self.user {
            arguments.extend(["-l".into(), user.into()]);
        }
        if let Some(port) = self.port {
            arguments.extend(["-p".into(), port.to_string().into()]);
        }
        arguments
    }

    /// Returns the arguments of a command over there by the shared connection, and by no other:
    /// what would be a connection of its own fails at once.
    pub(super) fn shared(&self, control: &ControlPath, command: &str) -> Vec<OsString> {
        let mut arguments = self.common();
        arguments.extend(control.options());
        for option in ["ControlMaster=no", "ProxyCommand=false"] {
            arguments.extend(["-o".into(), option.into()]);
        }
        self.with_command(arguments, command)
    }

    /// Returns the arguments of a command over there by a connection of its own.
    pub(super) fn direct(&self, command: &str) -> Vec<OsString> {
        let mut arguments = self.common();
        for option in ["ControlMaster=no", "ControlPath=none"] {
            arguments.extend(["-o".into(), option.into()]);
        }
        self.with_command(arguments, command)
    }

    /// Returns the arguments that make the shared connection, which goes on in the background
    /// when it is made.
    pub(super) fn master(&self, control: &ControlPath) -> Vec<OsString> {
        let mut arguments = self.common();
        arguments.extend(control.options());
        arguments.extend(["-M", "-N", "-f", "-o"].map(OsString::from));
        arguments.push(format!("ControlPersist={PERSIST}").into());
        arguments.extend(["--".into(), self.host.clone().into()]);
        arguments
    }

    /// Returns the arguments that ask whether there is a shared connection.
    pub(super) fn check(&self, control: &ControlPath) -> Vec<OsString> {
        let mut arguments = self.common();
        arguments.extend(control.options());
        arguments.extend(["-O", "check", "--"].map(OsString::from));
        arguments.push(self.host.clone().into());
        arguments
    }

    fn with_command(&self, mut arguments: Vec<OsString>, command: &str) -> Vec<OsString> {
        arguments.extend(["--".into(), self.host.clone().into(), command.into()]);
        arguments
    }

    /// Returns how the user would log in by hand, for advice.
    pub(super) fn by_hand(&self) -> String {
        let quoted = |path: &Path| crate::key::quoted(&path.to_string_lossy());
        let config = self.config.as_ref().map(|config| format!(" -F {}", quoted(config)));
        let key = self.key.as_ref().map(|key| format!(" -i {}", quoted(key)));
        let port = self.port.map(|port| format!(" -p {port}"));
        let options: String = [config, key, port].into_iter().flatten().collect();
        format!("ssh{options} {self}")
    }
}

impl fmt::Display for HostLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.user {
            Some(user) => write!(f, "{user}@{}", self.host),
            None => f.write_str(&self.host),
        }
    }
}

/// The path of the shared connection's control socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ControlPath {
    pub(super) path: PathBuf,
}

impl ControlPath {
    /// Returns the options that name it, its special characters escaped. The path has none that
    /// could not be.
    fn options(&self) -> Vec<OsString> {
        let path = self.path.to_string_lossy().replace('%', "%%");
        vec!["-o".into(), format!("ControlPath=\"{path}\"").into()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login() -> HostLogin {
        HostLogin {
            host: "there".into(),
            user: Some("me".into()),
            port: Some(2222),
            key: Some("/k".into()),
            config: None,
        }
    }

    #[test]
    fn a_login_is_the_same_place_whatever_it_proves_itself_by() {
        let other = HostLogin { key: Some("/other".into()), config: Some("/c".into()), ..login() };
        assert!(login().is_same_place(&other));
        assert!(!login().is_same_place(&HostLogin { user: None, ..login() }));
        assert!(!login().is_same_place(&HostLogin { port: Some(22), ..login() }));
    }

    #[test]
    fn the_host_is_the_word_after_the_end_of_options() {
        let control = ControlPath { path: "/run/100%/c".into() };
        let login = login();
        for arguments in [
            login.shared(&control, "true"),
            login.direct("true"),
            login.master(&control),
            login.check(&control),
        ] {
            let end = arguments.iter().position(|argument| argument == "--").unwrap();
            assert_eq!(arguments[end + 1], "there", "{arguments:?}");
            assert!(arguments.contains(&"BatchMode=yes".into()), "{arguments:?}");
        }
        let shared = login.shared(&control, "true");
        assert!(shared.contains(&"ControlPath=\"/run/100%%/c\"".into()), "{shared:?}");
    }

    #[test]
    fn every_login_has_a_connection_of_its_own() {
        let mut names = std::collections::BTreeSet::new();
        let other = [
            login(),
            HostLogin { user: None, ..login() },
            HostLogin { port: None, ..login() },
            HostLogin { key: None, ..login() },
            HostLogin { config: Some("/c".into()), ..login() },
            HostLogin { host: "else".into(), ..login() },
        ];
        for login in &other {
            assert_eq!(login.control_name(), login.clone().control_name());
            names.insert(login.control_name());
        }
        assert_eq!(names.len(), other.len());
    }
}
