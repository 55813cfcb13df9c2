//! Requests that are under way: cancelled by their id, given credit, and written to.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use vestal_sandbox::JobId;
use vestal_sandbox::job::JobInput;

use super::limits::{MAX_WINDOW, REQUESTS};

/// The standard input of a command that a client waits for.
pub(super) type SharedInput = Arc<tokio::sync::Mutex<Option<JobInput>>>;

/// The requests of one connection that have no answer yet. Clones share them.
#[derive(Clone, Default)]
pub(super) struct RequestsUnderWay(Arc<Mutex<Requests>>);

impl fmt::Debug for RequestsUnderWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestsUnderWay")
            .field("count", &self.lock().count)
            .finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Requests {
    /// Those with an id, by its text.
    by_id: HashMap<String, Arc<RequestState>>,
    /// All of them.
    count: usize,
    inputs: HashMap<JobId, SharedInput>,
}

/// What others can do to a request.
#[derive(Debug)]
struct RequestState {
    cancelled: CancellationToken,
    /// Bytes of output that it may send.
    credit: Semaphore,
}

/// A request that is under way until this is dropped.
#[derive(Debug)]
pub(super) struct EnteredRequest {
    requests: RequestsUnderWay,
    key: Option<String>,
    /// Whether it is one of those that are counted.
    has_place: bool,
    /// What the client calls it; null for a notification.
    pub(super) id: Value,
    state: Arc<RequestState>,
}

/// Why a request does not begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotEntered {
    /// As many as there may be are under way.
    TooMany,
    /// Another one has its id.
    IdInUse,
}

impl RequestsUnderWay {
    /// Notes a request, which is cancelled when `gone` is.
    pub(super) fn enter(
        &self,
        id: Option<Value>,
        gone: &CancellationToken,
    ) -> Result<EnteredRequest, NotEntered> {
        let state =
            Arc::new(RequestState { cancelled: gone.child_token(), credit: Semaphore::new(0) });
        let key = id.as_ref().map(Value::to_string);
        let mut requests = self.lock();
        if requests.count >= REQUESTS {
            return Err(NotEntered::TooMany);
        }
        if let Some(key) = &key {
            match requests.by_id.entry(key.clone()) {
                Entry::Occupied(_) => return Err(NotEntered::IdInUse),
                Entry::Vacant(free) => drop(free.insert(Arc::clone(&state))),
            }
        }
        requests.count += 1;
        drop(requests);
        let id = id.unwrap_or(Value::Null);
        Ok(EnteredRequest { requests: self.clone(), key, id, has_place: true, state })
    }

    /// Returns a request that is over at once: it has no place, and nobody can cancel it.
    pub(super) fn pass(&self, id: Option<Value>) -> EnteredRequest {
        let credit = Semaphore::new(0);
        let state = Arc::new(RequestState { cancelled: CancellationToken::new(), credit });
        let id = id.unwrap_or(Value::Null);
        EnteredRequest { requests: self.clone(), key: None, id, has_place: false, state }
    }

    /// Cancels a request. Returns whether it is under way.
    pub(super) fn cancel(&self, id: &Value) -> bool {
        let found = self.lock().by_id.get(&id.to_string()).cloned();
        found.inspect(|state| state.cancelled.cancel()).is_some()
    }

    /// Lets a request send more output. Returns whether it is under way.
    pub(super) fn grant(&self, id: &Value, bytes: usize) -> bool {
        let found = self.lock().by_id.get(&id.to_string()).cloned();
        found.inspect(|state| state.grant(bytes)).is_some()
    }

    /// Returns the input of a command that a client of this connection waits for.
    pub(super) fn input(&self, job: &JobId) -> Option<SharedInput> {
        self.lock().inputs.get(job).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Requests> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RequestState {
    fn grant(&self, bytes: usize) {
        let room = MAX_WINDOW.saturating_sub(self.credit.available_permits());
        self.credit.add_permits(bytes.min(room));
    }
}

impl EnteredRequest {
    /// Returns when somebody has cancelled it, or the client is gone.
    pub(super) async fn cancelled(&self) {
        self.state.cancelled.cancelled().await;
    }

    pub(super) fn grant(&self, bytes: usize) {
        self.state.grant(bytes);
    }

    /// Lets another request have the id, because the answer is on its way.
    pub(super) fn release_id(&self) {
        let Some(key) = &self.key else { return };
        let mut requests = self.requests.lock();
        if requests.by_id.get(key).is_some_and(|state| Arc::ptr_eq(state, &self.state)) {
            requests.by_id.remove(key);
        }
    }

    /// Takes credit for at least one byte, at most `wanted`, and waits until there is some.
    pub(super) async fn take_credit(&self, wanted: usize) -> usize {
        let Ok(first) = self.state.credit.acquire().await else { return wanted };
        first.forget();
        let more = self.state.credit.available_permits().min(wanted.saturating_sub(1));
        // Only this request takes credit, so that what is there stays.
        1 + self.state.credit.forget_permits(more)
    }

    /// Has the client write to a command while it waits for it.
    pub(super) fn offer_input(&self, job: &JobId, input: JobInput) -> OfferedInput {
        let shared = Arc::new(tokio::sync::Mutex::new(Some(input)));
        self.requests.lock().inputs.insert(job.clone(), shared);
        OfferedInput { requests: self.requests.clone(), job: job.clone() }
    }
}

impl Drop for EnteredRequest {
    fn drop(&mut self) {
        self.release_id();
        if self.has_place {
            self.requests.lock().count -= 1;
        }
    }
}

/// An input that can be written to until this is dropped.
#[derive(Debug)]
pub(super) struct OfferedInput {
    requests: RequestsUnderWay,
    job: JobId,
}

impl Drop for OfferedInput {
    fn drop(&mut self) {
        self.requests.lock().inputs.remove(&self.job);
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_request_is_cancelled_by_its_own_id_only_and_an_id_counts_once() {
        let (requests, gone) = (RequestsUnderWay::default(), CancellationToken::new());
        let number = requests.enter(Some(json!(1)), &gone).unwrap();
        let text = requests.enter(Some(json!("1")), &gone).unwrap();
        let again = requests.enter(Some(json!(1)), &gone).unwrap_err();
        assert_eq!(again, NotEntered::IdInUse);
        assert!(requests.cancel(&json!("1")) && !requests.cancel(&json!(2)));
        text.cancelled().await;
        assert!(!number.state.cancelled.is_cancelled());
        drop(number);
        assert!(!requests.cancel(&json!(1)));
        requests.enter(Some(json!(1)), &gone).unwrap();
        gone.cancel();
    }

    #[tokio::test]
    async fn output_is_sent_as_far_as_it_was_granted() {
        let (requests, gone) = (RequestsUnderWay::default(), CancellationToken::new());
        let request = requests.enter(Some(json!(1)), &gone).unwrap();
        request.grant(10);
        assert_eq!(request.take_credit(4).await, 4);
        assert_eq!(request.take_credit(100).await, 6);
        let waiting = request.take_credit(100);
        tokio::pin!(waiting);
        let is_pending = poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx).is_pending())).await;
        assert!(is_pending);
        assert!(requests.grant(&json!(1), usize::MAX));
        assert_eq!(waiting.await, 100);
    }
}
