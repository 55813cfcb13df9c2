//! Keeps a server connected.

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rmcp::RoleClient;
use rmcp::model::PaginatedRequestParams;
use rmcp::service::Peer;
use tokio_util::sync::CancellationToken;

use super::{ConnectedServer, ServerConnection, ServerError, ServerPhase, lock};
use crate::connect::{DISCONNECT_TIMEOUT, Live, NotificationHandler, chain, connect, leave};
use crate::plan::ServerPlan;
use crate::tool::{Offered, is_odd};

/// The first wait before a server is tried again, and the longest.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// Failures in a row after which a server is left alone until it is wanted.
const GIVE_UP: u32 = 6;

/// Failures in a row after which its tools are no longer offered.
const WITHDRAW: u32 = 3;

/// A server that lived this long has not failed when it ends.
const LIVED: Duration = Duration::from_secs(10);

/// Changes of the tools that come close together are one.
const TOGETHER: Duration = Duration::from_millis(50);

/// How long a server that told of a change is not asked again.
const AGAIN: Duration = Duration::from_secs(1);

/// Keeps a server connected until the servers are being ended.
pub(crate) async fn keep(server: Arc<ConnectedServer>) {
    let cancel = server.shared.cancel.clone();
    let name = server.plan.name.clone();
    let mut attempts = 0;
    let mut failures = 0;
    let mut reported: Option<ServerError> = None;
    loop {
        // It looks after an end by itself: what it has started is to be ended, too.
        let attempt = reach(&server).await;
        if cancel.is_cancelled() {
            if let Ok((Live { running, remains, .. }, _)) = attempt {
                leave(running).await;
                remains.end().await;
            }
            return;
        }
        attempts += 1;
        let trouble = match attempt {
            Ok((live, tools)) => {
                if reported.take().is_some() {
                    server.shared.notify(format!("the MCP server {name} answers again"));
                }
                let began = Instant::now();
                let Some(trouble) = attend(&server, live, tools, attempts).await else { return };
                failures = if began.elapsed() >= LIVED { 1 } else { failures + 1 };
                server.shared.notify(format!("the MCP server {name} went away: {trouble}"));
                reported = Some(trouble.clone());
                trouble
            }
            Err(trouble) => {
                failures += 1;
                // A failure is reported once, with one reason.
                if reported.is_none() {
                    server
                        .shared
                        .notify(format!("the MCP server {name} cannot be used: {trouble}"));
                    reported = Some(trouble.clone());
                }
                trouble
            }
        };
        if failures >= WITHDRAW || !trouble.may_pass() {
            server.offer(Vec::new());
        }
        let may_pass = trouble.may_pass();
        server.phase.send_replace(ServerPhase::Down { trouble, attempts });
        if !may_pass {
            return cancel.cancelled().await;
        }
        let wait = FIRST_WAIT.saturating_mul(1 << failures.saturating_sub(1).min(10));
        tokio::select! {
            () = cancel.cancelled() => return,
            () = server.wanted.notified() => {}
            () = tokio::time::sleep(wait.min(LONGEST_WAIT)), if failures < GIVE_UP => {}
        }
        server.phase.send_replace(ServerPhase::Connecting { attempts });
    }
}

/// Connects and asks for the tools.
async fn reach(server: &ConnectedServer) -> Result<(Live, Vec<Offered>), ServerError> {
    let cancel = &server.shared.cancel;
    let live = connect(&server.plan, &server.shared.log, cancel).await?;
    let listed = tokio::select! {
        listed = list(&server.plan, live.running.peer()) => listed,
        () = cancel.cancelled() => Err(ServerError::Failed("the servers are being ended".to_owned())),
    };
    match listed {
        Ok(tools) => Ok((live, tools)),
        Err(trouble) => {
            let Live { running, mut remains, .. } = live;
            leave(running).await;
            let words = remains.end_details().await;
            remains.end().await;
            Err(trouble.with(&words).masked(server.shared.log.redactor()))
        }
    }
}

/// Has calls go over a connection until it ends, and returns why it did; or
/// nothing, if the servers are being ended.
async fn attend(
    server: &ConnectedServer,
    live: Live,
    tools: Vec<Offered>,
    attempts: u64,
) -> Option<ServerError> {
    let Live { running, listener, mut remains } = live;
    let connection = Arc::new(ServerConnection {
        peer: running.peer().clone(),
        watchers: Arc::clone(&listener.watchers),
        lost: CancellationToken::new(),
        why: std::sync::Mutex::default(),
    });
    server.offer(tools);
    server.phase.send_replace(ServerPhase::Up(Arc::clone(&connection)));
    let leave = running.cancellation_token();
    let mut ended = Box::pin(running.waiting());
    let end = tokio::select! {
        () = server.shared.cancel.cancelled() => ConnectionEnd::Unneeded,
        _ = &mut ended => ConnectionEnd::Over,
        () = remains.gone() => ConnectionEnd::Over,
        never = follow(server, &listener, &connection) => match never {},
    };
    // From now on it must not be taken for a connection.
    let going = ServerError::Failed("its connection has ended".to_owned());
    server.phase.send_replace(ServerPhase::Down { trouble: going, attempts });
    leave.cancel();
    let words = match end {
        ConnectionEnd::Unneeded => {
            // It has a session to end, if it has an address.
            drop(tokio::time::timeout(DISCONNECT_TIMEOUT, ended).await);
            String::new()
        }
        ConnectionEnd::Over => {
            drop(ended);
            remains.end_details().await
        }
    };
    let words = words.strip_prefix("; ").unwrap_or("its connection has ended").to_owned();
    lock(&connection.why).clone_from(&words);
    connection.lost.cancel();
    remains.end().await;
    match end {
        ConnectionEnd::Unneeded => None,
        ConnectionEnd::Over => Some(ServerError::Failed(words)),
    }
}

/// Why a connection is attended no longer.
enum ConnectionEnd {
    /// Nobody needs it any more.
    Unneeded,
    /// It was closed, or the program has ended.
    Over,
}

/// Asks for the tools whenever the server says that they have changed, but not
/// as often as it likes.
async fn follow(
    server: &ConnectedServer,
    listener: &NotificationHandler,
    connection: &ServerConnection,
) -> Infallible {
    loop {
        listener.changed.notified().await;
        tokio::time::sleep(TOGETHER).await;
        match list(&server.plan, &connection.peer).await {
            Ok(tools) => server.offer(tools),
            // If it is gone, that is reported as such.
            Err(error) => tracing::debug!(%error, server = %server.plan.name, "its tools"),
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Tools that one server may have, and lists they may come in.
const MOST_TOOLS: usize = 1000;
const MOST_PAGES: usize = 100;

/// Bytes of a tool's own name: it is kept, and sent with every call.
const LONGEST_NAME: usize = 1024;

/// Asks a server for all its tools, sorted by name; those whose name has to be
/// changed come last, for others have a better right to what it is changed to.
pub(crate) async fn list(
    plan: &ServerPlan,
    peer: &Peer<RoleClient>,
) -> Result<Vec<Offered>, ServerError> {
    let has_tools = peer.peer_info().is_none_or(|about| about.capabilities.tools.is_some());
    if !has_tools {
        return Ok(Vec::new());
    }
    let within: Duration = plan.connect_timeout;
    let asking = tokio::time::timeout(within, pages(plan, peer)).await;
    let late = || ServerError::Late { within, hint: " when asked for its tools".to_owned() };
    let mut tools = asking.map_err(|_| late())??;
    tools.sort_by(|a, b| (is_odd(&a.name), &a.name).cmp(&(is_odd(&b.name), &b.name)));
    tools.dedup_by(|a, b| a.name == b.name);
    Ok(tools)
}

async fn pages(plan: &ServerPlan, peer: &Peer<RoleClient>) -> Result<Vec<Offered>, ServerError> {
    let mut tools = Vec::new();
    let mut seen = HashSet::new();
    let mut cursor = None;
    for _ in 0..MOST_PAGES {
        let asked = PaginatedRequestParams::default().with_cursor(cursor);
        let page = peer.list_tools(Some(asked)).await.map_err(|error| {
            ServerError::Failed(format!("it did not list its tools: {}", chain(&error)))
        })?;
        let fits = |name: &str| (1..=LONGEST_NAME).contains(&name.len());
        let taken = page.tools.iter().filter(|tool| fits(&tool.name) && plan.takes(&tool.name));
        tools.extend(taken.map(Offered::new));
        // A list that comes back to where it was would never end.
        cursor = page.next_cursor.filter(|next| seen.insert(next.clone()));
        if cursor.is_none() || tools.len() >= MOST_TOOLS {
            break;
        }
    }
    tools.truncate(MOST_TOOLS);
    Ok(tools)
}
