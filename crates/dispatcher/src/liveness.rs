//! What can be seen of a worker's process from here.

use std::collections::HashMap;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::process::Child;
use tokio::sync::Notify;
use vestal_board::dispatch::Liveness;
use vestal_board::{HostId, Run, RunId, RunProcess};
use vestal_process::{ProcessId, ProcessSession};

use crate::launcher::marks;

/// How long the exit code of a worker is kept, at least.
const KEPT: Duration = Duration::from_mins(5);

/// A run, by board and number.
pub(crate) type RunKey = (String, RunId);

/// The state of a worker as its parent process knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChildState {
    /// It is not this process's child.
    NotOurs,
    /// It has not ended, or its exit code is not read yet.
    Running,
    /// It ended with this exit code.
    Ended(i32),
}

/// The workers that this process started.
#[derive(Debug, Clone, Default)]
pub(crate) struct WorkerProcesses {
    known: Arc<Mutex<HashMap<RunKey, (ChildState, Instant)>>>,
    ended: Arc<Notify>,
}

impl WorkerProcesses {
    /// Waits for a worker in the background and keeps its exit code.
    pub(crate) fn adopt(&self, key: RunKey, mut child: Child) {
        self.lock().insert(key.clone(), (ChildState::Running, Instant::now()));
        let children = self.clone();
        tokio::spawn(async move {
            match child.wait().await {
                Ok(status) => {
                    let ended = ChildState::Ended(code_of(status));
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

    /// Waits until a worker has ended since the last call.
    pub(crate) async fn ended(&self) {
        self.ended.notified().await;
    }

    /// Returns the state of a worker.
    pub(crate) fn state(&self, key: &RunKey) -> ChildState {
        self.lock().get(key).map_or(ChildState::NotOurs, |(known, _)| *known)
    }

    /// Forgets workers that ended a while ago and whose runs are over. A fast worker may end before
    /// its start is recorded.
    pub(crate) fn forget(&self, board: &str, live: &[RunId]) {
        self.lock().retain(|(slug, run), (known, since)| {
            slug != board
                || *known == ChildState::Running
                || since.elapsed() < KEPT
                || live.contains(run)
        });
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<RunKey, (ChildState, Instant)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns an exit code; 128 plus the signal for a killed process, as shells do.
pub(crate) fn code_of(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}

/// Returns whether a run's worker is alive, as far as this host can tell.
pub(crate) fn liveness(run: &Run, here: &HostId, own: ChildState) -> Liveness {
    let Some(host) = &run.host else { return Liveness::Person };
    let Some(process) = &run.process else {
        return if host == here { Liveness::Unknown } else { on_other_host(host, here) };
    };
    if process.host != *here {
        return on_other_host(&process.host, here);
    }
    match (own, id_of(process, here)) {
        // The exit code of a child arrives a moment after its end.
        (ChildState::Running, _) => Liveness::Alive,
        (ChildState::Ended(code), _) => Liveness::Gone { code: Some(code) },
        (ChildState::NotOurs, Some(id)) if id.is_alive() => Liveness::Alive,
        (ChildState::NotOurs, _) => Liveness::Gone { code: None },
    }
}

/// Returns whether a worker on another host is alive. The same host name with another boot id is
/// this host after a restart, so the worker is gone. The same boot id with another process namespace
/// is another container, which may share this one's name.
fn on_other_host(host: &HostId, here: &HostId) -> Liveness {
    let kernel = |host: &HostId| host.boot.split('/').next().map(str::to_owned);
    if host.name == here.name && kernel(host) != kernel(here) {
        Liveness::Gone { code: None }
    } else {
        Liveness::Foreign
    }
}

/// Returns the process session of a run's worker, if it is on this host.
pub(crate) fn session_of(run: &Run, here: &HostId) -> Option<ProcessSession> {
    let leader = id_of(run.process.as_ref()?, here)?;
    Some(ProcessSession { leader, marks: marks(&run.task_id, run.id) })
}

fn id_of(process: &RunProcess, here: &HostId) -> Option<ProcessId> {
    // A host's boot field is the kernel's boot id and the process namespace.
    let boot = process.host.boot.split('/').next()?.to_owned();
    (process.host == *here).then_some(ProcessId { pid: process.pid, start: process.start, boot })
}

#[cfg(test)]
mod tests {
    use vestal_board::HostName;

    use super::*;

    fn host(name: &str, boot: &str) -> HostId {
        HostId { name: HostName::new(name), boot: boot.to_owned() }
    }

    fn run(host: Option<HostId>, process: Option<RunProcess>) -> Run {
        let task = "t_0123456789ab".parse().unwrap();
        Run { id: RunId::new(1), host, process, gone: false, ..vestal_board::testing::run(&task) }
    }

    fn me(host: &HostId) -> RunProcess {
        let me = ProcessId::current().unwrap();
        RunProcess { host: host.clone(), pid: me.pid, start: me.start }
    }

    #[test]
    fn a_process_lives_only_if_number_start_and_host_agree() {
        let here = HostId::this(HostName::new("here")).unwrap();
        let alive = run(Some(here.clone()), Some(me(&here)));
        assert_eq!(liveness(&alive, &here, ChildState::NotOurs), Liveness::Alive);

        let reused = RunProcess { start: me(&here).start + 1, ..me(&here) };
        let impostor = run(Some(here.clone()), Some(reused));
        assert_eq!(liveness(&impostor, &here, ChildState::NotOurs), Liveness::Gone { code: None });
        assert!(session_of(&impostor, &here).unwrap().members().unwrap().is_empty());
    }

    #[test]
    fn a_container_of_the_same_name_is_another_host() {
        let here = HostId::this(HostName::new("here")).unwrap();
        let kernel = here.boot.split('/').next().unwrap();
        let container = host("here", &format!("{kernel}/1"));
        let run = run(Some(container.clone()), Some(me(&container)));
        assert_eq!(liveness(&run, &here, ChildState::NotOurs), Liveness::Foreign);
        assert_eq!(session_of(&run, &here), None);
    }

    #[test]
    fn what_ran_before_the_last_boot_is_gone() {
        let here = HostId::this(HostName::new("here")).unwrap();
        let before = host("here", "another-boot/1");
        let run = run(Some(before.clone()), Some(me(&before)));
        assert_eq!(liveness(&run, &here, ChildState::NotOurs), Liveness::Gone { code: None });
    }

    #[test]
    fn another_hosts_worker_is_foreign_and_a_persons_claim_has_none() {
        let here = HostId::this(HostName::new("here")).unwrap();
        let there = HostId { name: HostName::new("there"), ..here.clone() };
        assert_eq!(
            liveness(&run(Some(there.clone()), Some(me(&there))), &here, ChildState::NotOurs),
            Liveness::Foreign
        );
        assert_eq!(
            liveness(&run(Some(there), None), &here, ChildState::NotOurs),
            Liveness::Foreign
        );
        assert_eq!(
            liveness(&run(Some(here.clone()), None), &here, ChildState::NotOurs),
            Liveness::Unknown
        );
        assert_eq!(liveness(&run(None, None), &here, ChildState::NotOurs), Liveness::Person);
    }

    #[test]
    fn a_child_lives_until_its_exit_code_is_known() {
        let here = HostId::this(HostName::new("here")).unwrap();
        let gone = RunProcess { start: 1, ..me(&here) };
        let run = run(Some(here.clone()), Some(gone));
        assert_eq!(liveness(&run, &here, ChildState::Running), Liveness::Alive);
        assert_eq!(liveness(&run, &here, ChildState::Ended(75)), Liveness::Gone { code: Some(75) });
    }
}
