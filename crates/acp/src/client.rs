//! The client: what it is told, and what it is asked.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::error::AcpError;
use crate::outbox::EditorOutbox;
use crate::protocol::{RequestId, SessionUpdate};

/// The client of one connection. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub(crate) struct EditorClient(Arc<ClientState>);

#[derive(Debug, Default)]
struct ClientState {
    outbox: EditorOutbox,
    next: AtomicI64,
    /// Requests that it has not answered yet.
    asked: Mutex<HashMap<i64, oneshot::Sender<Option<Value>>>>,
}

impl EditorClient {
    pub(crate) fn outbox(&self) -> &EditorOutbox {
        &self.0.outbox
    }

    /// Tells it something new in a session.
    pub(crate) fn update(&self, session: &Arc<str>, update: SessionUpdate) {
        self.0.outbox.push_update(session, update);
    }

    /// Answers a request of it. One that has no id is answered without.
    pub(crate) fn answer(&self, id: Option<&RequestId>, result: Result<Value, AcpError>) {
        let message = match result {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err(error) => json!({ "jsonrpc": "2.0", "id": id, "error": error }),
        };
        self.0.outbox.push(message.to_string());
    }

    /// Asks it something; none if it answers with an error or is gone.
    pub(crate) async fn ask(&self, method: &str, params: impl Serialize) -> Option<Value> {
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        let (reply, answer) = oneshot::channel();
        self.asked().insert(number, reply);
        let _forget = ForgetOnDrop { client: self, number };
        let message = json!({ "jsonrpc": "2.0", "id": number, "method": method, "params": params });
        self.0.outbox.push(message.to_string());
        if self.0.outbox.is_closed() {
            return None;
        }
        answer.await.ok().flatten()
    }

    /// Takes an answer of it. One that nobody waits for is nothing.
    pub(crate) fn answered(&self, id: &RequestId, result: Option<Value>) {
        let RequestId::Number(number) = id else { return };
        if let Some(reply) = self.asked().remove(number) {
            // The caller may have given up.
            reply.send(result).ok();
        }
    }

    /// Answers everything that it was asked: it is gone.
    pub(crate) fn gone(&self) {
        self.asked().clear();
    }

    fn asked(&self) -> MutexGuard<'_, HashMap<i64, oneshot::Sender<Option<Value>>>> {
        self.0.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct ForgetOnDrop<'a> {
    client: &'a EditorClient,
    number: i64,
}

impl Drop for ForgetOnDrop<'_> {
    fn drop(&mut self) {
        self.client.asked().remove(&self.number);
    }
}
