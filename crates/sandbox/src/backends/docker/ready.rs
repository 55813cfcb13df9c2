//! Waiting for a guest to listen.

use std::time::Duration;

use bollard::query_parameters::LogsOptionsBuilder;
use futures_util::StreamExt as _;
use tokio::time::{Instant, sleep};
use vestal_wire::Role;

use super::api::Client;
use super::exec;
use super::facts::Reach;
use super::inspect::{Seen, inspect, is_below};
use super::locator::Transport;
use super::places::io_dir;
use crate::backend::{BackendError, Instance, InstanceState};
use crate::backends::guest_process;
use crate::client::Connection;
use crate::client::socket::{PeerExpectation, SocketError, connect};

/// How long a guest may take to listen. It does so in milliseconds; the rest is
/// for machines that are slow and busy, and for images with an init of their
/// own.
const WITHIN: Duration = Duration::from_mins(2);

/// Time between two knocks at a socket.
const KNOCK: Duration = Duration::from_millis(4);

/// Time between two looks at the container, and two programs run in it.
const LOOK: Duration = Duration::from_millis(250);

/// How long one greeting through the engine may take.
const GREETING: Duration = Duration::from_secs(10);

/// Longest part of a container's last words that is passed on.
const MAX_WORDS: usize = 2000;

/// Waits until the guest of a container that was just started listens, and
/// returns how it is reached.
pub(super) async fn wait(
    client: &Client,
    instance: &Instance,
    container: &str,
    reach: Reach,
) -> Result<Transport, BackendError> {
    let deadline = Instant::now() + WITHIN;
    let mut seen = running(client, container).await?;
    loop {
        let looked = Instant::now();
        match reach {
            Reach::Shared => {
                while looked.elapsed() < LOOK {
                    if let Some(transport) = knock(instance, &seen).await? {
                        return Ok(transport);
                    }
                    sleep(KNOCK).await;
                }
            }
            Reach::Apart => {
                if answers(client, instance, container).await? {
                    return Ok(Transport::Exec);
                }
                sleep(LOOK).await;
            }
        }
        seen = running(client, container).await?;
        if Instant::now() >= deadline {
            return Err(BackendError::GuestFailed {
                reason: format!("it was not ready within {} s", WITHIN.as_secs()),
            });
        }
    }
}

/// Returns the container while it runs; one that has ended says why.
async fn running(client: &Client, container: &str) -> Result<Seen, BackendError> {
    let failed = |reason: String| BackendError::GuestFailed { reason };
    let Some(seen) = inspect(client, container).await? else {
        return Err(failed("its container is gone".to_owned()));
    };
    if seen.state == InstanceState::Running {
        return Ok(seen);
    }
    let state = seen.inspected.state.as_ref();
    let code = state.and_then(|state| state.exit_code).unwrap_or_default();
    let error = state.and_then(|state| state.error.clone()).unwrap_or_default();
    let words = last_words(client, container).await;
    let told = [error, words].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>();
    Err(failed(format!("its container ended with {code}: {}", told.join("; "))))
}

async fn last_words(client: &Client, container: &str) -> String {
    let options =
        LogsOptionsBuilder::new().stdout(true).stderr(true).tail("10").follow(false).build();
    let mut lines = client.api().logs(container, Some(options));
    let mut words = String::new();
    while let Some(Ok(line)) = lines.next().await {
        words.push_str(&line.to_string());
        if words.len() > MAX_WORDS {
            break;
        }
    }
    for_people(&words)
}

/// Returns what a container has printed as it is told to people: without the
/// lines by which guests said that they were ready, at this start or before.
fn for_people(words: &str) -> String {
    let is_ready_line = |line: &&str| {
        let said = serde_json::from_str::<serde_json::Value>(line).ok();
        said.is_some_and(|said| said.get("pid_start").is_some() && said.get("boot").is_some())
    };
    let lines =
        words.lines().map(str::trim).filter(|line| !line.is_empty() && !is_ready_line(line));
    let lines = lines.map(|line| line.strip_prefix("error: ").unwrap_or(line));
    let told = lines.collect::<Vec<_>>().join("; ");
    told.chars().take(MAX_WORDS).collect()
}

/// Tries the socket once. Only the container's first process, or where an init
/// of the image's is that one any process of it, can be the guest.
async fn knock(instance: &Instance, seen: &Seen) -> Result<Option<Transport>, BackendError> {
    match connect(&io_dir(&instance.dir), PeerExpectation::anyone()).await {
        Ok(stream) => {
            let peer = stream.peer_cred().ok().and_then(|peer| peer.pid());
            let pid = peer.and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid != 0);
            // Who it is can be told where host and engine count alike.
            if let (Some(pid), Some(first)) = (pid, seen.pid)
                && !is_below(pid, first)
            {
                let reason = format!("process {pid} is none of the container's");
                return Err(BackendError::Impostor { id: instance.id.clone(), reason });
            }
            Ok(Some(Transport::Socket { pid }))
        }
        Err(SocketError::Absent) => Ok(None),
        Err(SocketError::Io(error)) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            // It is bound and not yet opened to everyone.
            Ok(None)
        }
        Err(error) => Err(guest_process::unreached(instance, error)),
    }
}

/// Greets the guest through the engine once.
async fn answers(
    client: &Client,
    instance: &Instance,
    container: &str,
) -> Result<bool, BackendError> {
    let stream = match exec::connect(client, container, &instance.id).await {
        Ok(stream) => stream,
        Err(BackendError::NotListening { .. }) => return Ok(false),
        Err(error) => return Err(error),
    };
    let greeting =
        Connection::open_within(stream, Role::Observer, Some(instance.id.clone()), GREETING);
    Ok(greeting.await.is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_guest_says_to_programs_is_not_told_to_people() {
        let words = "{\"pid\":1,\"pid_start\":7,\"boot\":\"b\"}\n\
                     starting\n{\"level\":\"info\"}\nerror: no space left\n\n";
        assert_eq!(for_people(words), "starting; {\"level\":\"info\"}; no space left");
        assert_eq!(for_people(""), "");
    }
}
