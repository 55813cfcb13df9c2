//! Where an engine is, and who says so.

use std::fmt;
use std::path::{Path, PathBuf};

use vestal_config::Environment;

/// Longest address that is read; longer ones are mistakes.
const MAX_ADDRESS: usize = 4096;

/// Where an engine is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) transport: Transport,
    pub(super) origin: Origin,
}

/// How an engine is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Transport {
    /// A socket on this machine.
    Unix(PathBuf),
    /// A port, as `host:port`; with TLS when there is material for it.
    Tcp { authority: String, tls: Option<Tls> },
    /// A login elsewhere.
    Ssh(Login),
}

/// Whom to log in as, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Login {
    pub(super) user: Option<String>,
    pub(super) host: String,
    pub(super) port: Option<u16>,
}

/// What proves who is who. A file that is not there is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tls {
    pub(super) ca: PathBuf,
    pub(super) cert: PathBuf,
    pub(super) key: PathBuf,
}

impl Tls {
    /// Returns the material in a directory, under the names that are usual.
    pub(super) fn in_dir(dir: &Path) -> Self {
        Self { ca: dir.join("ca.pem"), cert: dir.join("cert.pem"), key: dir.join("key.pem") }
    }
}

/// Who says where the engine is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Origin {
    /// The variable `DOCKER_HOST`.
    DockerHost,
    /// Podman's own variable `CONTAINER_HOST`.
    ContainerHost,
    /// A context of the `docker` program.
    Context { name: String, chosen_by: &'static str },
    /// Nobody: it is where engines usually listen.
    Usual,
    /// Nobody: this program has started it.
    Started,
}

/// An address that cannot be read, without the parts that may be secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum AddressError {
    #[error("it is not UTF-8, empty or too long")]
    Unreadable,
    #[error("it names no socket: unix:// is followed by an absolute path")]
    NoSocket,
    #[error("it names no host: {scheme}:// is followed by one")]
    NoHost { scheme: String },
    #[error("it is no login: ssh:// is followed by a host, or user@host, or user@host:port")]
    Login,
    #[error("there is a password in it, which is for keys and agents to hold")]
    Password,
    #[error("{scheme}:// is none of unix://, tcp://, http://, https:// and ssh://")]
    Scheme { scheme: String },
}

impl Transport {
    /// Reads an address as `DOCKER_HOST` holds one. `tls` is the material to
    /// use when it asks for TLS, and whether it does so by itself.
    pub(super) fn parse(text: &str, tls: &TlsWish) -> Result<Self, AddressError> {
        let text = text.trim();
        if text.is_empty() || text.len() > MAX_ADDRESS || text.chars().any(char::is_control) {
            return Err(AddressError::Unreadable);
        }
        // As in the docker program, an address without a scheme is a host.
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
                let tls = (tls.always || scheme == "https").then(|| tls.material.clone());
                let port = if tls.is_some() { 2376 } else { 2375 };
                Ok(Self::Tcp { authority: with_port(authority, port), tls })
            }
            "ssh" => Login::parse(authority(rest, &scheme)?).map(Self::Ssh),
            _ => Err(AddressError::Scheme { scheme: scheme.chars().take(20).collect() }),
        }
    }

    /// Returns whether the engine may have other files than this machine.
    pub(super) fn is_remote(&self) -> bool {
        !matches!(self, Self::Unix(_))
    }
}

impl Login {
    fn parse(authority: &str) -> Result<Self, AddressError> {
        let (user, place) = match authority.rsplit_once('@') {
            Some((user, _)) if user.contains(':') => return Err(AddressError::Password),
            Some((user, place)) => (Some(user), place),
            None => (None, authority),
        };
        let (host, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, rest)) => (host, Some(rest.strip_prefix(':').ok_or(AddressError::Login)?)),
            None => match place.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (place, None),
            },
        };
        // What begins with a dash would be an option of ssh, and some of its
        // settings hand these on to a shell.
        let is_plain = |text: &str| {
            !text.is_empty()
                && !text.starts_with('-')
                && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-:%+\\".contains(&b))
        };
        if !is_plain(host) || user.is_some_and(|user| !is_plain(user)) {
            return Err(AddressError::Login);
        }
        let port = port.map(|port| port.parse().map_err(|_| AddressError::Login)).transpose()?;
        Ok(Self { user: user.map(str::to_owned), host: host.to_owned(), port })
    }
}

impl fmt::Display for Login {
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

/// What is known about TLS before the address is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TlsWish {
    /// Whether every port is spoken to with TLS.
    pub(super) always: bool,
    /// The material.
    pub(super) material: Tls,
}

impl TlsWish {
    /// Returns what the variables say; `config` is the directory of the docker
    /// program's settings.
    pub(super) fn of(environment: &Environment, config: &Path) -> Self {
        let dir = environment.non_empty("DOCKER_CERT_PATH").map_or(config, Path::new);
        Self {
            always: environment.non_empty("DOCKER_TLS_VERIFY").is_some(),
            material: Tls::in_dir(dir),
        }
    }
}

/// Returns the host part, without a path behind it.
fn authority<'a>(rest: &'a str, scheme: &str) -> Result<&'a str, AddressError> {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.is_empty() || authority.contains(char::is_whitespace) {
        return Err(AddressError::NoHost { scheme: scheme.to_owned() });
    }
    Ok(authority)
}

fn with_port(authority: &str, port: u16) -> String {
    // An IPv6 address has its colons in brackets.
    let name_end = authority.rfind(']').map_or(0, |end| end + 1);
    if authority.get(name_end..).is_some_and(|rest| rest.contains(':')) {
        authority.to_owned()
    } else {
        format!("{authority}:{port}")
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp { authority, tls: None } => write!(f, "tcp://{authority}"),
            Self::Tcp { authority, tls: Some(_) } => write!(f, "https://{authority}"),
            Self::Ssh(login) => write!(f, "ssh://{login}"),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DockerHost => f.write_str("DOCKER_HOST"),
            Self::ContainerHost => f.write_str("CONTAINER_HOST"),
            Self::Context { name, chosen_by } => write!(f, "context {name}, {chosen_by}"),
            Self::Usual => f.write_str("the usual place"),
            Self::Started => f.write_str("started on demand"),
        }
    }
}

/// Shows the place and who says so.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Origin::Usual => write!(f, "{}", self.transport),
            origin => write!(f, "{} ({origin})", self.transport),
        }
    }
}

#[cfg(test)]
#[path = "address_tests.rs"]
mod tests;
