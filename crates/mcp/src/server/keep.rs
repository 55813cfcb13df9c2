//! Keeps a server connected.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::{Connection, Phase, Server, list, lock};
use crate::client::Listener;
use crate::connect::{FAREWELL, Live, connect, leave};
use crate::tool::Offered;
use crate::trouble::Trouble;

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

/// Keeps a server connected until nobody needs it any more.
pub(crate) async fn keep(server: Arc<Server>) {
    let cancel = server.shared.cancel.clone();
    let name = server.plan.name.clone();
    let mut attempts = 0;
    let mut failures = 0;
    let mut told: Option<Trouble> = None;
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
                if told.take().is_some() {
                    server.shared.tell(format!("the MCP server {name} answers again"));
                }
                let began = Instant::now();
                let Some(trouble) = attend(&server, live, tools, attempts).await else { return };
                failures = if began.elapsed() >= LIVED { 1 } else { failures + 1 };
                server.shared.tell(format!("the MCP server {name} went away: {trouble}"));
                told = Some(trouble.clone());
                trouble
            }
            Err(trouble) => {
                failures += 1;
                // The same again is no news, nor are two reasons for one failure.
                if told.is_none() {
                    server.shared.tell(format!("the MCP server {name} cannot be used: {trouble}"));
                    told = Some(trouble.clone());
                }
                trouble
            }
        };
        if failures >= WITHDRAW || !trouble.may_pass() {
            server.offer(Vec::new());
        }
        let may_pass = trouble.may_pass();
        server.phase.send_replace(Phase::Down { trouble, attempts });
        if !may_pass {
            return cancel.cancelled().await;
        }
        let wait = FIRST_WAIT.saturating_mul(1 << failures.saturating_sub(1).min(10));
        tokio::select! {
            () = cancel.cancelled() => return,
            () = server.wanted.notified() => {}
            () = tokio::time::sleep(wait.min(LONGEST_WAIT)), if failures < GIVE_UP => {}
        }
        server.phase.send_replace(Phase::Connecting { attempts });
    }
}

/// Connects and asks for the tools.
async fn reach(server: &Server) -> Result<(Live, Vec<Offered>), Trouble> {
    let cancel = &server.shared.cancel;
    let live = connect(&server.plan, &server.shared.log, cancel).await?;
    let listed = tokio::select! {
        listed = list(&server.plan, live.running.peer()) => listed,
        () = cancel.cancelled() => Err(Trouble::Failed("nobody needs it any more".to_owned())),
    };
    match listed {
        Ok(tools) => Ok((live, tools)),
        Err(trouble) => {
            let Live { running, mut remains, .. } = live;
            leave(running).await;
            let words = remains.last_words().await;
            remains.end().await;
            Err(trouble.with(&words).masked(server.shared.log.redactor()))
        }
    }
}

/// Has calls go over a connection until it ends, and returns why it did; or
/// nothing, if nobody needs it any more.
async fn attend(
    server: &Server,
    live: Live,
    tools: Vec<Offered>,
    attempts: u64,
) -> Option<Trouble> {
    let Live { running, listener, mut remains } = live;
    let connection = Arc::new(Connection {
        peer: running.peer().clone(),
        watchers: Arc::clone(&listener.watchers),
        lost: CancellationToken::new(),
        why: std::sync::Mutex::default(),
    });
    server.offer(tools);
    server.phase.send_replace(Phase::Up(Arc::clone(&connection)));
    let leave = running.cancellation_token();
    let mut ended = Box::pin(running.waiting());
    let end = tokio::select! {
        () = server.shared.cancel.cancelled() => End::Unneeded,
        _ = &mut ended => End::Over,
        () = remains.gone() => End::Over,
        never = follow(server, &listener, &connection) => match never {},
    };
    // Whoever looks now must not take it for a connection any more.
    let going = Trouble::Failed("its connection has ended".to_owned());
    server.phase.send_replace(Phase::Down { trouble: going, attempts });
    leave.cancel();
    let words = match end {
        End::Unneeded => {
            // It has a session to end, if it has an address.
            drop(tokio::time::timeout(FAREWELL, ended).await);
            String::new()
        }
        End::Over => {
            drop(ended);
            remains.last_words().await
        }
    };
    let words = words.strip_prefix("; ").unwrap_or("its connection has ended").to_owned();
    lock(&connection.why).clone_from(&words);
    connection.lost.cancel();
    remains.end().await;
    match end {
        End::Unneeded => None,
        End::Over => Some(Trouble::Failed(words)),
    }
}

/// Why a connection is attended no longer.
enum End {
    /// Nobody needs it any more.
    Unneeded,
    /// It was closed, or the program has ended.
    Over,
}

/// Asks for the tools whenever the server says that they have changed, but not
/// as often as it likes.
async fn follow(server: &Server, listener: &Listener, connection: &Connection) -> Infallible {
    loop {
        listener.changed.notified().await;
        tokio::time::sleep(TOGETHER).await;
        match list(&server.plan, &connection.peer).await {
            Ok(tools) => server.offer(tools),
            // If it is gone, that is told as such.
            Err(error) => tracing::debug!(%error, server = %server.plan.name, "its tools"),
        }
        tokio::time::sleep(AGAIN).await;
    }
}
