//! What happened on a server, and the gate that tests open.

use std::fs::File;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, watch};

use crate::request::ReceivedRequest;

/// How often things have happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) connections: usize,
    pub(crate) requests: usize,
    pub(crate) holds: usize,
    pub(crate) answers: usize,
    pub(crate) hangups: usize,
}

/// The record of a server.
pub(crate) struct RequestJournal {
    requests: Mutex<Vec<ReceivedRequest>>,
    other: Mutex<Vec<ReceivedRequest>>,
    counts: watch::Sender<Counts>,
    gate: Semaphore,
    keeps_bodies: bool,
    log: Option<Mutex<File>>,
}

/// Locks even after another thread panicked: the data is a list, and the panic
/// is reported where it happened.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RequestJournal {
    pub(crate) fn new(keeps_bodies: bool, log: Option<File>) -> Self {
        Self {
            requests: Mutex::default(),
            other: Mutex::default(),
            counts: watch::Sender::default(),
            gate: Semaphore::new(0),
            keeps_bodies,
            log: log.map(Mutex::new),
        }
    }

    pub(crate) fn connected(&self) {
        self.counts.send_modify(|counts| counts.connections += 1);
    }

    /// Records a request for a model's answer and returns its number, from 1.
    pub(crate) fn asked(&self, request: &ReceivedRequest) -> usize {
        self.write_log(request);
        let number = self.keep(&self.requests, request);
        self.counts.send_modify(|counts| counts.requests = counts.requests.max(number));
        number
    }

    /// Records any other request.
    pub(crate) fn visited(&self, request: &ReceivedRequest) {
        self.write_log(request);
        self.keep(&self.other, request);
    }

    fn keep(&self, list: &Mutex<Vec<ReceivedRequest>>, request: &ReceivedRequest) -> usize {
        let kept = if self.keeps_bodies {
            request.clone()
        } else {
            ReceivedRequest {
                method: request.method.clone(),
                path: request.path.clone(),
                headers: request.headers.clone(),
                body: serde_json::Value::Null,
                body_bytes: request.body_bytes,
                peer: request.peer,
            }
        };
        let mut list = lock(list);
        list.push(kept);
        list.len()
    }

    fn write_log(&self, request: &ReceivedRequest) {
        let Some(log) = &self.log else { return };
        // A log that cannot be written must not change what the model says;
        // the line is missing in the log.
        lock(log).write_all(request.log_line().as_bytes()).ok();
    }

    pub(crate) fn requests(&self) -> Vec<ReceivedRequest> {
        lock(&self.requests).clone()
    }

    pub(crate) fn other_requests(&self) -> Vec<ReceivedRequest> {
        lock(&self.other).clone()
    }

    pub(crate) fn counts(&self) -> Counts {
        *self.counts.borrow()
    }

    /// Waits until the counts are as wanted.
    pub(crate) async fn until(&self, wanted: impl FnMut(&Counts) -> bool) {
        // The sender lives in `self`, so the channel cannot close meanwhile.
        self.counts.subscribe().wait_for(wanted).await.ok();
    }

    /// Waits for the gate, which lets one through per release.
    pub(crate) async fn hold(&self) {
        self.counts.send_modify(|counts| counts.holds += 1);
        if let Ok(permit) = self.gate.acquire().await {
            permit.forget();
        }
    }

    pub(crate) fn release(&self, count: usize) {
        self.gate.add_permits(count);
    }
}

/// An answer that is being given. Dropped before it is done, it means that the
/// client went away.
pub(crate) struct UnfinishedAnswer {
    journal: Arc<RequestJournal>,
    done: bool,
}

impl UnfinishedAnswer {
    pub(crate) fn watch(journal: Arc<RequestJournal>) -> Self {
        Self { journal, done: false }
    }

    /// Says that everything was sent that was to be sent.
    pub(crate) fn done(&mut self) {
        if !self.done {
            self.done = true;
            self.journal.counts.send_modify(|counts| counts.answers += 1);
        }
    }
}

impl Drop for UnfinishedAnswer {
    fn drop(&mut self) {
        if !self.done {
            self.journal.counts.send_modify(|counts| counts.hangups += 1);
        }
    }
}
