//! What an engine's refusal means, and what to tell somebody whose engine cannot be
//! reached.

use std::io::ErrorKind;

use bollard::errors::Error;

use super::address::{Address, Login, Origin, Transport};
use super::context::PodmanProgram;
use super::socket::NoGreeting;
use crate::backend::BackendError;

/// Longest message that is passed on, in characters.
const MAX_MESSAGE: usize = 400;

/// What an engine's refusal means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::backends::docker) enum Fault {
    /// What was asked about is not there.
    Absent,
    /// A name is taken.
    NameTaken(String),
    /// What is there is in a state in which that cannot be done.
    Conflict,
    /// The engine could not be asked, or stopped answering: whether it has done
    /// it is unknown.
    Unreachable,
    /// The engine said no.
    Refused {
        /// The status; 0 when the refusal came without one.
        status: u16,
        /// Its words, on one line.
        message: String,
    },
}

/// Returns what an error of the client library means.
///
/// That something is already so (304) is no error to the library.
pub(in crate::backends::docker) fn fault(error: &Error) -> Fault {
    match error {
        Error::DockerResponseServerError { status_code, message } => refusal(*status_code, message),
        Error::RequestTimeoutError
        | Error::SocketNotFoundError(_)
        | Error::IOError { .. }
        | Error::HyperResponseError { .. }
        | Error::HyperLegacyError { .. } => Fault::Unreachable,
        other => Fault::Refused { status: 0, message: words(other) },
    }
}

fn refusal(status: u16, message: &str) -> Fault {
    // Docker says 409 to a name that is taken, Podman 500.
    if matches!(status, 409 | 500)
        && message.contains("already in use")
        && let Some(name) = taken_name(message)
    {
        return Fault::NameTaken(name);
    }
    match status {
        404 => Fault::Absent,
        409 => Fault::Conflict,
        // It went while Podman looked at it.
        500 if message.contains("no such container") || message.contains("image not known") => {
            Fault::Absent
        }
        // Podman's word for it, as when a container ends while it is removed.
        500 if message.contains("container state improper") => Fault::Conflict,
        _ => Fault::Refused { status, message: one_line(message) },
    }
}

/// Returns what an error says, on one line.
pub(in crate::backends::docker) fn words(error: &Error) -> String {
    match error {
        Error::DockerResponseServerError { status_code, message } if message.trim().is_empty() => {
            format!("status {status_code}")
        }
        Error::DockerResponseServerError { message, .. } => one_line(message),
        Error::DockerStreamError { error } | Error::DockerContainerWaitError { error, .. } => {
            one_line(error)
        }
        Error::RequestTimeoutError => "it did not answer within the time limit".to_owned(),
        Error::SocketNotFoundError(_) => "nobody listens there".to_owned(),
        Error::IOError { .. }
        | Error::HyperResponseError { .. }
        | Error::HyperLegacyError { .. } => connection_trouble(error),
        other => one_line(&other.to_string()),
    }
}

/// Returns the name in a message such as
/// `the container name "/x" is already in use by …`.
fn taken_name(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("name \"")?;
    let (name, _) = rest.split_once('"')?;
    Some(one_line(name.trim_start_matches('/')))
}

/// Returns why there is no answer: the last cause says it best.
fn connection_trouble(error: &Error) -> String {
    let mut last: &dyn std::error::Error = match error {
        Error::IOError { err } => err,
        other => other,
    };
    let mut source = last.source();
    while let Some(cause) = source {
        last = cause;
        source = cause.source();
    }
    let kind = last.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    match kind {
        Some(ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
            format!("nobody listens there ({})", one_line(&last.to_string()))
        }
        Some(ErrorKind::PermissionDenied) => "permission denied".to_owned(),
        _ => format!("the connection failed ({})", one_line(&last.to_string())),
    }
}

/// Returns a stranger's text on one line of bounded length, without anything
/// that a terminal could take for a command.
pub(in crate::backends::docker) fn one_line(text: &str) -> String {
    let mut line = String::new();
    let mut words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let mut length = 0;
    for word in words.by_ref().filter(|word| !word.is_empty()) {
        if length > 0 {
            line.push(' ');
            length += 1;
        }
        for c in word.chars() {
            if length == MAX_MESSAGE {
                line.push('…');
                return line;
            }
            line.push(c);
            length += 1;
        }
    }
    line
}

/// Returns the error for an engine that did not greet.
pub(super) fn no_greeting(address: &Address, why: &NoGreeting) -> BackendError {
    BackendError::Unreachable {
        address: address.to_string(),
        reason: why.to_string(),
        advice: match why {
            NoGreeting::Denied => denied_advice(address),
            NoGreeting::Slow(_) => slow_advice(address),
            NoGreeting::Foreign(reason) if reason.contains("HTTPS") => {
                "it wants TLS: set DOCKER_TLS_VERIFY=1, and DOCKER_CERT_PATH to where ca.pem, \
                 cert.pem and key.pem are"
                    .to_owned()
            }
            NoGreeting::Absent(_) | NoGreeting::Foreign(_) => absent_advice(address),
        },
    }
}

/// Returns the error for an engine that could not be asked, or stopped
/// answering.
pub(super) fn lost(address: &Address, reason: String) -> BackendError {
    let advice =
        if reason == "permission denied" { denied_advice(address) } else { absent_advice(address) };
    BackendError::Unreachable { address: address.to_string(), reason, advice }
}

/// Returns the error for an engine elsewhere that lets nobody in.
pub(super) fn refused(address: &Address, reason: String) -> BackendError {
    let advice = match &address.transport {
        Transport::Tcp { tls: Some(_), .. } if is_about_certificates(&reason) => {
            "check ca.pem, cert.pem and key.pem in DOCKER_CERT_PATH, or in the context".to_owned()
        }
        Transport::Ssh(login) => format!(
            "see that `ssh {}{} docker version` works without asking anything",
            login.port.map(|port| format!("-p {port} ")).unwrap_or_default(),
            Login { port: None, ..login.clone() }
        ),
        Transport::Unix(_) | Transport::Tcp { .. } => absent_advice(address),
    };
    BackendError::Unreachable { address: address.to_string(), reason, advice }
}

fn is_about_certificates(reason: &str) -> bool {
    let reason = reason.to_ascii_lowercase();
    reason.contains("certificate") || reason.contains("alert") || reason.contains(".pem")
}

/// Returns the error for a machine without any engine. A socket that is there
/// but locked is the likeliest to be meant.
pub(super) fn no_engine(tried: &[(Address, NoGreeting)], podman: &PodmanProgram) -> BackendError {
    let denied = tried.iter().find(|(_, why)| matches!(why, NoGreeting::Denied));
    let foreign = tried.iter().find(|(_, why)| matches!(why, NoGreeting::Foreign(_)));
    if let Some((address, why)) = denied.or(foreign) {
        return no_greeting(address, why);
    }
    let places: Vec<String> =
        tried.iter().map(|(address, _)| address.transport.to_string()).collect();
    BackendError::Unreachable {
        address: if places.is_empty() { "this machine".to_owned() } else { places.join(", ") },
        reason: match podman {
            PodmanProgram::Missing => {
                "nobody listens there, and there is no podman to start".to_owned()
            }
            PodmanProgram::At(_) => "nobody listens there, though podman can be started".to_owned(),
            PodmanProgram::Unwanted => "nobody listens there".to_owned(),
        },
        advice: match podman {
            PodmanProgram::At(_) => "choose the backend docker to have it started",
            PodmanProgram::Missing | PodmanProgram::Unwanted => {
                "install Docker or Podman, start it (`sudo systemctl start docker`), or say where \
                 it is with DOCKER_HOST"
            }
        }
        .to_owned(),
    }
}

fn denied_advice(address: &Address) -> String {
    match &address.transport {
        Transport::Unix(_) => "ask to be added to the group that owns the socket (`sudo usermod \
                               -aG docker $USER`, then log in again), use Docker's rootless mode, \
                               or set terminal.docker_binary to podman"
            .to_owned(),
        Transport::Tcp { .. } | Transport::Ssh(_) => {
            "check that you may log in there, and may use the engine once you have".to_owned()
        }
    }
}

fn slow_advice(address: &Address) -> String {
    match &address.transport {
        Transport::Unix(_) => {
            "see what it does (`sudo systemctl status docker`) and restart it if it hangs"
                .to_owned()
        }
        Transport::Tcp { .. } | Transport::Ssh(_) => {
            "check the network, and that the engine there runs".to_owned()
        }
    }
}

fn absent_advice(address: &Address) -> String {
    match &address.origin {
        Origin::DockerHost => "start the engine there, or change or unset DOCKER_HOST".to_owned(),
        Origin::ContainerHost => {
            "start the engine there, or change or unset CONTAINER_HOST".to_owned()
        }
        Origin::Context { .. } => "start the engine there, choose another with `docker context \
                                   use`, or set DOCKER_HOST"
            .to_owned(),
        Origin::Usual => "start the engine (`sudo systemctl start docker`), or say where another \
                          is with DOCKER_HOST"
            .to_owned(),
        Origin::Started => "try again, or start it with `podman system service`".to_owned(),
    }
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
