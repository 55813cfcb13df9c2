//! `--publish`.

use std::net::IpAddr;

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

type Span = (u16, u16);

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
fn span(text: &str) -> Option<Span> {
    let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0);
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (port(first)?, port(last)?);
    (first <= last).then_some((first, last))
}
