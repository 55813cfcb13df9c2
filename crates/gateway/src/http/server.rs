//! Connections: how many, how long they may take over a request, and how they end.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use crate::address::ApiSocket;

/// Connections at once. For one more, the oldest that has not sent a whole head yet is closed; if
/// there is none, the new one gets an error and is closed.
const MAX_CONNECTIONS: usize = 512;

/// After so long without a sign of life of the other side, a connection is probed; and data that
/// is not taken for as long ends it. A machine that vanished leaves no connection behind.
const PROBE_AFTER: Duration = Duration::from_mins(1);
const UNTAKEN_FOR: Duration = Duration::from_mins(2);

/// How long accepting rests when the system has no descriptors left.
const REST: Duration = Duration::from_millis(100);

/// How long a client that is turned away may take to read why.
const TURN_AWAY_WITHIN: Duration = Duration::from_secs(1);

/// What a client gets when there are too many connections.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n\
retry-after: 2\r\nconnection: close\r\ncontent-length: 131\r\n\r\n\
{\"error\":{\"message\":\"too many connections; try again in a while\",\"type\":\"server_error\",\
\"param\":null,\"code\":\"too_many_connections\"}}";

/// What connections come from.
pub(super) trait Accept: Send {
    /// A connection.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Waits for the next one; its other side is known by an address on a network only.
    fn accept(&self)
    -> impl Future<Output = io::Result<(Self::Stream, Option<SocketAddr>)>> + Send;
}

impl Accept for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<(TcpStream, Option<SocketAddr>)> {
        let (stream, peer) = TcpListener::accept(self).await?;
        prepare(&stream);
        Ok((stream, Some(peer)))
    }
}

impl Accept for ApiSocket {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<(UnixStream, Option<SocketAddr>)> {
        let (stream, _) = self.listener.accept().await?;
        Ok((stream, None))
    }
}

/// Serves until `stop`, then lets what was begun be answered. A client may take `head_within` over the
/// head of a request.
pub(super) async fn serve(
    listener: impl Accept,
    app: Router,
    head_within: Duration,
    stop: CancellationToken,
) -> io::Result<()> {
    let connections = TaskTracker::new();
    let silent = Silent::default();
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                if !is_of_one_connection(&error) {
                    tracing::warn!(%error, "the API server cannot take connections");
                    tokio::time::sleep(REST).await;
                }
                continue;
            }
        };
        let slot = match Arc::clone(&slots).try_acquire_owned() {
            Ok(slot) => Some(slot),
            Err(_) if silent.close_oldest() => Arc::clone(&slots).acquire_owned().await.ok(),
            Err(_) => None,
        };
        let Some(slot) = slot else {
            connections.spawn(refuse_connection(stream));
            continue;
        };
        let (app, stop, silence) = (app.clone(), stop.clone(), silent.begin());
        connections.spawn(async move {
            serve_one(stream, peer, app, head_within, stop, silence).await;
            drop(slot);
        });
    }
    drop(listener);
    connections.close();
    connections.wait().await;
    Ok(())
}

/// Connections that have not sent a whole head yet, oldest first. A client that opens many
/// of them and sends nothing takes no slot from clients that send requests.
#[derive(Debug, Clone, Default)]
struct Silent(Arc<Mutex<SilentConnections>>);

#[derive(Debug, Default)]
struct SilentConnections {
    next: u64,
    open: BTreeMap<u64, CancellationToken>,
}

/// The silence of one connection; it ends with the first request.
#[derive(Debug)]
struct Silence {
    all: Silent,
    number: u64,
    close: CancellationToken,
}

impl Silent {
    fn begin(&self) -> Silence {
        let mut all = self.lock();
        let (number, close) = (all.next, CancellationToken::new());
        all.next += 1;
        all.open.insert(number, close.clone());
        Silence { all: self.clone(), number, close }
    }

    /// Closes the oldest; reports whether there was one.
    fn close_oldest(&self) -> bool {
        let oldest = self.lock().open.pop_first();
        oldest.map(|(_, close)| close.cancel()).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, SilentConnections> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Silence {
    fn end(&self) {
        self.all.lock().open.remove(&self.number);
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        self.end();
    }
}

async fn serve_one(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: Option<SocketAddr>,
    app: Router,
    head_within: Duration,
    stop: CancellationToken,
    silence: Silence,
) {
    let close = silence.close.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        silence.end();
        let app = app.clone();
        async move {
            let mut request = request.map(axum::body::Body::new);
            if let Some(peer) = peer {
                request.extensions_mut().insert(axum::extract::ConnectInfo(peer));
            }
            Ok::<_, Infallible>(match app.oneshot(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            })
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_within)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let served = tokio::select! {
        biased;
        served = &mut connection => served,
        () = close.cancelled() => return,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        // A client that sends garbage or hangs up does not need a line in the operator's log.
        tracing::debug!(?peer, %error, "a connection ended");
    }
}

/// Tells a client that there are too many. It never waits for one that does not read.
async fn refuse_connection(mut stream: impl AsyncWrite + Unpin) {
    let reported = async {
        stream.write_all(FULL).await?;
        stream.shutdown().await
    };
    if let Ok(Err(error)) = tokio::time::timeout(TURN_AWAY_WITHIN, reported).await {
        tracing::debug!(%error, "a client was turned away");
    }
}

/// Makes small pieces of a stream leave at once, and a vanished other side be noticed.
fn prepare(stream: &TcpStream) {
    let set = || -> io::Result<()> {
        // Without it each small piece waits for the one before to be acknowledged.
        stream.set_nodelay(true)?;
        sockopt::set_socket_keepalive(stream, true)?;
        sockopt::set_tcp_keepidle(stream, PROBE_AFTER)?;
        sockopt::set_tcp_keepintvl(stream, PROBE_AFTER / 4)?;
        let untaken = u32::try_from(UNTAKEN_FOR.as_millis()).unwrap_or(u32::MAX);
        sockopt::set_tcp_user_timeout(stream, untaken)?;
        Ok(())
    };
    if let Err(error) = set() {
        tracing::debug!(%error, "a connection keeps its options");
    }
}

/// Reports whether an error of accepting is about one connection, not about all.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_one_too_many_is_as_long_as_it_says() {
        let text = std::str::from_utf8(FULL).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{}", body.len());
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["error"]["code"], "too_many_connections");
    }
}
