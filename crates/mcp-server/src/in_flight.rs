//! Calls over HTTP that are under way. Each request there is a conversation of its own, so the one
//! that cancels another finds it here, by the session that both name and the id of the request.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::RequestId;
use tokio_util::sync::CancellationToken;

/// Who called what.
pub(crate) type CallKey = (String, RequestId);

/// The calls. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct CallsInFlight(Arc<Mutex<HashMap<CallKey, CancellationToken>>>);

/// A call that is under way until this is dropped.
#[derive(Debug)]
pub(crate) struct EnteredCall {
    calls: CallsInFlight,
    /// None for a call whose key another one has.
    key: Option<CallKey>,
    cancelled: CancellationToken,
}

impl CallsInFlight {
    /// Notes a call. One whose key another call has cannot be cancelled by it.
    pub(crate) fn enter(&self, key: CallKey) -> EnteredCall {
        let cancelled = CancellationToken::new();
        let key = match self.lock().entry(key) {
            Entry::Occupied(_) => None,
            Entry::Vacant(free) => {
                let key = free.key().clone();
                free.insert(cancelled.clone());
                Some(key)
            }
        };
        EnteredCall { calls: self.clone(), key, cancelled }
    }

    /// Cancels a call, if it is under way.
    pub(crate) fn cancel(&self, key: &CallKey) {
        if let Some(call) = self.lock().get(key) {
            call.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<CallKey, CancellationToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EnteredCall {
    /// Returns when somebody has cancelled it.
    pub(crate) async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }
}

impl Drop for EnteredCall {
    fn drop(&mut self) {
        if let Some(key) = &self.key {
            self.calls.lock().remove(key);
        }
    }
}
