//! Connections: how many, how long they may take over a request, and how they end.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::response::{IntoResponse as _, Response};
use futures_util::FutureExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;
use vestal_runtime::panics::Contained;

use crate::body::paced;
use crate::error::PageError;
use crate::gate::PeerPolicy;

/// How long a client may take over the head of a request, and idle between two requests.
const HEAD_WITHIN: Duration = Duration::from_secs(30);

/// Connections at once. A browser takes six, of which one is a stream of events.
const MAX_CONNECTIONS: usize = 256;

/// Connections at once of one address that is one person's, so that nobody takes all of them.
const MAX_OF_ONE: usize = 64;

/// After so long without a sign of life of the other side, a connection is probed; and data that
/// is not taken for as long ends it.
const PROBE_AFTER: Duration = Duration::from_mins(1);
const UNTAKEN_FOR: Duration = Duration::from_mins(2);

/// How long accepting rests when the system has no descriptors left.
const REST: Duration = Duration::from_millis(100);

/// How long answers that were begun may take when the server stops.
const FINISH_WITHIN: Duration = Duration::from_secs(5);

/// Characters of a path that are logged.
const MAX_PATH: usize = 256;

/// Serves until `stop`, then lets what was begun be answered for a while.
pub(crate) async fn serve(
    listener: TcpListener,
    policy: PeerPolicy,
    app: Router,
    stop: CancellationToken,
) {
    let connections = TaskTracker::new();
    let addresses = ConnectionCounts::default();
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        // A slot first: clients that cannot be served wait in the system's queue, not in memory.
        let slot = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            slot = Arc::clone(&slots).acquire_owned() => slot,
        };
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let place = addresses.enter(peer.ip());
                if place.is_none() && !policy.is_shared(peer.ip()) {
                    // Dropped: it has more than its share.
                    continue;
                }
                prepare(&stream);
                let (app, stop) = (app.clone(), stop.clone());
                connections.spawn(async move {
                    serve_one(stream, peer, app, stop).await;
                    drop((slot, place));
                });
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "the dashboard cannot take connections");
                tokio::time::sleep(REST).await;
            }
        }
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(FINISH_WITHIN, connections.wait()).await.is_err() {
        tracing::debug!("connections were cut that did not end by themselves");
    }
}

/// How many connections each address has.
#[derive(Debug, Clone, Default)]
struct ConnectionCounts(Arc<Mutex<HashMap<IpAddr, usize>>>);

impl ConnectionCounts {
    /// Counts a connection until what is returned is dropped; nothing where there are too many.
    fn enter(&self, address: IpAddr) -> Option<AddressPlace> {
        let address = network_of(address);
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(address).or_insert(0);
        if *count >= MAX_OF_ONE {
            return None;
        }
        *count += 1;
        Some(AddressPlace { addresses: self.clone(), address })
    }
}

/// A connection that is counted.
#[derive(Debug)]
struct AddressPlace {
    addresses: ConnectionCounts,
    address: IpAddr,
}

impl Drop for AddressPlace {
    fn drop(&mut self) {
        let mut counts = self.addresses.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

/// Returns what counts as one client: an IPv4 address, or an IPv6 network, since a client with one
/// address of it has them all.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from(u128::from(v6) & (u128::MAX << 64))),
        IpAddr::V4(v4) => IpAddr::V4(v4),
    }
}

async fn serve_one(stream: TcpStream, peer: SocketAddr, app: Router, stop: CancellationToken) {
    let service = service_fn(move |request: Request<Incoming>| {
        let app = app.clone();
        async move { Ok::<_, Infallible>(answer(app, request, peer).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let served = tokio::select! {
        biased;
        served = &mut connection => served,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        // A client that sends garbage or hangs up does not need a line in the operator's log.
        tracing::debug!(%peer, %error, "a connection ended");
    }
}

/// Answers one request and logs it: never its query or its headers, which may hold a secret.
async fn answer(app: Router, request: Request<Incoming>, peer: SocketAddr) -> Response {
    let began = Instant::now();
    let method = request.method().clone();
    let path: String = request.uri().path().chars().take(MAX_PATH).collect();
    let mut request = request.map(|body| paced(Body::new(body)));
    request.extensions_mut().insert(ConnectInfo(peer));
    let answered = AssertUnwindSafe(Contained::new(app.oneshot(request))).catch_unwind().await;
    let response = match answered {
        Ok(Ok(response)) => response,
        Ok(Err(never)) => match never {},
        Err(_) => {
            tracing::error!(%method, path, "a request was not answered");
            PageError::internal("the dashboard has met a bug; its log says more").into_response()
        }
    };
    let (status, ms) = (response.status(), began.elapsed().as_millis());
    if status.is_server_error() {
        tracing::warn!(%method, path, status = status.as_u16(), %ms, %peer, "request");
    } else {
        tracing::debug!(%method, path, status = status.as_u16(), %ms, %peer, "request");
    }
    response
}

/// Makes small pieces of a stream leave at once, and a vanished other side be noticed.
fn prepare(stream: &TcpStream) {
    let set = || -> io::Result<()> {
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
    fn one_address_does_not_take_all_connections() {
        let addresses = ConnectionCounts::default();
        let one: IpAddr = "203.0.113.9".parse().unwrap();
        let mut places: Vec<_> = (0..MAX_OF_ONE).map(|_| addresses.enter(one).unwrap()).collect();
        assert!(addresses.enter(one).is_none());
        assert!(addresses.enter("::ffff:203.0.113.9".parse().unwrap()).is_none(), "it is the same");
        assert!(addresses.enter("203.0.113.10".parse().unwrap()).is_some());
        places.pop();
        places.push(addresses.enter(one).unwrap());
        drop(places);
        assert!(addresses.0.lock().unwrap().is_empty(), "nobody who has left is remembered");
        let network: Vec<_> = (0..MAX_OF_ONE)
            .map(|host| addresses.enter(format!("2001:db8::{host:x}").parse().unwrap()).unwrap())
            .collect();
        assert!(addresses.enter("2001:db8::ffff".parse().unwrap()).is_none(), "{}", network.len());
    }
}
