//! What an engine's refusal means.

use std::io::ErrorKind;

use bollard::errors::Error;

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
pub(super) fn words(error: &Error) -> String {
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

#[cfg(test)]
#[path = "fault_tests.rs"]
mod tests;
