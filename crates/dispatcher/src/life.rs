//! What can be seen of a worker from here.

use std::collections::HashMap;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::process::Child;
use tokio::sync::Notify;
use vestal_board::dispatch::Life;
use vestal_board::{Host, Process, Run, RunId};
use vestal_process::{ProcessId, Session};

use crate::environment::marks;

/// How long the exit code of a worker is kept at least.
const KEPT: Duration = Duration::from_mins(5);

/// A run of a board, by name and number.
pub(crate) type RunKey = (String, RunId);

/// What is known about a worker as its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parental {
    /// It is not this process's child.
    Stranger,
    /// It has not ended, or its exit code is about to come.
    Waiting,
    /// It ended with this exit code.
    Ended(i32),
}

/// The workers that this process started and waits for, each by itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct Children {
    known: Arc<Mutex<HashMap<RunKey, (Parental, Instant)>>>,
    ended: Arc<Notify>,
}

impl Children {
    /// Waits for a worker, and keeps its exit code.
    pub(crate) fn adopt(&self, key: RunKey, mut child: Child) {
        self.lock().insert(key.clone(), (Parental::Waiting, Instant::now()));
        let children = self.clone();
        tokio::spawn(async move {
            match child.wait().await {
                Ok(status) => {
                    let ended = Parental::Ended(code_of(status));
                    children.lock().insert(key, (ended, Instant::now()));
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot wait for a worker");
                    children.lock().remove(&key);
                }
            }
            children.ended.notify_one();
        });
    }

    /// Waits until one has ended since the last call.
    pub(crate) async fn ended(&self) {
        self.ended.notified().await;
    }

    /// Returns what is known about a worker.
    pub(crate) fn know(&self, key: &RunKey) -> Parental {
        self.lock().get(key).map_or(Parental::Stranger, |(known, _)| *known)
    }

    /// Forgets those that ended a while ago and that nobody asks about any more.
    /// A fast worker may have ended before its start is written down.
    pub(crate) fn forget(&self, board: &str, live: &[RunId]) {
        self.lock().retain(|(slug, run), (known, since)| {
            slug != board
                || *known == Parental::Waiting
                || since.elapsed() < KEPT
                || live.contains(run)
        });
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<RunKey, (Parental, Instant)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns an exit code; of a process that a signal ended 128 and the signal,
/// as shells do.
pub(crate) fn code_of(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}

/// Returns what can be seen of a run's worker.
pub(crate) fn life(run: &Run, here: &Host, own: Parental) -> Life {
    let Some(host) = &run.host else { return Life::Person };
    let Some(process) = &run.process else {
        return if host == here { Life::Unknown } else { abroad(host, here) };
    };
    if process.host != *here {
        return abroad(&process.host, here);
    }
    match (own, id_of(process, here)) {
        // The exit code of a child comes a moment after its end; until then it
        // is not known how it ended.
        (Parental::Waiting, _) => Life::Alive,
        (Parental::Ended(code), _) => Life::Gone { code: Some(code) },
        (Parental::Stranger, Some(id)) if id.is_alive() => Life::Alive,
        (Parental::Stranger, _) => Life::Gone { code: None },
    }
}

/// Returns what can be seen of a worker on another host. A host of this name
/// that was started anew is this one, and what ran on it is gone; but another
/// process namespace under the same kernel is another container, which may well
/// have this one's name.
fn abroad(host: &Host, here: &Host) -> Life {
    let kernel = |host: &Host| host.boot.split('/').next().map(str::to_owned);
    if host.name == here.name && kernel(host) != kernel(here) {
        Life::Gone { code: None }
    } else {
        Life::Foreign
    }
}

/// Returns the session of a run's worker, where it is one of this host's.
pub(crate) fn session_of(run: &Run, here: &Host) -> Option<Session> {
    let leader = id_of(run.process.as_ref()?, here)?;
    Some(Session { leader, marks: marks(&run.task_id, run.id) })
}

fn id_of(process: &Process, here: &Host) -> Option<ProcessId> {
    // The host's boot id is the kernel's and the process namespace.
    let boot = process.host.boot.split('/').next()?.to_owned();
    (process.host == *here).then_some(ProcessId { pid: process.pid, start: process.start, boot })
}

#[cfg(test)]
#[path = "life_tests.rs"]
mod tests;
