//! Values of flags: words, numbers, sizes, ports and security options.

use std::fmt;
use std::net::IpAddr;

use vestal_config::kind::scaled;

use crate::settings::HostPath;

/// Reports whether text is one word: something, and no white space, controls
/// or leading `-` that would make it a flag.
pub(super) fn is_word(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('-')
        && !text.contains(|c: char| c.is_whitespace() || c.is_control())
}

pub(super) fn word(text: &str) -> Result<String, String> {
    if is_word(text) { Ok(text.to_owned()) } else { Err("is not one word".to_owned()) }
}

/// Reads one of a few words, or `container:` and which.
pub(super) fn namespace(text: &str, words: &[&str]) -> Result<String, String> {
    let container = text.strip_prefix("container:").is_some_and(is_word);
    if container || words.contains(&text) {
        return Ok(text.to_owned());
    }
    Err(format!("is none of {}, container:NAME", words.join(", ")))
}

pub(super) fn host_only(text: &str) -> Result<String, String> {
    if text == "host" { Ok(text.to_owned()) } else { Err("is not host".to_owned()) }
}

pub(super) fn ip(text: &str) -> Result<String, String> {
    match text.parse::<IpAddr>() {
        Ok(address) => Ok(address.to_string()),
        Err(_) => Err("is not an IP address".to_owned()),
    }
}

/// Reads `NAME:ADDRESS` or `NAME=ADDRESS` and returns it with the colon.
pub(super) fn extra_host(text: &str) -> Result<String, String> {
    let (name, address) =
        text.split_once('=').or_else(|| text.split_once(':')).ok_or("is not NAME:ADDRESS")?;
    let bare = address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(address);
    let address = match bare {
        "host-gateway" => bare.to_owned(),
        _ => ip(bare).map_err(|_| "is not NAME:ADDRESS, nor NAME:host-gateway".to_owned())?,
    };
    host_name(name).map(|name| format!("{name}:{address}"))
}

pub(super) fn host_name(text: &str) -> Result<String, String> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
    let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
    let valid = text.len() <= 253
        && edge(text.bytes().next())
        && edge(text.bytes().last())
        && text.bytes().all(allowed)
        && text.split('.').all(|part| (1..=63).contains(&part.len()));
    if valid { Ok(text.to_owned()) } else { Err("is not a host name".to_owned()) }
}

/// Reads a capability; `CAP_` in front is taken off, as engines do.
pub(super) fn capability(text: &str) -> Result<String, String> {
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("CAP_").unwrap_or(&upper);
    if !name.is_empty() && name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_') {
        Ok(name.to_owned())
    } else {
        Err("is not a capability such as NET_ADMIN or ALL".to_owned())
    }
}

/// Reads a set of numbers such as `0-3,5`.
pub(super) fn number_set(text: &str) -> Result<String, String> {
    let number = |text: &str| text.parse::<u16>().ok();
    let valid = text.split(',').all(|part| match part.split_once('-') {
        Some((first, last)) => {
            number(first).is_some_and(|first| number(last).is_some_and(|last| first <= last))
        }
        None => number(part).is_some(),
    });
    if valid {
        Ok(text.to_owned())
    } else {
        Err("is not a set of numbers such as 0-3,5".to_owned())
    }
}

pub(super) fn integer(text: &str, min: i64, max: i64) -> Result<i64, String> {
    let number = text.parse().ok().filter(|number| (min..=max).contains(number));
    number.ok_or_else(|| format!("is not a whole number from {min} to {max}"))
}

/// Reads `NAME=VALUE`; the name must be made of characters that engines allow.
pub(super) fn assignment(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("is not NAME=VALUE")?;
    let named = !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic());
    if named && !value.contains('\0') {
        Ok((name.to_owned(), value.to_owned()))
    } else {
        Err("is not NAME=VALUE".to_owned())
    }
}

pub(super) fn platform(text: &str) -> Result<String, String> {
    let part = |text: &str| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b))
    };
    if text.split('/').count() <= 3 && text.split('/').all(part) {
        Ok(text.to_owned())
    } else {
        Err("is not OS[/ARCHITECTURE[/VARIANT]]".to_owned())
    }
}

/// Reads a size in bytes: a number, `.` and more digits if need be, and `b`,
/// `k`, `m`, `g`, `t` with `b` or `ib` behind it or not.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at_checked(end)?;
    let suffix = suffix.trim_start().to_ascii_lowercase();
    let shift = match suffix.trim_end_matches("ib").trim_end_matches('b') {
        "" if suffix == "ib" => return None,
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    scaled(number, 1 << shift)
}

/// Ports that all flags together may publish; a range is that many mappings.
const MAX_PORTS: usize = 1024;

/// What a port speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl Protocol {
    /// Returns the word that engines take.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
        }
    }
}

/// One port of the container on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortMapping {
    /// The host's address that is listened on; none for all of them.
    pub host_ip: Option<IpAddr>,
    /// The host's port as engines take it: a number, a range to choose from
    /// (`8000-8010`), or nothing to choose any.
    pub host_port: String,
    /// The container's port.
    pub container_port: u16,
    /// What it speaks.
    pub protocol: Protocol,
}

type ValueSpan = (u16, u16);

const FORM: &str = "is not [[ADDRESS:]PORT:]PORT[/tcp|udp|sctp]";

/// Reads `[[ADDRESS:]PORT:]PORT[/PROTOCOL]` and adds a mapping for every port.
pub(super) fn publish(text: &str, ports: &mut Vec<PortMapping>) -> Result<(), String> {
    let form = || FORM.to_owned();
    let (address, protocol) = match text.split_once('/') {
        None | Some((_, "tcp")) => (text.split('/').next().unwrap_or(text), Protocol::Tcp),
        Some((address, "udp")) => (address, Protocol::Udp),
        Some((address, "sctp")) => (address, Protocol::Sctp),
        Some(_) => return Err(form()),
    };
    let (rest, container) = match address.rsplit_once(':') {
        Some((rest, container)) => (Some(rest), container),
        None => (None, address),
    };
    let (ip, host) = match rest.map(|rest| rest.rsplit_once(':').unwrap_or(("", rest))) {
        Some((ip, host)) => (ip, host),
        None => ("", ""),
    };
    let host_ip = match ip {
        "" => None,
        ip => {
            let bare = ip.strip_prefix('[').and_then(|ip| ip.strip_suffix(']')).unwrap_or(ip);
            Some(bare.parse::<IpAddr>().map_err(|_| form())?)
        }
    };
    let container = span(container).ok_or_else(form)?;
    let host = if host.is_empty() { None } else { Some(span(host).ok_or_else(form)?) };
    let count = container.1 - container.0;
    for at in 0..=count {
        let host_port = match host {
            None => String::new(),
            Some((first, last)) if last - first == count => (first + at).to_string(),
            Some((first, last)) if count == 0 => format!("{first}-{last}"),
            Some(_) => return Err("has two ranges of different length".to_owned()),
        };
        if ports.len() == MAX_PORTS {
            return Err(format!("makes it more than {MAX_PORTS} ports"));
        }
        ports.push(PortMapping { host_ip, host_port, container_port: container.0 + at, protocol });
    }
    Ok(())
}

/// Reads a port or a range of them.
fn span(text: &str) -> Option<ValueSpan> {
    let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0);
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (port(first)?, port(last)?);
    (first <= last).then_some((first, last))
}

/// A filter for system calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seccomp {
    /// None at all.
    Unconfined,
    /// The engine's own.
    Builtin,
    /// A file of the host. The API takes its text, not its name.
    File(HostPath),
}

/// One `--security-opt`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecurityOption {
    /// `no-new-privileges`, which is on anyway; `false` switches it off.
    NoNewPrivileges(bool),
    /// `seccomp=…`.
    Seccomp(Seccomp),
    /// `apparmor=PROFILE`.
    AppArmor(String),
    /// `label=…`: `disable`, or a part of an `SELinux` label such as `type:name`.
    Label(String),
    /// `systempaths=unconfined`: nothing of `/proc` and `/sys` is hidden. The
    /// API takes empty lists of masked and read-only paths instead.
    SystemPathsUnconfined,
}

impl SecurityOption {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        // Engines take the older form with a colon, too.
        let (name, value) = match text.split_once(['=', ':']) {
            Some((name, value)) => (name, value),
            None => (text, ""),
        };
        match (name, value) {
            ("no-new-privileges", "" | "true") => Ok(Self::NoNewPrivileges(true)),
            ("no-new-privileges", "false") => Ok(Self::NoNewPrivileges(false)),
            ("seccomp", "unconfined") => Ok(Self::Seccomp(Seccomp::Unconfined)),
            ("seccomp", "builtin") => Ok(Self::Seccomp(Seccomp::Builtin)),
            ("seccomp", path) if !path.is_empty() => HostPath::new(path)
                .map(|path| Self::Seccomp(Seccomp::File(path)))
                .map_err(|reason| format!("names a profile that {reason}")),
            ("apparmor", profile) if is_word(profile) => Ok(Self::AppArmor(profile.to_owned())),
            ("label", label) if is_word(label) => Ok(Self::Label(label.to_owned())),
            ("systempaths", "unconfined") => Ok(Self::SystemPathsUnconfined),
            _ => {
                Err("is none of no-new-privileges[=true|false], seccomp=unconfined|builtin|FILE, \
                      apparmor=PROFILE, label=LABEL, systempaths=unconfined"
                    .to_owned())
            }
        }
    }
}

/// Writes the option as `docker run` takes it.
impl fmt::Display for SecurityOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNewPrivileges(on) => write!(f, "no-new-privileges={on}"),
            Self::Seccomp(Seccomp::Unconfined) => f.write_str("seccomp=unconfined"),
            Self::Seccomp(Seccomp::Builtin) => f.write_str("seccomp=builtin"),
            Self::Seccomp(Seccomp::File(path)) => write!(f, "seccomp={}", path.as_str()),
            Self::AppArmor(profile) => write!(f, "apparmor={profile}"),
            Self::Label(label) => write!(f, "label={label}"),
            Self::SystemPathsUnconfined => f.write_str("systempaths=unconfined"),
        }
    }
}
