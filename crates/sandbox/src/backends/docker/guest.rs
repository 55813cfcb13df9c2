//! The guest of a container: its settings, the byte stream to it through the
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
use vestal_wire::{GuestSettings, HostRole};

use super::api::{EngineClient, EngineFault, classify};
use super::boot;
use super::identity::GuestTransport;
use super::inspect::{InspectedContainer, inspect, is_descendant};
use super::plan::{
    BOOT_DIR, GUEST_FILE, IO_DIR, ImageUser, PlannedContainer, STATE_DIR, WORKSPACE,
};
use super::prepare::Sharing;
use super::storage::io_dir;
use crate::backend::{BackendError, Instance, InstanceRequest, InstanceState};
use crate::backends::guest_process;
use crate::client::Connection;
use crate::client::socket::{PeerExpectation, SocketError, connect};

/// Label with the [`GuestConfig`] of a container.
const LABEL: &str = "vestal-guest";

/// Mode of a socket that host and container share. The client may be another user
/// than the guest; the directory above is private.
const SOCKET_MODE: u32 = 0o666;

/// The guest's settings that depend on how the container was made. They are in a
/// label of the container, so that it is started again as it was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GuestConfig {
    /// The user of jobs; `None` for the guest's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    /// The home of jobs.
    home: String,
    /// Directories whose owner becomes the user of jobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    hand_over: Vec<String>,
    /// The default directory of jobs.
    start_dir: String,
    /// Whether the host connects to the socket directly.
    shared: bool,
}

impl GuestConfig {
    pub(super) fn new(plan: &PlannedContainer, user: &ImageUser, sharing: Sharing) -> Self {
        let mut hand_over = Vec::new();
        // A directory that the user mounts keeps its owner.
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
            shared: sharing == Sharing::Shared,
        }
    }

    /// Reads the configuration from a container's label.
    pub(super) fn of_container(inspected: &ContainerInspectResponse) -> Option<Self> {
        let labels: &HashMap<String, String> = inspected.config.as_ref()?.labels.as_ref()?;
        serde_json::from_str(labels.get(LABEL)?).ok()
    }

    pub(super) fn add_label(&self, body: &mut ContainerCreateBody) {
        // A struct of strings always serializes.
        let text = serde_json::to_string(self).unwrap_or_default();
        body.labels.get_or_insert_default().insert(LABEL.to_owned(), text);
    }

    /// Returns the complete settings of the guest, encoded.
    pub(super) fn encode_settings(
        &self,
        request: &InstanceRequest,
    ) -> Result<Vec<u8>, BackendError> {
        let bytes = |text: &str| ByteVec::from(text.as_bytes().to_vec());
        let settings = GuestSettings {
            state_dir: bytes(STATE_DIR),
            socket_dir: bytes(IO_DIR),
            env: Vec::new(),
            home: bytes(&self.home),
            start_dir: bytes(&self.start_dir),
            // Earlier processes ended with the container.
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

type ExecOutput = Pin<Box<dyn Stream<Item = Result<LogOutput, bollard::errors::Error>> + Send>>;

/// The standard streams of a program in a container.
pub(super) struct ExecStream {
    output: ExecOutput,
    input: Pin<Box<dyn AsyncWrite + Send>>,
    /// Received and not yet read.
    unread: Bytes,
    /// Its standard error.
    complaint: String,
}

/// Runs `guest connect` in the container, which forwards to the guest's socket.
pub(super) async fn connect_exec(
    client: &EngineClient,
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
    let refused = |error| match classify(&error) {
        // The container is gone or does not run.
        EngineFault::Absent | EngineFault::Conflict => not_listening(),
        _ => client.error("run a program in the container")(error),
    };
    let exec = client.api().create_exec(container, body).await.map_err(refused)?;
    let options = StartExecOptions { detach: false, tty: false, output_capacity: Some(64 << 10) };
    match client.api().start_exec(&exec.id, Some(options)).await.map_err(refused)? {
        StartExecResults::Attached { output, input } => {
            Ok(ExecStream { output, input, unread: Bytes::new(), complaint: String::new() })
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
                Poll::Ready(None) if self.complaint.is_empty() => return Poll::Ready(Ok(())),
                // `guest connect` reached no guest, which a connection that the
                // engine or a network cuts never says.
                Poll::Ready(None) => {
                    let complaint = std::mem::take(&mut self.complaint);
                    let kind = io::ErrorKind::ConnectionRefused;
                    return Poll::Ready(Err(io::Error::new(kind, complaint)));
                }
                Poll::Ready(Some(Err(error))) => {
                    return Poll::Ready(Err(io::Error::other(error)));
                }
                Poll::Ready(Some(Ok(LogOutput::StdOut { message }))) => self.unread = message,
                Poll::Ready(Some(Ok(LogOutput::StdErr { message }))) => {
                    let text = readable_output(&String::from_utf8_lossy(&message));
                    tracing::debug!(output = %text, "from the container");
                    if self.complaint.len() < MAX_OUTPUT {
                        self.complaint.push_str(&text);
                    }
                }
                Poll::Ready(Some(Ok(other))) => {
                    tracing::debug!(output = %other, "from the container");
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

/// Longest time until a guest listens. It takes milliseconds; the rest is for slow
/// machines and for images with an init of their own.
const READY_TIMEOUT: Duration = Duration::from_mins(2);

/// Time between two attempts to connect to the socket.
const SOCKET_INTERVAL: Duration = Duration::from_millis(4);

/// Time between two inspections of the container, and two attempts by exec.
const INSPECT_INTERVAL: Duration = Duration::from_millis(250);

/// Longest time for the guest's hello through the engine.
const EXEC_TIMEOUT: Duration = Duration::from_secs(10);

/// Most of a container's output that is quoted in an error.
const MAX_OUTPUT: usize = 2000;

/// Waits until the guest of a container that was just started listens. Returns how
/// it is reached.
pub(super) async fn wait_until_ready(
    client: &EngineClient,
    instance: &Instance,
    container: &str,
    sharing: Sharing,
) -> Result<GuestTransport, BackendError> {
    let deadline = Instant::now() + READY_TIMEOUT;
    let mut seen = inspect_running(client, container).await?;
    loop {
        let looked = Instant::now();
        match sharing {
            Sharing::Shared => {
                while looked.elapsed() < INSPECT_INTERVAL {
                    if let Some(transport) = try_socket(instance, &seen).await? {
                        return Ok(transport);
                    }
                    sleep(SOCKET_INTERVAL).await;
                }
            }
            Sharing::Separate => {
                if try_exec(client, instance, container).await? {
                    return Ok(GuestTransport::Exec);
                }
                sleep(INSPECT_INTERVAL).await;
            }
        }
        seen = inspect_running(client, container).await?;
        if Instant::now() >= deadline {
            return Err(BackendError::GuestFailed {
                reason: format!("it was not ready within {} s", READY_TIMEOUT.as_secs()),
            });
        }
    }
}

/// Returns the container if it runs, or an error with its exit code and output.
async fn inspect_running(
    client: &EngineClient,
    container: &str,
) -> Result<InspectedContainer, BackendError> {
    let failed = |reason: String| BackendError::GuestFailed { reason };
    let Some(seen) = inspect(client, container).await? else {
        return Err(failed("its container is gone".to_owned()));
    };
    if seen.state == InstanceState::Running {
        return Ok(seen);
    }
    let state = seen.response.state.as_ref();
    let code = state.and_then(|state| state.exit_code).unwrap_or_default();
    let error = state.and_then(|state| state.error.clone()).unwrap_or_default();
    let output = last_output(client, container).await;
    let reasons = [error, output].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>();
    Err(failed(format!("its container ended with {code}: {}", reasons.join("; "))))
}

async fn last_output(client: &EngineClient, container: &str) -> String {
    let options =
        LogsOptionsBuilder::new().stdout(true).stderr(true).tail("10").follow(false).build();
    let mut lines = client.api().logs(container, Some(options));
    let mut output = String::new();
    while let Some(Ok(line)) = lines.next().await {
        output.push_str(&line.to_string());
        if output.len() > MAX_OUTPUT {
            break;
        }
    }
    readable_output(&output)
}

/// Returns the output of a container on one line, without the guest's machine-readable
/// "ready" lines.
fn readable_output(output: &str) -> String {
    let is_ready_line = |line: &&str| {
        let value = serde_json::from_str::<serde_json::Value>(line).ok();
        value.is_some_and(|value| value.get("pid_start").is_some() && value.get("boot").is_some())
    };
    let lines =
        output.lines().map(str::trim).filter(|line| !line.is_empty() && !is_ready_line(line));
    let lines = lines.map(|line| line.strip_prefix("error: ").unwrap_or(line));
    let text = lines.collect::<Vec<_>>().join("; ");
    text.chars().take(MAX_OUTPUT).collect()
}

/// Tries to connect to the socket once. The guest is the container's first process,
/// or a descendant of it where that is an init of the image.
async fn try_socket(
    instance: &Instance,
    seen: &InspectedContainer,
) -> Result<Option<GuestTransport>, BackendError> {
    match connect(&io_dir(&instance.dir), PeerExpectation::anyone()).await {
        Ok(stream) => {
            let peer = stream.peer_cred().ok().and_then(|peer| peer.pid());
            let pid = peer.and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid != 0);
            // Process ids can be compared where host and engine share a pid
            // namespace.
            if let (Some(pid), Some(first)) = (pid, seen.pid)
                && !is_descendant(pid, first)
            {
                let reason = format!("process {pid} is not one of the container's");
                return Err(BackendError::Impostor { id: instance.id.clone(), reason });
            }
            Ok(Some(GuestTransport::Socket { pid }))
        }
        Err(SocketError::Absent) => Ok(None),
        Err(SocketError::Io(error)) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            // The guest has bound the socket and not yet changed its mode.
            Ok(None)
        }
        Err(error) => Err(guest_process::unreached(instance, error)),
    }
}

/// Tries to reach the guest through the engine once.
async fn try_exec(
    client: &EngineClient,
    instance: &Instance,
    container: &str,
) -> Result<bool, BackendError> {
    let stream = match connect_exec(client, container, &instance.id).await {
        Ok(stream) => stream,
        Err(BackendError::NotListening { .. }) => return Ok(false),
        Err(error) => return Err(error),
    };
    let hello = Connection::open_within(
        stream,
        HostRole::Observer,
        Some(instance.id.clone()),
        EXEC_TIMEOUT,
    );
    Ok(hello.await.is_ok())
}

/// Uploads the guest's program and settings into the volume that a container has
/// for them.
pub(super) async fn upload(
    client: &EngineClient,
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
        .map_err(client.error("upload the guest into the container"))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn end_of(printed: Vec<LogOutput>) -> io::Result<usize> {
        let output = futures_util::stream::iter(printed.into_iter().map(Ok));
        let mut stream = ExecStream {
            output: Box::pin(output),
            input: Box::pin(tokio::io::sink()),
            unread: Bytes::new(),
            complaint: String::new(),
        };
        tokio::io::AsyncReadExt::read(&mut stream, &mut [0; 8]).await
    }

    #[tokio::test]
    async fn a_stream_that_reaches_no_guest_is_distinguished_from_one_that_is_cut() {
        let message = Bytes::from_static(b"error: connect: No such file or directory\n");
        let refused = end_of(vec![LogOutput::StdErr { message }]).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(refused.to_string(), "connect: No such file or directory");
        assert_eq!(end_of(Vec::new()).await.unwrap(), 0);
    }

    #[test]
    fn ready_lines_of_the_guest_are_not_shown_to_users() {
        let words = "{\"pid\":1,\"pid_start\":7,\"boot\":\"b\"}\n\
                     starting\n{\"level\":\"info\"}\nerror: no space left\n\n";
        assert_eq!(readable_output(words), "starting; {\"level\":\"info\"}; no space left");
        assert_eq!(readable_output(""), "");
    }
}
