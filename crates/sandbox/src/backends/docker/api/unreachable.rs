//! What to tell somebody whose engine cannot be reached.

use super::address::{Address, Login, Origin, Transport};
use super::context::PodmanProgram;
use super::greeting::NoGreeting;
use crate::backend::BackendError;

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
