//! The turns that a gateway runs.

mod admission;
mod handle;
mod job_news;
mod resume;
mod running;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio_util::sync::CancellationToken;
use vestal_conversations::{ConversationId, ConversationStore};
use vestal_runtime::{IdleMemory, Runtime};

use admission::{Activity, WorkAdmission};
pub(crate) use admission::{Drained, TurnRefused};
pub(crate) use handle::{PreparedTurn, StartedTurn, TurnRequest};
pub(crate) use resume::Resumption;

#[cfg(test)]
pub(crate) use running::answered_for_tests;

/// Runs turns. Cheap to clone; clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct Turns(Arc<TurnsState>);

#[derive(Debug)]
struct TurnsState {
    runtime: Runtime,
    admission: WorkAdmission,
    memory: IdleMemory,
    /// How many were ever begun.
    begun: AtomicU64,
    /// Waiters for news of background jobs, by conversation: a number and what ends it.
    watching: Mutex<HashMap<ConversationId, (u64, CancellationToken)>>,
}

impl Turns {
    /// Returns turns of this agent, within a runtime.
    pub(crate) fn new(runtime: Runtime, limit: usize) -> Self {
        let admission = WorkAdmission::new(limit);
        let activity = admission.activity();
        Self(Arc::new(TurnsState {
            runtime,
            admission,
            memory: IdleMemory::start(move || *activity.borrow() != Activity::default()),
            begun: AtomicU64::new(0),
            watching: Mutex::default(),
        }))
    }

    /// Returns the agent that they are turns of.
    pub(crate) fn runtime(&self) -> &Runtime {
        &self.0.runtime
    }

    pub(crate) fn store(&self) -> &ConversationStore {
        self.0.runtime.agent().store()
    }

    /// Returns what gives memory back while there is no work.
    pub(crate) fn memory(&self) -> &IdleMemory {
        &self.0.memory
    }

    fn admission(&self) -> &WorkAdmission {
        &self.0.admission
    }

    fn next_number(&self) -> u64 {
        self.0.begun.fetch_add(1, Ordering::Relaxed)
    }
}
