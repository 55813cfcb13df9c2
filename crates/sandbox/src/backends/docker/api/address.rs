//! Addresses of engines, and where they come from.

use std::fmt;
use std::path::{Path, PathBuf};

use vestal_config::Environment;

/// Longest address that is accepted.
const MAX_ADDRESS: usize = 4096;

/// The address of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) transport: EngineTransport,
    pub(super) source: AddressSource,
}

/// How an engine is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EngineTransport {
    /// A socket on this machine.
    Unix(PathBuf),
    /// A port, as `host:port`, with TLS if there are files for it.
    Tcp { authority: String, tls: Option<TlsFiles> },
    /// An ssh login on another machine.
    Ssh(SshLogin),
    /// Streams that another backend opens, by the name that it gives the engine.
    Streams(String),
}

/// The user, host and port of an ssh login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SshLogin {
    pub(super) user: Option<String>,
    pub(super) host: String,
    pub(super) port: Option<u16>,
}

/// The files for TLS. A file that does not exist is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TlsFiles {
    pub(super) ca: PathBuf,
    pub(super) cert: PathBuf,
    pub(super) key: PathBuf,
}

impl TlsFiles {
    /// Returns the files in a directory, by Docker's usual names.
    pub(super) fn in_dir(dir: &Path) -> Self {
        Self { ca: dir.join("ca.pem"), cert: dir.join("cert.pem"), key: dir.join("key.pem") }
    }
}

/// Where an address comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AddressSource {
    /// The variable `DOCKER_HOST`.
    DockerHost,
    /// Podman's variable `CONTAINER_HOST`.
    ContainerHost,
    /// A context of the `docker` program.
    Context { name: String, chosen_by: &'static str },
    /// A default path of engines.
    Default,
    /// A service that this program started.
    Started,
}

/// Why an address cannot be used. Quotes no part that may be secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum AddressError {
    #[error("the address is not UTF-8, empty or too long")]
    Unreadable,
    #[error("unix:// must be followed by an absolute path")]
    NoSocket,
    #[error("{scheme}:// must be followed by a host")]
    NoHost { scheme: String },
    #[error("ssh:// must be followed by host, user@host or user@host:port")]
    SshLogin,
    #[error("the address contains a password; use keys or an agent instead")]
    Password,
    #[error("{scheme}:// is not one of unix://, tcp://, http://, https:// and ssh://")]
    Scheme { scheme: String },
}

impl EngineTransport {
    /// Parses an address in the form of `DOCKER_HOST`. `tls` has the files for TLS
    /// and whether TLS is required for every port.
    pub(super) fn parse(text: &str, tls: &TlsOptions) -> Result<Self, AddressError> {
        let text = text.trim();
        if text.is_empty() || text.len() > MAX_ADDRESS || text.chars().any(char::is_control) {
            return Err(AddressError::Unreadable);
        }
        // As in the docker CLI, an address without a scheme is a host.
        let (scheme, rest) = text.split_once("://").unwrap_or(("tcp", text));
        let scheme = scheme.to_ascii_lowercase();
        match scheme.as_str() {
            "unix" => {
                let path = PathBuf::from(rest);
                if path.is_absolute() { Ok(Self::Unix(path)) } else { Err(AddressError::NoSocket) }
            }
            "tcp" | "http" | "https" => {
                let authority = authority(rest, &scheme)?;
                if authority.contains('@') {
                    return Err(AddressError::Password);
                }
                let tls = (tls.required || scheme == "https").then(|| tls.files.clone());
                let port = if tls.is_some() { 2376 } else { 2375 };
                Ok(Self::Tcp { authority: with_port(authority, port), tls })
            }
            "ssh" => SshLogin::parse(authority(rest, &scheme)?).map(Self::Ssh),
            _ => Err(AddressError::Scheme { scheme: scheme.chars().take(20).collect() }),
        }
    }

    /// Returns whether the engine may be on another machine.
    pub(super) fn is_remote(&self) -> bool {
        !matches!(self, Self::Unix(_))
    }
}

impl SshLogin {
    fn parse(authority: &str) -> Result<Self, AddressError> {
        let (user, place) = match authority.rsplit_once('@') {
            Some((user, _)) if user.contains(':') => return Err(AddressError::Password),
            Some((user, place)) => (Some(user), place),
            None => (None, authority),
        };
        let (host, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, rest)) => {
                (host, Some(rest.strip_prefix(':').ok_or(AddressError::SshLogin)?))
            }
            None => match place.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (place, None),
            },
        };
        // A leading dash would make it an option of ssh, and some ssh settings pass
        // user and host to a shell.
        let is_plain = |text: &str| {
            !text.is_empty()
                && !text.starts_with('-')
                && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-:%+\\".contains(&b))
        };
        if !is_plain(host) || user.is_some_and(|user| !is_plain(user)) {
            return Err(AddressError::SshLogin);
        }
        let port = port.map(|port| port.parse().map_err(|_| AddressError::SshLogin)).transpose()?;
        Ok(Self { user: user.map(str::to_owned), host: host.to_owned(), port })
    }
}

impl fmt::Display for SshLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        if self.host.contains(':') {
            write!(f, "[{}]", self.host)?;
        } else {
            f.write_str(&self.host)?;
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// The TLS options of the environment or of a docker context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TlsOptions {
    /// Whether every port needs TLS.
    pub(super) required: bool,
    pub(super) files: TlsFiles,
}

impl TlsOptions {
    /// Reads the options from the environment; `config` is the directory of the
    /// docker CLI's settings.
    pub(super) fn of(environment: &Environment, config: &Path) -> Self {
        let dir = environment.non_empty("DOCKER_CERT_PATH").map_or(config, Path::new);
        Self {
            required: environment.non_empty("DOCKER_TLS_VERIFY").is_some(),
            files: TlsFiles::in_dir(dir),
        }
    }
}

/// Returns the host part without the path.
fn authority<'a>(rest: &'a str, scheme: &str) -> Result<&'a str, AddressError> {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.is_empty() || authority.contains(char::is_whitespace) {
        return Err(AddressError::NoHost { scheme: scheme.to_owned() });
    }
    Ok(authority)
}

fn with_port(authority: &str, port: u16) -> String {
    // The colons of an IPv6 address are in brackets.
    let name_end = authority.rfind(']').map_or(0, |end| end + 1);
    if authority.get(name_end..).is_some_and(|rest| rest.contains(':')) {
        authority.to_owned()
    } else {
        format!("{authority}:{port}")
    }
}

impl fmt::Display for EngineTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp { authority, tls: None } => write!(f, "tcp://{authority}"),
            Self::Tcp { authority, tls: Some(_) } => write!(f, "https://{authority}"),
            Self::Ssh(login) => write!(f, "ssh://{login}"),
            Self::Streams(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for AddressSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DockerHost => f.write_str("DOCKER_HOST"),
            Self::ContainerHost => f.write_str("CONTAINER_HOST"),
            Self::Context { name, chosen_by } => write!(f, "context {name}, {chosen_by}"),
            Self::Default => f.write_str("default path"),
            Self::Started => f.write_str("started on demand"),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            AddressSource::Default => write!(f, "{}", self.transport),
            source => write!(f, "{} ({source})", self.transport),
        }
    }
}

#[cfg(test)]
#[path = "address_tests.rs"]
mod tests;
