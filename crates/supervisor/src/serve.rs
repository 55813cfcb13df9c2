//! The supervisor's side of its socket.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinSet};

use crate::control::{self, OrderOutcome, SupervisorAnswer, SupervisorRequest};
use crate::slot::{OrderReply, SlotOrder};
use crate::state::{OrderResult, VERSION};
use crate::supervisor::{SupervisorState, WakeReason};

/// Connections that may be open without having sent their request. One more ends the oldest, so
/// that those that say nothing keep nobody out.
const MAX_SILENT: usize = 128;

/// Pause after a connection that could not be accepted, as when descriptors run out.
const AGAIN: Duration = Duration::from_millis(50);

/// A connection until its request is read.
struct UnreadConnection {
    has_asked: Arc<AtomicBool>,
    task: AbortHandle,
}

/// Answers requests for ever.
pub(crate) async fn serve(listener: UnixListener, shared: Arc<SupervisorState>) {
    let mut connections = JoinSet::new();
    let mut silent: VecDeque<UnreadConnection> = VecDeque::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(AGAIN).await;
                continue;
            }
        };
        while connections.try_join_next().is_some() {}
        silent.retain(|one| !one.task.is_finished() && !one.has_asked.load(Ordering::Acquire));
        if silent.len() >= MAX_SILENT
            && let Some(oldest) = silent.pop_front()
        {
            oldest.task.abort();
        }
        let has_asked = Arc::new(AtomicBool::new(false));
        let task = connections.spawn(converse(stream, Arc::clone(&shared), Arc::clone(&has_asked)));
        silent.push_back(UnreadConnection { has_asked, task });
    }
}

async fn converse(
    mut stream: UnixStream,
    shared: Arc<SupervisorState>,
    has_asked: Arc<AtomicBool>,
) {
    let request = control::receive(&mut stream).await;
    has_asked.store(true, Ordering::Release);
    let (answer, sent) = match request {
        Ok(request) => answer(&shared, request).await,
        Err(error) => (refused(&shared, &error.to_string()), None),
    };
    if let Err(error) = control::send(&mut stream, &answer).await {
        tracing::debug!(%error, "a client has not taken its answer");
    }
    if let Some(sent) = sent {
        // The supervisor waits for a while only.
        sent.send(()).ok();
    }
}

fn refused(shared: &SupervisorState, error: &str) -> SupervisorAnswer {
    SupervisorAnswer { error: Some(error.to_owned()), ..listed(shared, Some(&[])) }
}

fn listed(shared: &SupervisorState, names: Option<&[String]>) -> SupervisorAnswer {
    SupervisorAnswer {
        version: VERSION,
        holder: shared.holder.clone(),
        slots: shared.statuses(names),
        services: shared.services(),
        outcomes: Vec::new(),
        error: None,
    }
}

/// Returns the answer, and who is notified that it was sent.
async fn answer(
    shared: &SupervisorState,
    request: SupervisorRequest,
) -> (SupervisorAnswer, Option<oneshot::Sender<()>>) {
    let mut booted = shared.booted.clone();
    if !matches!(request, SupervisorRequest::List { .. })
        && booted.wait_for(|booted| *booted).await.is_err()
    {
        return (refused(shared, "the supervisor is ending"), None);
    }
    let answer = match request {
        SupervisorRequest::List { slots } => listed(shared, slots.as_deref()),
        SupervisorRequest::Start { slots } => order(shared, slots, SlotOrder::Start).await,
        SupervisorRequest::Stop { slots } => order(shared, slots, SlotOrder::Stop).await,
        SupervisorRequest::Restart { slots } => order(shared, slots, SlotOrder::Restart).await,
        SupervisorRequest::Reconcile => {
            reconcile(shared).await;
            listed(shared, None)
        }
        SupervisorRequest::Shutdown => {
            let (done, ended) = oneshot::channel();
            let (sent, passed_on) = oneshot::channel();
            if shared.wake.send(WakeReason::Shutdown(done, passed_on)).await.is_err() {
                return (refused(shared, "the supervisor is ending"), None);
            }
            let error = match ended.await {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error),
                Err(_) => Some("the supervisor is ending".to_owned()),
            };
            return (SupervisorAnswer { error, ..listed(shared, None) }, Some(sent));
        }
    };
    (answer, None)
}

async fn reconcile(shared: &SupervisorState) {
    let (done, reconciled) = oneshot::channel();
    if shared.wake.send(WakeReason::Reconcile(Some(done))).await.is_ok() {
        // An error means that the supervisor is ending; orders then say so.
        reconciled.await.ok();
    }
}

/// Gives an order to slots, to all at the same time.
async fn order(
    shared: &SupervisorState,
    slots: Option<Vec<String>>,
    order: impl Fn(OrderReply) -> SlotOrder,
) -> SupervisorAnswer {
    // A slot that is not known may have been made a moment ago.
    if slots.iter().flatten().any(|name| shared.orders(name).is_none()) {
        reconcile(shared).await;
    }
    let names = slots.unwrap_or_else(|| shared.names());
    let mut replies = Vec::new();
    for name in &names {
        let (done, reply) = oneshot::channel();
        let given = match shared.orders(name) {
            Some(orders) => orders.send(order(done)).await.map_err(|_| ending()),
            None => Err(format!("there is no slot {name:?}")),
        };
        replies.push(given.map(|()| reply));
    }
    let mut outcomes = Vec::new();
    for (name, reply) in names.iter().zip(replies) {
        let result: Result<OrderResult, String> = match reply {
            Ok(reply) => reply.await.unwrap_or_else(|_| Err(ending())),
            Err(error) => Err(error),
        };
        let (done, error) = match result {
            Ok(done) => (Some(done), None),
            Err(error) => (None, Some(error)),
        };
        outcomes.push(OrderOutcome { slot: name.clone(), done, error });
    }
    SupervisorAnswer { outcomes, ..listed(shared, Some(&names)) }
}

fn ending() -> String {
    "the slot is being removed".to_owned()
}
