//! The events of a run as readers get them: the newest from memory, all others from the store.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use vestal_runtime::RemoteHuman;

use crate::store::{GatewayStore, RunRecord, RunStatus, StoreResult, StoredEvent};

/// Events of a run in progress that are kept in memory for its readers.
const TAIL_EVENTS: usize = 512;

/// How much these may be.
const TAIL_BYTES: usize = 256 << 10;

/// Events that a reader takes at once.
const PAGE: u32 = 256;

/// A run in progress.
pub(super) struct LiveRun {
    pub(super) key: i64,
    /// The conversation that it is a turn of.
    pub(super) session: String,
    /// Cancelled when it is to end.
    pub(super) stop: CancellationToken,
    pub(super) human: Arc<RemoteHuman>,
    tail: Mutex<EventTail>,
    /// The number of its last event, and whether that is the last that comes.
    position: watch::Sender<EventPosition>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct EventPosition {
    last: i64,
    is_ended: bool,
}

/// The newest events of a run.
#[derive(Debug, Default)]
struct EventTail {
    events: VecDeque<StoredEvent>,
    bytes: usize,
}

impl LiveRun {
    pub(super) fn new(record: &RunRecord, human: Arc<RemoteHuman>) -> Self {
        let position = EventPosition { last: record.last_event, is_ended: false };
        Self {
            key: record.key,
            session: record.session.clone(),
            stop: CancellationToken::new(),
            human,
            tail: Mutex::default(),
            position: watch::Sender::new(position),
        }
    }

    /// Tells readers that nothing more comes from this process.
    pub(super) fn close(&self) {
        self.publish(Vec::new(), true);
    }

    /// Shows stored events to readers.
    pub(super) fn publish(&self, events: Vec<StoredEvent>, is_ended: bool) {
        let last = events.last().map(|event| event.seq);
        {
            let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
            for event in events {
                tail.bytes += event.bytes();
                tail.events.push_back(event);
            }
            while tail.events.len() > TAIL_EVENTS || tail.bytes > TAIL_BYTES {
                let Some(gone) = tail.events.pop_front() else { break };
                tail.bytes -= gone.bytes();
            }
        }
        self.position.send_modify(|position| {
            position.last = last.unwrap_or(position.last);
            position.is_ended |= is_ended;
        });
    }

    /// Returns the events after a number, if all of them are in memory.
    fn after(&self, cursor: i64) -> Option<Vec<StoredEvent>> {
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let first = tail.events.front()?.seq;
        (first <= cursor.saturating_add(1))
            .then(|| tail.events.iter().filter(|event| event.seq > cursor).cloned().collect())
    }
}

impl std::fmt::Debug for LiveRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveRun").field("key", &self.key).finish_non_exhaustive()
    }
}

/// Returns a run as clients may see it. That it has ended is stored a moment before its session can be
/// continued, and told after that.
pub(super) fn record_as_shown(record: RunRecord, live: Option<&LiveRun>) -> RunRecord {
    let Some(position) = live.map(|live| *live.position.borrow()) else { return record };
    if position.is_ended || record.ended_at.is_none() {
        return record;
    }
    RunRecord {
        status: RunStatus::Running,
        ended_at: None,
        output: None,
        error: None,
        last_event: position.last,
        ..record
    }
}

/// Reads the events of a run in order, from the store and, while it is in progress, as they come.
/// A slow reader costs nothing: it reads where it is.
#[derive(Debug)]
pub(crate) struct EventReader {
    key: i64,
    store: GatewayStore,
    live: Option<Arc<LiveRun>>,
    position: Option<watch::Receiver<EventPosition>>,
    cursor: i64,
    ready: VecDeque<StoredEvent>,
}

impl EventReader {
    /// Returns a reader of the events after the one with this number. `live` is the run if it is in
    /// progress.
    pub(super) fn new(
        key: i64,
        store: GatewayStore,
        live: Option<Arc<LiveRun>>,
        after: i64,
    ) -> Self {
        let position = live.as_ref().map(|live| live.position.subscribe());
        Self { key, store, live, position, cursor: after.max(0), ready: VecDeque::new() }
    }

    /// Waits for the next event; nothing after the last.
    pub(crate) async fn next(&mut self) -> StoreResult<Option<StoredEvent>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.cursor = event.seq;
                return Ok(Some(event));
            }
            let position = self.position.as_mut().map(|position| *position.borrow_and_update());
            if position.is_none_or(|position| position.last > self.cursor) {
                let recent = self.live.as_ref().and_then(|live| live.after(self.cursor));
                self.ready = match recent {
                    Some(events) => events.into(),
                    None => self.store.events(self.key, self.cursor, PAGE).await?.into(),
                };
                // What is stored is shown when it is published, which may be later.
                let last = position.map_or(i64::MAX, |position| position.last);
                self.ready.retain(|event| event.seq <= last);
                if !self.ready.is_empty() {
                    continue;
                }
            }
            match (&mut self.position, position) {
                (Some(_), Some(EventPosition { is_ended: true, .. })) | (None, _) | (_, None) => {
                    return Ok(None);
                }
                (Some(changes), Some(_)) => {
                    if changes.changed().await.is_err() {
                        return Ok(None);
                    }
                }
            }
        }
    }
}
