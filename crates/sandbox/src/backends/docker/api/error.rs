//! Errors of engines: their meaning, and advice if an engine cannot be reached.

use std::io::ErrorKind;

use bollard::errors::Error;

use super::address::{Address, AddressSource, EngineTransport, SshLogin};
use super::context::PodmanProgram;
use super::socket::PingError;
use super::tunnel::TunnelFailure;
use crate::backend::BackendError;

/// Longest message that is quoted, in characters.
const MAX_MESSAGE: usize = 400;

/// The meaning of an engine's error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::backends::docker) enum EngineFault {
    /// The container, image or volume does not exist.
    Absent,
    /// The name is in use.
    NameTaken(String),
    /// Its state does not allow the request.
    Conflict,
    /// No answer: it is unknown whether the engine carried out the request.
    Unreachable,
    /// The engine refused.
    Refused {
        /// The HTTP status; 0 if there is none.
        status: u16,
        /// The engine's message, on one line.
        message: String,
    },
}

/// Returns the meaning of an error of the client library.
///
/// Status 304 (nothing to do) is not an error of the library.
pub(in crate::backends::docker) fn classify(error: &Error) -> EngineFault {
    match error {
        Error::DockerResponseServerError { status_code, message } => {
            classify_response(*status_code, message)
        }
        Error::RequestTimeoutError
        | Error::SocketNotFoundError(_)
        | Error::IOError { .. }
        | Error::HyperResponseError { .. }
        | Error::HyperLegacyError { .. } => EngineFault::Unreachable,
        other => EngineFault::Refused { status: 0, message: error_text(other) },
    }
}

fn classify_response(status: u16, message: &str) -> EngineFault {
    // The status of a name that is in use is 409 on Docker and 500 on Podman.
    if matches!(status, 409 | 500)
        && message.contains("already in use")
        && let Some(name) = taken_name(message)
    {
        return EngineFault::NameTaken(name);
    }
    match status {
        404 => EngineFault::Absent,
        409 => EngineFault::Conflict,
        // It was removed while Podman inspected it.
        500 if message.contains("no such container") || message.contains("image not known") => {
            EngineFault::Absent
        }
        // Podman's message if a container exits while it is removed.
        500 if message.contains("container state improper") => EngineFault::Conflict,
        _ => EngineFault::Refused { status, message: one_line(message) },
    }
}

/// Returns the message of an error, on one line.
pub(in crate::backends::docker) fn error_text(error: &Error) -> String {
    match error {
        Error::DockerResponseServerError { status_code, message } if message.trim().is_empty() => {
            format!("status {status_code}")
        }
        Error::DockerResponseServerError { message, .. } => one_line(message),
        Error::DockerStreamError { error } | Error::DockerContainerWaitError { error, .. } => {
            one_line(error)
        }
        Error::RequestTimeoutError => "it did not answer within the time limit".to_owned(),
        Error::SocketNotFoundError(_) => "no engine listens there".to_owned(),
        Error::IOError { .. }
        | Error::HyperResponseError { .. }
        | Error::HyperLegacyError { .. } => connection_error_text(error),
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

/// Returns the reason for a failed connection: the innermost cause.
fn connection_error_text(error: &Error) -> String {
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
            format!("no engine listens there ({})", one_line(&last.to_string()))
        }
        Some(ErrorKind::PermissionDenied) => "permission denied".to_owned(),
        _ => format!("the connection failed ({})", one_line(&last.to_string())),
    }
}

/// Returns untrusted text on one line of bounded length, without control characters.
pub(in crate::backends) fn one_line(text: &str) -> String {
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

/// Returns the error for an engine that did not answer a ping.
pub(super) fn ping_failed(address: &Address, why: &PingError) -> BackendError {
    BackendError::Unreachable {
        address: address.to_string(),
        reason: why.to_string(),
        advice: match why {
            PingError::Denied => denied_advice(address),
            PingError::TimedOut(_) => slow_advice(address),
            PingError::NotAnEngine(reason) if reason.contains("HTTPS") => {
                "the engine requires TLS: set DOCKER_TLS_VERIFY=1, and DOCKER_CERT_PATH to the \
                 directory of ca.pem, cert.pem and key.pem"
                    .to_owned()
            }
            PingError::NotListening(_) | PingError::NotAnEngine(_) => absent_advice(address),
        },
    }
}

/// Returns the error for a connection that failed.
pub(super) fn connection_failed(address: &Address, reason: String) -> BackendError {
    let advice =
        if reason == "permission denied" { denied_advice(address) } else { absent_advice(address) };
    BackendError::Unreachable { address: address.to_string(), reason, advice }
}

/// Returns the error for an engine whose connections are carried there, and one was not.
pub(super) fn not_carried(address: &Address, failure: TunnelFailure) -> BackendError {
    let TunnelFailure { reason, advice } = failure;
    match advice {
        Some(advice) => BackendError::Unreachable { address: address.to_string(), reason, advice },
        None => login_failed(address, reason),
    }
}

/// Returns the error for an engine on another machine that refuses access.
pub(super) fn login_failed(address: &Address, reason: String) -> BackendError {
    let advice = match &address.transport {
        EngineTransport::Tcp { tls: Some(_), .. } if is_about_certificates(&reason) => {
            "check ca.pem, cert.pem and key.pem in DOCKER_CERT_PATH, or in the context".to_owned()
        }
        EngineTransport::Ssh(login) => format!(
            "make sure that `ssh {}{} docker version` works without a prompt",
            login.port.map(|port| format!("-p {port} ")).unwrap_or_default(),
            SshLogin { port: None, ..login.clone() }
        ),
        EngineTransport::Unix(_) | EngineTransport::Tcp { .. } | EngineTransport::Streams(_) => {
            absent_advice(address)
        }
    };
    BackendError::Unreachable { address: address.to_string(), reason, advice }
}

fn is_about_certificates(reason: &str) -> bool {
    let reason = reason.to_ascii_lowercase();
    reason.contains("certificate") || reason.contains("alert") || reason.contains(".pem")
}

/// Returns the error for a machine on which no engine answers. A socket without
/// permission is most likely the one that the user wants.
pub(super) fn no_engine(tried: &[(Address, PingError)], podman: &PodmanProgram) -> BackendError {
    let denied = tried.iter().find(|(_, why)| matches!(why, PingError::Denied));
    let foreign = tried.iter().find(|(_, why)| matches!(why, PingError::NotAnEngine(_)));
    if let Some((address, why)) = denied.or(foreign) {
        return ping_failed(address, why);
    }
    let places: Vec<String> =
        tried.iter().map(|(address, _)| address.transport.to_string()).collect();
    BackendError::Unreachable {
        address: if places.is_empty() { "this machine".to_owned() } else { places.join(", ") },
        reason: match podman {
            PodmanProgram::Missing => {
                "no engine listens there, and there is no podman to start".to_owned()
            }
            PodmanProgram::At(_) => "no engine listens there, but podman can be started".to_owned(),
            PodmanProgram::NotUsed => "no engine listens there".to_owned(),
        },
        advice: match podman {
            PodmanProgram::At(_) => "select the backend docker, which starts it",
            PodmanProgram::Missing | PodmanProgram::NotUsed => {
                "install Docker or Podman, start it (`sudo systemctl start docker`), or set \
                 DOCKER_HOST"
            }
        }
        .to_owned(),
    }
}

fn denied_advice(address: &Address) -> String {
    match &address.transport {
        EngineTransport::Unix(_) => {
            "ask to be added to the group that owns the socket (`sudo usermod \
                               -aG docker $USER`, then log in again), use Docker's rootless mode, \
                               or set terminal.docker_binary to podman"
                .to_owned()
        }
        EngineTransport::Tcp { .. } | EngineTransport::Ssh(_) | EngineTransport::Streams(_) => {
            "check that you may log in there and use the engine".to_owned()
        }
    }
}

fn slow_advice(address: &Address) -> String {
    match &address.transport {
        EngineTransport::Unix(_) => {
            "check its state (`sudo systemctl status docker`) and restart it if it hangs".to_owned()
        }
        EngineTransport::Tcp { .. } | EngineTransport::Ssh(_) | EngineTransport::Streams(_) => {
            "check the network, and that the engine there runs".to_owned()
        }
    }
}

fn absent_advice(address: &Address) -> String {
    if let EngineTransport::Streams(_) = &address.transport {
        return "start the engine there (`sudo systemctl start docker`)".to_owned();
    }
    match &address.source {
        AddressSource::DockerHost => {
            "start the engine there, or change or unset DOCKER_HOST".to_owned()
        }
        AddressSource::ContainerHost => {
            "start the engine there, or change or unset CONTAINER_HOST".to_owned()
        }
        AddressSource::Context { .. } => {
            "start the engine there, choose another with `docker context \
                                   use`, or set DOCKER_HOST"
                .to_owned()
        }
        AddressSource::Default => {
            "start the engine (`sudo systemctl start docker`), or select another with \
                          DOCKER_HOST"
                .to_owned()
        }
        AddressSource::Started => "try again, or start it with `podman system service`".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status_code: u16, message: &str) -> Error {
        Error::DockerResponseServerError { status_code, message: message.to_owned() }
    }

    #[test]
    fn a_taken_name_is_recognised_on_both_engines() {
        let docker = answer(
            409,
            "Conflict. The container name \"/vestal-1\" is already in use by container \"0123\". You \
         have to remove (or rename) that container to be able to reuse that name.",
        );
        assert_eq!(classify(&docker), EngineFault::NameTaken("vestal-1".to_owned()));
        let podman = answer(
            500,
            "container create: creating container storage: the container name \"vestal-1\" is already \
         in use by 0123. You have to remove that container to be able to reuse that name: that \
         name is already in use",
        );
        assert_eq!(classify(&podman), EngineFault::NameTaken("vestal-1".to_owned()));
    }

    #[test]
    fn other_things_in_use_are_no_taken_name() {
        let volume = answer(409, "remove v: volume is in use - [0123]");
        assert_eq!(classify(&volume), EngineFault::Conflict);
        let volume = answer(409, "the volume with name \"v\" is in use - [0123]");
        assert_eq!(classify(&volume), EngineFault::Conflict);
        let port =
            answer(500, "driver failed: listen tcp 0.0.0.0:80: bind: address already in use");
        assert!(matches!(classify(&port), EngineFault::Refused { status: 500, .. }));
        let quoted = answer(400, "the name \"x\" is already in use");
        assert!(matches!(classify(&quoted), EngineFault::Refused { status: 400, .. }));
    }

    #[test]
    fn refusals_keep_their_meaning() {
        assert_eq!(classify(&answer(404, "No such container: x")), EngineFault::Absent);
        let podman = "container 0123 does not exist in database: no such container";
        assert_eq!(classify(&answer(500, podman)), EngineFault::Absent);
        assert_eq!(classify(&answer(409, "container is paused")), EngineFault::Conflict);
        let podman = "cannot remove container 0123 as it could not be stopped: sending SIGKILL to \
                  container 0123: container state improper: stopped";
        assert_eq!(classify(&answer(500, podman)), EngineFault::Conflict);
        let refused = EngineFault::Refused { status: 400, message: "bad parameter".to_owned() };
        assert_eq!(classify(&answer(400, "bad\n\tparameter\n")), refused);
        let stream = Error::DockerStreamError { error: "no space".to_owned() };
        assert_eq!(
            classify(&stream),
            EngineFault::Refused { status: 0, message: "no space".to_owned() }
        );
    }

    #[test]
    fn an_engine_that_cannot_be_asked_is_unreachable() {
        let io = |kind: ErrorKind| Error::IOError { err: kind.into() };
        for error in [
            Error::RequestTimeoutError,
            Error::SocketNotFoundError("/x".to_owned()),
            io(ErrorKind::ConnectionRefused),
            io(ErrorKind::BrokenPipe),
        ] {
            assert_eq!(classify(&error), EngineFault::Unreachable, "{error}");
        }
        assert_eq!(error_text(&io(ErrorKind::PermissionDenied)), "permission denied");
        assert!(
            error_text(&io(ErrorKind::ConnectionRefused)).starts_with("no engine listens there")
        );
        assert!(error_text(&io(ErrorKind::BrokenPipe)).starts_with("the connection failed"));
    }

    #[test]
    fn a_strangers_text_becomes_one_bounded_harmless_line() {
        assert_eq!(one_line("  a\r\n\tb\u{1b}[31mc \u{0}d "), "a b [31mc d");
        assert_eq!(one_line(""), "");
        let long = one_line(&"é ".repeat(10_000));
        assert_eq!(long.chars().count(), MAX_MESSAGE + 1);
        assert!(long.ends_with('…'));
        assert_eq!(error_text(&answer(500, " \n")), "status 500");
    }
}
