//! A task is taken, its worker reports, and it is given back.

use std::time::Duration;

use async_recursion::async_recursion as boxed;
use serde_json::json;
use vestal_config::ProfileName;

use super::transition::{Permit, TaskState, Transition, fenced, lost, record};
use super::{Moved, limits, machine, steps};
use crate::dispatch::FailurePolicy;
use crate::error::BoardRefusal;
use crate::event::Kind;
use crate::id::{Authority, Fence, HostId, RunId, TaskId};
use crate::run::{Outcome, Role, Run, RunProcess};
use crate::store::Write;
use crate::time::Time;
use crate::{Board, Result};

/// How a task is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// How long it is held without being renewed.
    pub lease: Duration,
    /// The profile that works on it; none: the caller does.
    pub profile: Option<ProfileName>,
    /// What for.
    pub role: Role,
    /// The host that starts a worker; none: no worker is started.
    pub host: Option<HostId>,
}

/// A sign of life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// How long the task is held from now on without another one.
    pub lease: Duration,
    /// Whether something was got done since the last one.
    pub activity: bool,
    /// What there is to say about it.
    pub note: Option<String>,
}

/// How a run ended that did not bring its task on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEnd {
    /// How: by a failure, or because the task was taken away.
    pub outcome: Outcome,
    /// In words.
    pub error: String,
    /// The exit code of its worker.
    pub exit_code: Option<i32>,
}

impl Board {
    /// Takes a task. The number of the run that is returned is what its holder
    /// has to show from now on.
    #[boxed]
    pub async fn claim(&self, by: &Authority, id: &TaskId, claim: Claim) -> Result<Run> {
        Permit::NoWorker("claim").check_caller(by, id)?;
        let mut tx = self.write().await?;
        let run = steps::claim_in(&mut *tx, by, id, &claim).await?;
        tx.commit().await?;
        Ok(run)
    }

    /// Writes down that the worker of a run was started, and where it works.
    ///
    /// If the task was taken away in the meantime the process is written down
    /// all the same, so that somebody sees to its end, and the answer is
    /// [`Error::Fenced`](crate::Error::Fenced): stop it.
    #[boxed]
    pub async fn started(&self, fence: &Fence, process: RunProcess, workspace: &str) -> Result<()> {
        let mut tx = self.write().await?;
        let held = fenced(&mut *tx, fence).await;
        let run = tx.run(fence.run).await?.filter(|run| run.task_id == fence.task);
        let Some(mut run) = run else {
            return held.map(drop);
        };
        // The dispatcher that started it and the worker itself may both record it; one of
        // them may have died before.
        if run.process.as_ref() == Some(&process) {
            return held.map(drop);
        }
        let payload = json!({
            "pid": process.pid, "host": process.host.name, "workspace": workspace
        });
        run.host = Some(process.host.clone());
        run.process = Some(process);
        run.workspace = Some(workspace.to_owned()).filter(|text| !text.is_empty());
        run.gone = false;
        tx.update_run(&run).await?;
        record(&mut *tx, &fence.task, Some(fence.run), Kind::Spawned, payload).await?;
        tx.commit().await?;
        held.map(drop)
    }

    /// Renews a worker's lease and returns until when. It is not an event: a worker
    /// that lives is not news.
    #[boxed]
    pub async fn heartbeat(&self, fence: &Fence, beat: Heartbeat) -> Result<Time> {
        let beat = beat.checked()?;
        let mut tx = self.write().await?;
        let run = held_run(&mut *tx, fence).await?;
        let expires_at = beat.renew(&mut *tx, run).await?;
        tx.commit().await?;
        Ok(expires_at)
    }

    /// Renews the hold on a task that was claimed by hand; returns the run and
    /// until when it holds the task. A worker's lease is refused: one that hangs
    /// must not be kept alive by somebody else's hand.
    #[boxed]
    pub async fn renew(
        &self,
        by: &Authority,
        id: &TaskId,
        beat: Heartbeat,
    ) -> Result<(RunId, Time)> {
        let verb = "renew the hold on";
        let beat = beat.checked()?;
        let Transition { mut tx, state, .. } = self.begin(by, Permit::NoWorker(verb), id).await?;
        let TaskState { task, run, .. } = state;
        let Some(run) = run else {
            return Err(BoardRefusal::Status { verb, task: task.id, status: task.status }.into());
        };
        let number = run.id;
        if run.host.is_some() {
            return Err(
                BoardRefusal::Held { verb, task: task.id, run: number, owner: run.owner }.into()
            );
        }
        let expires_at = beat.renew(&mut *tx, run).await?;
        tx.commit().await?;
        Ok((number, expires_at))
    }

    /// Writes down in which conversation a worker works: what it leaves behind
    /// in its sandbox is found by that, should it die.
    #[boxed]
    pub async fn run_session(&self, fence: &Fence, session: &str) -> Result<()> {
        let session = limits::name("the conversation", session)?;
        let mut tx = self.write().await?;
        let mut run = held_run(&mut *tx, fence).await?;
        run.session_id = Some(session);
        tx.update_run(&run).await?;
        tx.commit().await
    }

    /// Takes a task from its holder, whose worker has to be stopped. It can be taken
    /// up again at once.
    #[boxed]
    pub async fn reclaim(&self, by: &Authority, id: &TaskId, reason: &str) -> Result<Moved> {
        let reason = limits::optional_reason(reason)?;
        self.transition(by, Permit::NoWorker("reclaim"), id, |task, facts| {
            machine::reclaim(task, facts, &reason)
        })
        .await
    }

    /// Ends a run. Its task is tried again after a while, or given up. A run
    /// that has ended stays as it is.
    #[boxed]
    pub async fn end_run(&self, run: RunId, end: RunEnd, policy: &FailurePolicy) -> Result<Moved> {
        let mut tx = self.write().await?;
        let moved = steps::end_run_in(&mut *tx, run, &end, policy).await?;
        tx.commit().await?;
        Ok(moved)
    }

    /// Writes down that nothing is left of a run's worker.
    #[boxed]
    pub async fn run_gone(&self, run: RunId) -> Result<()> {
        let mut tx = self.write().await?;
        steps::gone_in(&mut *tx, run).await?;
        tx.commit().await
    }
}

impl Heartbeat {
    fn checked(self) -> Result<Self> {
        let note = self.note.as_deref().map(limits::optional_reason).transpose()?;
        Ok(Self { note, ..self })
    }

    /// Writes it down and returns until when the run holds its task.
    async fn renew(self, tx: &mut dyn Write, mut run: Run) -> Result<Time> {
        let now = tx.now();
        run.expires_at = now.after(self.lease);
        run.heartbeat_at = Some(now);
        run.graced = false;
        if self.activity || self.note.is_some() {
            run.activity_at = Some(now);
        }
        run.note = self.note.filter(|note| !note.is_empty()).or(run.note);
        tx.update_run(&run).await?;
        Ok(run.expires_at)
    }
}

/// Returns the run by which a worker holds its task.
async fn held_run(tx: &mut dyn Write, fence: &Fence) -> Result<Run> {
    fenced(tx, fence).await?;
    tx.run(fence.run).await?.ok_or_else(|| lost(fence, None))
}
