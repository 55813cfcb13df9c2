//! Deciding about one board, and writing the decision down.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::lock::{Held, HostLock};
use super::super::said::Said;
use super::Dispatcher;
use super::launching::Launching;
use super::stopping::{Stopping, is_tidy};
use super::surroundings::left_over;
use super::sweeping::Sweeping;
use crate::authority::Authority;
use crate::dispatch::{Bucket, DispatchResult, Life, Plan, Repair, Snapshot, View, Watched, plan};
use crate::error::Error;
use crate::failpoint;
use crate::id::{RunId, TaskId};
use crate::run::{Outcome, Run};
use crate::store::Write;
use crate::verbs::{Claim, RunEnd, steps};
use crate::{Board, Result};

/// How often a plan is made anew because somebody else was faster.
const ATTEMPTS: usize = 5;

/// What a pass decided.
#[derive(Debug, Default)]
pub(super) struct Pass {
    /// What it did so far, as far as it is decided.
    pub(super) result: DispatchResult,
    /// Workers to be started.
    pub(super) launches: Vec<Launching>,
    /// Workers to be stopped.
    pub(super) stops: Vec<Stopping>,
    /// Workers that are gone and may have left something in their sandbox.
    pub(super) sweeps: Vec<Sweeping>,
    /// Runs that ended, and what is to be said about them.
    pub(super) said: Vec<Said>,
    /// When to look again, at the latest.
    pub(super) next: Option<Duration>,
}

/// What is decided, and what it was decided on.
struct Decision {
    snapshot: Snapshot,
    plan: Plan,
}

impl Dispatcher {
    /// Decides what would be done, and does nothing.
    pub(super) async fn look(&self, board: &Board, all: &[Board]) -> Result<DispatchResult> {
        Ok(self.decide(board, all).await?.plan.result)
    }

    /// Decides what is to be done, and writes down that it is about to be. While
    /// another dispatcher of this host decides, nothing is done.
    pub(super) async fn pass(&self, board: &Board, all: &[Board], held: Held) -> Result<Pass> {
        let Some(_lock) = HostLock::take(&self.options().lock, held).await? else {
            let result = DispatchResult { skipped_locked: true, ..DispatchResult::default() };
            return Ok(Pass { result, ..Pass::default() });
        };
        for _ in 0..ATTEMPTS {
            let decision = self.decide(board, all).await?;
            let next = self.next_look(board, &decision.snapshot).await?;
            if let Some(mut pass) = self.write_down(board, decision).await? {
                pass.next = next;
                return Ok(pass);
            }
        }
        // Others are at it without a pause, so what is to be done gets done;
        // the next change is the time to look again.
        Ok(Pass { next: Some(Duration::ZERO), ..Pass::default() })
    }

    async fn decide(&self, board: &Board, all: &[Board]) -> Result<Decision> {
        let outside = self.outside(board, all).await?;
        let view = View {
            profiles: (self.options().profiles)(),
            outside: outside.load,
            busy_elsewhere: outside.busy,
            life: &|run| self.life(board, run),
        };
        let mut read = board.read().await?;
        let snapshot = Snapshot::take(&mut *read, self.policy(), view).await?;
        drop(read);
        let plan = plan(&snapshot, self.policy());
        Ok(Decision { snapshot, plan })
    }

    /// Returns how long nothing has to be looked at unless something changes.
    async fn next_look(&self, board: &Board, snapshot: &Snapshot) -> Result<Option<Duration>> {
        let mut read = board.read().await?;
        let now = read.now();
        let mut moments: Vec<_> = read.next_moment().await?.into_iter().collect();
        drop(read);
        for watched in &snapshot.runs {
            let run = &watched.run;
            if !run.is_open() {
                // Until then its worker may leave by itself.
                moments.extend((watched.life == Life::Alive).then_some(run.expires_at));
                continue;
            }
            moments.extend(run.max_runtime.map(|limit| run.started_at.after(limit)));
            let quiet_since = run.activity_at.map_or(run.started_at, |at| at.max(run.started_at));
            moments.extend(self.policy().stale_after.map(|limit| quiet_since.after(limit)));
        }
        let leaving = |watched: &&Watched| {
            !watched.run.is_open() && watched.life == Life::Alive && watched.run.expires_at > now
        };
        moments.extend(snapshot.runs.iter().filter(leaving).map(|watched| watched.run.expires_at));
        Ok(moments.into_iter().min().map(|moment| now.until(moment)))
    }

    /// Writes down what was decided, each step checked again. Returns nothing
    /// where somebody took a slot since, so that caps would not hold.
    async fn write_down(&self, board: &Board, decision: Decision) -> Result<Option<Pass>> {
        let Decision { snapshot, plan } = decision;
        for name in &plan.unknown_profiles {
            self.tell_once(Said::UnknownProfile { name: name.clone() });
        }
        let live: Vec<RunId> = snapshot.runs.iter().map(|watched| watched.run.id).collect();
        self.shared.children.forget(board.slug(), &live);
        let mut pass = Pass { result: plan.result, ..Pass::default() };
        let idle = plan.repairs.is_empty()
            && plan.wakes.is_empty()
            && plan.assigns.is_empty()
            && plan.starts.is_empty();
        if idle {
            return Ok(Some(pass));
        }

        let mended = plan.repairs.iter().filter(|repair| repair.frees()).map(Repair::run);
        let mended: BTreeSet<RunId> = mended.collect();
        let watched = |id: RunId| snapshot.runs.iter().find(|watched| watched.run.id == id);
        let left = left_over(board, mended.iter().filter_map(|id| watched(*id)).map(|w| &w.run));

        let by = Authority::Dispatcher(self.policy().host.name.clone());
        let mut tx = board.write().await?;
        if !plan.starts.is_empty() {
            let known: BTreeSet<RunId> = live.iter().copied().collect();
            if tx.live_runs().await?.iter().any(|run| !known.contains(&run.id)) {
                return Ok(None);
            }
        }
        for repair in &plan.repairs {
            let Some(watched) = watched(repair.run()) else { continue };
            let left = left.iter().any(|run| run.id == repair.run());
            self.mend(&mut *tx, board, repair, watched.run.clone(), watched.life, left, &mut pass)
                .await?;
        }
        let mut refused = BTreeSet::new();
        for id in &plan.wakes {
            if steps::wake_in(&mut *tx, &by, id).await?.is_none() {
                pass.result.promoted = pass.result.promoted.saturating_sub(1);
            }
        }
        if let Some(assignee) = &self.policy().default_assignee {
            for id in &plan.assigns {
                if steps::assign_default_in(&mut *tx, &by, id, assignee).await?.is_none() {
                    take(&mut pass.result.auto_assigned_default, id);
                }
            }
        }
        for start in &plan.starts {
            let claim = Claim {
                lease: self.policy().lease,
                profile: Some(start.profile.clone()),
                role: start.role,
                host: Some(self.policy().host.clone()),
            };
            match steps::claim_in(&mut *tx, &by, &start.task, &claim).await {
                Ok(run) => pass.launches.push(Launching {
                    board: board.clone(),
                    run,
                    profile: start.profile.clone(),
                }),
                // It is not what it was any more; the next plan sees that.
                Err(Error::Refused(_) | Error::NotFound { .. }) => {
                    refused.insert(start.task.clone());
                }
                Err(error) => return Err(error),
            }
        }
        tx.commit().await?;
        pass.result.spawned.entries.retain(|spawned| !refused.contains(&spawned.task_id));
        let refused = u64::try_from(refused.len()).unwrap_or(u64::MAX);
        pass.result.spawned.count = pass.result.spawned.count.saturating_sub(refused);
        if !pass.launches.is_empty() {
            failpoint::reach("dispatch.claimed");
        }
        if !pass.stops.is_empty() {
            failpoint::reach("dispatch.stop-intended");
        }
        Ok(Some(pass))
    }

    #[expect(clippy::too_many_arguments, reason = "what is known about one run")]
    async fn mend(
        &self,
        tx: &mut dyn Write,
        board: &Board,
        repair: &Repair,
        run: Run,
        life: Life,
        left: bool,
        pass: &mut Pass,
    ) -> Result<()> {
        // It may have ended, with proof, since the board was looked at; and what
        // this process is about to do with it is not done twice.
        let settled = tx.run(run.id).await?.is_none_or(|run| run.gone && !run.is_open());
        if settled || self.is_begun(board, run.id) {
            return Ok(());
        }
        let code = match life {
            Life::Gone { code } => code,
            Life::Unknown | Life::Alive | Life::Foreign | Life::Person => None,
        };
        match repair {
            Repair::Extend { run } => {
                steps::extend_in(tx, *run, self.policy().lease).await?;
            }
            Repair::Stop { outcome, reason, .. } => {
                self.intend(tx, board, run, *outcome, reason, pass).await?;
            }
            // Its leader is gone, but not all that it started.
            Repair::End { outcome, reason, .. } if left => {
                self.intend(tx, board, run, *outcome, reason, pass).await?;
            }
            Repair::Gone { .. } if left => {
                let outcome = run.outcome.unwrap_or(Outcome::Reclaimed);
                self.intend(tx, board, run, outcome, "its run has ended", pass).await?;
            }
            Repair::End { outcome, reason, .. } => {
                let end = RunEnd { outcome: *outcome, error: reason.clone(), exit_code: code };
                let moved = steps::end_run_in(tx, run.id, &end, &self.policy().failures).await?;
                match moved.ended {
                    Some(_) => pass.said.push(Said::Ended {
                        board: board.slug().to_owned(),
                        task: run.task_id.clone(),
                        outcome: *outcome,
                        reason: reason.clone(),
                    }),
                    None => forget(&mut pass.result, &run.task_id, *outcome),
                }
                if matches!(life, Life::Gone { .. }) {
                    self.sweep_later(board, run, pass);
                }
            }
            Repair::Gone { .. } => {
                let tidy = code.is_some_and(is_tidy);
                if let Some(outcome) = run.outcome.filter(|_| run.process.is_some()) {
                    let (board, task) = (board.slug().to_owned(), run.task_id.clone());
                    pass.said.push(Said::Finished { board, task, outcome });
                }
                if tidy || run.process.is_none() {
                    steps::gone_in(tx, run.id).await?;
                } else {
                    self.sweep_later(board, run, pass);
                }
            }
        }
        Ok(())
    }

    /// Has cleaned up what a worker left that is gone. Only then does its run
    /// count as gone, so that it is done even if this process dies before.
    fn sweep_later(&self, board: &Board, run: Run, pass: &mut Pass) {
        if run.process.is_some()
            && let Some(begun) = self.begin(board, run.id)
        {
            pass.sweeps.push(Sweeping { board: board.clone(), run, begun });
        }
    }

    /// Writes down that a worker is about to be stopped, unless this process is
    /// at it.
    async fn intend(
        &self,
        tx: &mut dyn Write,
        board: &Board,
        run: Run,
        outcome: Outcome,
        reason: &str,
        pass: &mut Pass,
    ) -> Result<()> {
        let Some(begun) = self.begin(board, run.id) else { return Ok(()) };
        if run.is_open() {
            steps::stop_in(tx, run.id, outcome).await?;
        }
        let reason = reason.to_owned();
        pass.stops.push(Stopping { board: board.clone(), run, outcome, reason, begun });
        Ok(())
    }
}

/// Takes out of a result what did not come about.
fn forget(result: &mut DispatchResult, task: &TaskId, outcome: Outcome) {
    match outcome {
        Outcome::Crashed => take(&mut result.crashed, task),
        Outcome::NoReport => take(&mut result.no_report, task),
        Outcome::TimedOut => take(&mut result.timed_out, task),
        Outcome::Stale => take(&mut result.stale, task),
        Outcome::RateLimited => take(&mut result.rate_limited, task),
        Outcome::Reclaimed => result.reclaimed = result.reclaimed.saturating_sub(1),
        Outcome::Completed
        | Outcome::Submitted
        | Outcome::ChangesRequested
        | Outcome::Blocked
        | Outcome::Scheduled
        | Outcome::SpawnFailed
        | Outcome::Terminated => {}
    }
    take(&mut result.auto_blocked, task);
}

fn take(bucket: &mut Bucket<TaskId>, task: &TaskId) {
    if let Some(at) = bucket.entries.iter().position(|entry| entry == task) {
        bucket.entries.remove(at);
        bucket.count = bucket.count.saturating_sub(1);
    }
}
