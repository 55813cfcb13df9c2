//! The guest of a container: what it is told, how it is reached through the
//! engine, and waiting until it listens.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bollard::container::LogOutput;
use bollard::exec::{StartExecOptions, StartExecResults};
use bollard::models::{ContainerCreateBody, ContainerInspectResponse, ExecConfig};
use bollard::query_parameters::{LogsOptionsBuilder, UploadToContainerOptionsBuilder};
use bytes::{Buf as _, Bytes};
use futures_util::{Stream, StreamExt as _};
use minicbor::bytes::ByteVec;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, sleep};
use vestal_wire::{GuestSettings, Role};

use super::api::{Client, Fault, fault};
use super::boot;
use super::identity::Transport;
use super::inspect::{Seen, inspect, is_below};
use super::plan::{BOOT_DIR, GUEST_FILE, IO_DIR, JobUser, Plan, STATE_DIR, WORKSPACE};
use super::prepare::Reach;
use super::storage::io_dir;
use crate::backend::{BackendError, Instance, InstanceRequest, InstanceState};
use crate::backends::guest_process;
use crate::client::Connection;
use crate::client::socket::{PeerExpectation, SocketError, connect};

/// The label that says how a container's guest is started.
const LABEL: &str = "vestal-guest";

/// Permissions of a socket that host and container share: who connects is
/// another user than who listens, and the directory above is private.
const SOCKET_MODE: u32 = 0o666;

/// What depends on how a container was made and not on the settings of today.
/// It is on the container, so that it is started again as it was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GuestPart {
    /// Whom jobs run as; absent: as the guest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    /// The home of jobs.
    home: String,
    /// Directories that are given to the user of jobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    hand_over: Vec<String>,
    /// Where jobs start that say nothing.
    start_dir: String,
    /// Whether the socket is for users of the host.
    shared: bool,
}

impl GuestPart {
    pub(super) fn new(plan: &Plan, user: &JobUser, reach: Reach) -> Self {
        let mut hand_over = Vec::new();
        // A directory that the user has put there keeps its owner.
        if plan.own_workspace {
            hand_over.push(WORKSPACE.to_owned());
        }
        if plan.own_home {
            hand_over.push(user.home.clone());
        }
        Self {
            user: plan.guest_user.clone(),
            home: user.home.clone(),
            hand_over,
            start_dir: plan.body.working_dir.clone().unwrap_or_else(|| WORKSPACE.to_owned()),
            shared: reach == Reach::Shared,
        }
    }

    /// Reads it off a container.
    pub(super) fn of(inspected: &ContainerInspectResponse) -> Option<Self> {
        let labels: &HashMap<String, String> = inspected.config.as_ref()?.labels.as_ref()?;
        serde_json::from_str(labels.get(LABEL)?).ok()
    }

    /// Puts it on a container to be made.
    pub(super) fn mark(&self, body: &mut ContainerCreateBody) {
        // A struct of texts always has a JSON form.
        let text = serde_json::to_string(self).unwrap_or_default();
        body.labels.get_or_insert_default().insert(LABEL.to_owned(), text);
    }

    /// Returns the settings of the guest in their binary form.
    pub(super) fn settings(&self, request: &InstanceRequest) -> Result<Vec<u8>, BackendError> {
        let bytes = |text: &str| ByteVec::from(text.as_bytes().to_vec());
        let settings = GuestSettings {
            state_dir: bytes(STATE_DIR),
            socket_dir: bytes(IO_DIR),
            env: Vec::new(),
            home: bytes(&self.home),
            start_dir: bytes(&self.start_dir),
            // Whatever ran before has ended with the container.
            previous_instances: Vec::new(),
            ephemeral: false,
            user: self.user.clone(),
            socket_mode: self.shared.then_some(SOCKET_MODE),
            inherit_env: true,
            hand_over: self.hand_over.iter().map(|dir| bytes(dir)).collect(),
            ..request.guest.clone()
        };
        vestal_wire::encode(&settings)
            .map_err(|error| BackendError::GuestFailed { reason: error.to_string() })
    }
}

type Output = Pin<Box<dyn Stream<Item = Result<LogOutput, bollard::errors::Error>> + Send>>;

/// The standard streams of a program in a container.
pub(super) struct ExecStream {
    output: Output,
    input: Pin<Box<dyn AsyncWrite + Send>>,
    /// What has come and was not read yet.
    unread: Bytes,
}

/// Starts the program that leads to the guest's socket, in the container.
pub(super) async fn connect_exec(
    client: &Client,
    container: &str,
    instance: &str,
) -> Result<ExecStream, BackendError> {
    let not_listening = || BackendError::NotListening { id: instance.to_owned() };
    let body = ExecConfig {
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        tty: Some(false),
        cmd: Some([GUEST_FILE, "connect", IO_DIR].map(str::to_owned).into()),
        ..ExecConfig::default()
    };
    let refused = |error| match fault(&error) {
        // It is gone, or does not run.
        Fault::Absent | Fault::Conflict => not_listening(),
        _ => client.error("run a program in the container")(error),
    };
    let exec = client.api().create_exec(container, body).await.map_err(refused)?;
    let options = StartExecOptions { detach: false, tty: false, output_capacity: Some(64 << 10) };
    match client.api().start_exec(&exec.id, Some(options)).await.map_err(refused)? {
        StartExecResults::Attached { output, input } => {
            Ok(ExecStream { output, input, unread: Bytes::new() })
        }
        StartExecResults::Detached => Err(not_listening()),
    }
}

impl AsyncRead for ExecStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if !self.unread.is_empty() {
                let take = self.unread.len().min(buffer.remaining());
                buffer.put_slice(&self.unread[..take]);
                self.unread.advance(take);
                return Poll::Ready(Ok(()));
            }
            match self.output.as_mut().poll_next(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Ready(Some(Err(error))) => {
                    return Poll::Ready(Err(io::Error::other(error)));
                }
                Poll::Ready(Some(Ok(LogOutput::StdOut { message }))) => self.unread = message,
                Poll::Ready(Some(Ok(other))) => {
                    tracing::debug!(said = %other, "from the container");
                }
            }
        }
    }
}

impl AsyncWrite for ExecStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.input.as_mut().poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.input.as_mut().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.input.as_mut().poll_shutdown(context)
    }
}

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
    let stream = match connect_exec(client, container, &instance.id).await {
        Ok(stream) => stream,
        Err(BackendError::NotListening { .. }) => return Ok(false),
        Err(error) => return Err(error),
    };
    let greeting =
        Connection::open_within(stream, Role::Observer, Some(instance.id.clone()), GREETING);
    Ok(greeting.await.is_ok())
}

/// Sends the guest's program and settings into a container that has a volume
/// for them.
pub(super) async fn upload(
    client: &Client,
    name: &str,
    program: &[u8],
    settings: &[u8],
) -> Result<(), BackendError> {
    let archive = boot::archive(program, settings).map_err(BackendError::io("pack the guest"))?;
    let options = UploadToContainerOptionsBuilder::new().path(BOOT_DIR).build();
    let body = bollard::body_full(archive.into());
    client
        .api()
        .upload_to_container(name, Some(options), body)
        .await
        .map_err(client.error("send the guest into the container"))
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
