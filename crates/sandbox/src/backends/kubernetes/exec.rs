//! The byte stream to a program in a pod, as the API server carries it: a websocket whose
//! messages begin with the number of a channel.
//!
//! It is read here and not by `kube`, whose output never ends when the connection is lost. A
//! server that falls silent is noticed by pings that it does not answer.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use futures_util::{Sink, Stream};
use kube::Error;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};
use tokio_tungstenite::tungstenite::{Error as SocketError, Message};

use super::cluster::Cluster;
use super::failure::{chain, failed};
use crate::backend::BackendError;
use crate::backends::docker::one_line;

/// Channels of the protocol `v4.channel.k8s.io`.
const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;

/// When a silent connection is taken for lost.
#[derive(Debug, Clone, Copy)]
struct Pulse {
    /// Time between two pings.
    every: Duration,
    /// The longest silence.
    silent: Duration,
    /// The same while it takes no more bytes: the program may be slow to read, and then its server
    /// reads no pings either.
    congested: Duration,
}

const PULSE: Pulse = Pulse {
    every: Duration::from_secs(5),
    silent: Duration::from_secs(20),
    congested: Duration::from_mins(2),
};

/// Most bytes of one message to a program.
const MAX_PIECE: usize = 64 << 10;

/// Most of a program's standard error that is kept.
const MAX_COMPLAINT: usize = 4096;

/// A websocket.
trait Socket:
    Stream<Item = Result<Message, SocketError>> + Sink<Message, Error = SocketError> + Send + Unpin
{
}

impl<T> Socket for T where
    T: Stream<Item = Result<Message, SocketError>>
        + Sink<Message, Error = SocketError>
        + Send
        + Unpin
{
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    /// Well.
    Success,
    /// By itself, with words.
    Failure(String),
    /// Nobody knows: something between it and here failed.
    Unknown(String),
}

/// The standard streams of a program in a pod.
pub(super) struct PodExecStream {
    socket: Box<dyn Socket>,
    unread: Bytes,
    complaint: String,
    verdict: Option<Verdict>,
    pings: Interval,
    pulse: Pulse,
    heard: Instant,
    congested: bool,
}

impl PodExecStream {
    /// Starts a program in a pod.
    pub(super) async fn start(
        cluster: &Cluster,
        pod: &str,
        command: &[&str],
    ) -> Result<Self, ExecFailure> {
        let connection =
            cluster.exec(pod, command).await.map_err(|error| exec_failure(cluster, &error))?;
        Ok(Self::over(Box::new(connection.into_stream()), PULSE))
    }

    fn over(socket: Box<dyn Socket>, pulse: Pulse) -> Self {
        let mut pings = interval(pulse.every);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        pings.reset();
        Self {
            socket,
            unread: Bytes::new(),
            complaint: String::new(),
            verdict: None,
            pings,
            pulse,
            heard: Instant::now(),
            congested: false,
        }
    }

    /// Returns the program's standard error.
    pub(super) fn complaint(&self) -> &str {
        &self.complaint
    }

    fn receive(&mut self, mut message: Bytes) {
        if message.is_empty() {
            return;
        }
        match message.get_u8() {
            STDOUT => self.unread = message,
            STDERR => {
                let room = MAX_COMPLAINT.saturating_sub(self.complaint.len());
                let kept = &message[..message.len().min(room)];
                self.complaint.push_str(&String::from_utf8_lossy(kept));
            }
            STATUS => self.verdict = Some(verdict(&message, &self.complaint)),
            _ => {}
        }
    }

    /// Returns what a reader gets at the end.
    fn end(&self) -> io::Result<()> {
        match &self.verdict {
            Some(Verdict::Success) => Ok(()),
            // It reached no guest, which a connection that is lost never says.
            Some(Verdict::Failure(words)) => {
                Err(io::Error::new(io::ErrorKind::ConnectionRefused, words.clone()))
            }
            Some(Verdict::Unknown(words)) => {
                Err(io::Error::new(io::ErrorKind::ConnectionAborted, words.clone()))
            }
            None => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the connection to the pod was lost",
            )),
        }
    }

    /// Sends a ping when it is time; an error when the other side has been silent for too long.
    fn poll_pulse(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        while self.pings.poll_tick(context).is_ready() {
            let limit = if self.congested { self.pulse.congested } else { self.pulse.silent };
            if self.heard.elapsed() > limit {
                let reason = format!("the cluster has been silent for {} s", limit.as_secs());
                return Err(io::Error::new(io::ErrorKind::TimedOut, reason));
            }
            // A writer waits for room: the socket wakes one task for that, and a reader that
            // asked, too, would be the one. There is no room for a ping anyway.
            if self.congested {
                continue;
            }
            if let Poll::Ready(ready) = Pin::new(&mut self.socket).poll_ready(context) {
                let ping = Message::Ping(Bytes::new());
                let sent = ready.and_then(|()| Pin::new(&mut self.socket).start_send(ping));
                sent.map_err(lost)?;
                if let Poll::Ready(flushed) = Pin::new(&mut self.socket).poll_flush(context) {
                    flushed.map_err(lost)?;
                }
            }
        }
        Ok(())
    }
}

/// Reads the status of a program that ended.
fn verdict(message: &[u8], complaint: &str) -> Verdict {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Status {
        #[serde(rename = "status")]
        outcome: String,
        message: String,
        reason: String,
    }
    let Ok(status) = serde_json::from_slice::<Status>(message) else {
        return Verdict::Unknown("the cluster did not report how the program ended".into());
    };
    let words = one_line(if complaint.trim().is_empty() { &status.message } else { complaint });
    match (&*status.outcome, &*status.reason) {
        ("Success", _) => Verdict::Success,
        (_, "NonZeroExitCode") => Verdict::Failure(words),
        _ if never_ran(&status.message) => Verdict::Failure(words),
        _ => Verdict::Unknown(words),
    }
}

/// Returns whether a failure means that there is no such program or no running container.
fn never_ran(words: &str) -> bool {
    ["exec failed", "container not found", "not running", "stopped container", "no such file"]
        .iter()
        .any(|part| words.contains(part))
}

fn lost(error: SocketError) -> io::Error {
    match error {
        SocketError::Io(error) => error,
        // A reset without a farewell is an offence against the protocol.
        SocketError::ConnectionClosed | SocketError::AlreadyClosed | SocketError::Protocol(_) => {
            io::Error::new(io::ErrorKind::UnexpectedEof, "the connection to the pod was lost")
        }
        other => io::Error::new(io::ErrorKind::ConnectionAborted, one_line(&other.to_string())),
    }
}

/// Why a program could not be started.
#[derive(Debug)]
pub(super) enum ExecFailure {
    /// The pod does not run.
    NotRunning,
    /// Nobody knows what the pod does.
    Failed(BackendError),
}

fn exec_failure(cluster: &Cluster, error: &Error) -> ExecFailure {
    match error {
        Error::Api(status) if status.code == 404 && status.message.contains("pods ") => {
            ExecFailure::NotRunning
        }
        // The node answers for the container in different words and codes.
        Error::Api(status)
            if never_ran(&status.message)
                || (status.code == 400 && status.message.contains("completed pod"))
                || status.message.contains("is not valid for pod")
                || status.message.contains("does not have a host assigned") =>
        {
            ExecFailure::NotRunning
        }
        // A server in between that does not speak websocket, or an old one.
        Error::UpgradeConnection(error) => ExecFailure::Failed(
            cluster.unreachable(&format!("it opens no stream: {}", chain(error))),
        ),
        other => ExecFailure::Failed(failed(&cluster.name, "run a program in the pod", other)),
    }
}

impl AsyncRead for PodExecStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            if !this.unread.is_empty() {
                let take = this.unread.len().min(buffer.remaining());
                buffer.put_slice(&this.unread[..take]);
                this.unread.advance(take);
                return Poll::Ready(Ok(()));
            }
            if this.verdict.is_some() {
                return Poll::Ready(this.end());
            }
            match Pin::new(&mut this.socket).poll_next(context) {
                Poll::Ready(Some(Ok(message))) => {
                    this.heard = Instant::now();
                    match message {
                        Message::Binary(bytes) => this.receive(bytes),
                        Message::Close(_) => return Poll::Ready(this.end()),
                        _ => {}
                    }
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(lost(error))),
                Poll::Ready(None) => return Poll::Ready(this.end()),
                Poll::Pending => {
                    this.poll_pulse(context)?;
                    return Poll::Pending;
                }
            }
        }
    }
}

impl AsyncWrite for PodExecStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        match Pin::new(&mut this.socket).poll_ready(context) {
            Poll::Pending => {
                this.congested = true;
                return Poll::Pending;
            }
            Poll::Ready(Err(error)) => return Poll::Ready(Err(lost(error))),
            Poll::Ready(Ok(())) => this.congested = false,
        }
        let piece = &bytes[..bytes.len().min(MAX_PIECE)];
        let mut message = Vec::with_capacity(piece.len() + 1);
        message.push(STDIN);
        message.extend_from_slice(piece);
        match Pin::new(&mut this.socket).start_send(Message::Binary(message.into())) {
            Ok(()) => Poll::Ready(Ok(piece.len())),
            Err(error) => Poll::Ready(Err(lost(error))),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let flushed = Pin::new(&mut this.socket).poll_flush(context);
        this.congested = flushed.is_pending();
        flushed.map_err(lost)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The program's input cannot be ended by itself in v4; it ends with the connection.
        self.as_mut().poll_flush(context)
    }
}

#[cfg(test)]
#[path = "exec_tests.rs"]
mod tests;
