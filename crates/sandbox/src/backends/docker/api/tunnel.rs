//! A local socket whose connections are carried to an engine on another machine.
//!
//! The client library connects to a socket that only this process can reach. What carries a
//! connection is a program such as `ssh`, or a stream that another backend opens.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use rustix::fs::{Mode, OFlags};
use tokio::io::{AsyncWriteExt as _, Interest, Ready};
use tokio::net::unix::OwnedReadHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

use super::socket::SocketPath;
use crate::backend::{BackendError, ByteStream};

/// Opens streams to the API of an engine that this process cannot connect to.
#[async_trait]
pub(in crate::backends) trait EngineDialer: fmt::Debug + Send + Sync {
    /// Returns what people call the engine.
    fn address(&self) -> String;

    /// Opens a stream.
    async fn dial(&self) -> Result<Box<dyn ByteStream>, BackendError>;
}

/// A local socket that forwards to an engine on another machine.
#[derive(Debug)]
pub(super) struct EngineTunnel {
    /// Keeps the path valid: the socket's file is deleted.
    _socket: OwnedFd,
    path: PathBuf,
    last_failure: LastFailure,
    task: JoinHandle<()>,
}

/// Why the last connection could not be made.
pub(super) type LastFailure = Arc<Mutex<Option<TunnelFailure>>>;

/// Why a connection could not be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TunnelFailure {
    /// What went wrong.
    pub(super) reason: String,
    /// What to do about it, where that is known.
    pub(super) advice: Option<String>,
}

/// Carries one connection until either side ends it.
pub(super) type Carrier = dyn Fn(UnixStream, LastFailure) -> Carrying + Send + Sync;
pub(super) type Carrying = Pin<Box<dyn Future<Output = ()> + Send>>;

impl EngineTunnel {
    /// Opens the socket, in a directory that is there. Nothing is connected yet.
    pub(super) fn open(run_dir: &Path, carrier: Arc<Carrier>) -> Result<Self, BackendError> {
        let (listener, socket) =
            nameless_listener(run_dir).map_err(BackendError::io("create a socket"))?;
        let path = Path::new("/proc/self/fd").join(socket.as_raw_fd().to_string());
        let last_failure = LastFailure::default();
        let task = tokio::spawn(accept(listener, carrier, Arc::clone(&last_failure)));
        Ok(Self { _socket: socket, path, last_failure, task })
    }

    /// Opens the socket of an engine that streams lead to.
    pub(super) fn through(
        run_dir: &Path,
        dialer: Arc<dyn EngineDialer>,
    ) -> Result<Self, BackendError> {
        let carrier: Arc<Carrier> =
            Arc::new(move |stream, last| Box::pin(relay(stream, Arc::clone(&dialer), last)));
        Self::open(run_dir, carrier)
    }

    /// Returns a path that this process can connect to.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns why the last connection could not be made, unless a later one was.
    pub(super) fn last_failure(&self) -> Option<TunnelFailure> {
        self.last_failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for EngineTunnel {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Notes how a connection went.
pub(super) fn note(last: &LastFailure, failure: Option<TunnelFailure>) {
    *last.lock().unwrap_or_else(PoisonError::into_inner) = failure;
}

/// Returns a listening socket without a file, and a descriptor to reach it by.
fn nameless_listener(dir: &Path) -> io::Result<(UnixListener, OwnedFd)> {
    let path = dir.join(format!(".ssh-{}.sock", crate::key::random_hex::<8>()?));
    let short = SocketPath::new(&path)?;
    let listener = UnixListener::bind(short.as_path())?;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let socket = rustix::fs::open(short.as_path(), flags, Mode::empty());
    std::fs::remove_file(&path)?;
    Ok((listener, socket?))
}

async fn accept(listener: UnixListener, carrier: Arc<Carrier>, last: LastFailure) {
    // The connections end with this task.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(carrier(stream, Arc::clone(&last)));
                }
                // Probably out of descriptors, which passes.
                Err(_) => sleep(Duration::from_millis(50)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Carries a connection by a stream. A client whose stream cannot be opened sees its connection
/// closed, and asks for the reason.
async fn relay(stream: UnixStream, dialer: Arc<dyn EngineDialer>, last: LastFailure) {
    let there = match dialer.dial().await {
        Ok(there) => there,
        Err(error) => {
            let advice = error.advice().map(str::to_owned);
            let reason = match error {
                // Where it is stands before the reason already.
                BackendError::HostUnreachable { reason, .. } => reason,
                other => other.to_string(),
            };
            note(&last, Some(TunnelFailure { reason, advice }));
            return;
        }
    };
    note(&last, None);
    let (mut from_here, mut to_here) = stream.into_split();
    let (mut from_there, mut to_there) = tokio::io::split(there);
    let up = async {
        // A write error shows in the other direction.
        tokio::io::copy(&mut from_here, &mut to_there).await.ok();
        to_there.shutdown().await.ok();
        // After the end of input the client may close the connection.
        closed(&from_here).await;
    };
    tokio::select! {
        _ = tokio::io::copy(&mut from_there, &mut to_here) => {}
        () = up => {}
    }
}

/// Waits until the other end of a stream is closed in both directions.
pub(super) async fn closed(stream: &OwnedReadHalf) {
    while !stream.ready(Interest::WRITABLE).await.is_ok_and(Ready::is_write_closed) {
        sleep(Duration::from_millis(500)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::super::client::EngineClient;
    use super::super::fake_engine::FakeEngine;
    use super::super::fake_engine::settings;
    use super::*;

    /// Leads to a socket of this machine, or nowhere.
    #[derive(Debug)]
    struct ToSocket(Option<PathBuf>);

    #[async_trait]
    impl EngineDialer for ToSocket {
        fn address(&self) -> String {
            "the engine of far".to_owned()
        }

        async fn dial(&self) -> Result<Box<dyn ByteStream>, BackendError> {
            let path = self.0.as_deref().ok_or_else(|| BackendError::HostUnreachable {
                host: "far".to_owned(),
                reason: "the line is cut".to_owned(),
                advice: "mend it".to_owned(),
            })?;
            let stream = UnixStream::connect(path).await;
            Ok(Box::new(stream.map_err(BackendError::io("connect"))?))
        }
    }

    async fn connect(socket: Option<PathBuf>) -> Result<EngineClient, BackendError> {
        let dir = tempfile::tempdir().unwrap();
        let settings = settings(dir.path(), [], &[]);
        EngineClient::connect_through(Arc::new(ToSocket(socket)), &settings, dir.path()).await
    }

    #[tokio::test]
    async fn an_engine_that_streams_lead_to_is_one_on_another_machine() {
        let engine = FakeEngine::start(|_| String::new());
        let client = connect(Some(engine.path("engine.sock"))).await.unwrap();
        assert!(client.is_remote());
        assert_eq!(client.address(), "the engine of far");
    }

    #[tokio::test]
    async fn why_a_stream_cannot_be_opened_is_reported_with_advice() {
        let error = connect(None).await.unwrap_err();
        let text = "the container engine at the engine of far cannot be reached: the line is cut";
        assert_eq!((error.to_string().as_str(), error.advice()), (text, Some("mend it")));
        assert!(matches!(error, BackendError::Unreachable { .. }), "{error:?}");
    }
}
