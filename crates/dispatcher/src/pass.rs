//! A pass: decide about boards, and record the decision.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::task::JoinSet;
use vestal_board::dispatch::{
    BoardSnapshot, Bucket, Caps, DispatchPlan, DispatchPolicy, DispatchResult, DispatchView,
    Liveness, Repair, WatchedRun, plan_together,
};
use vestal_board::store::Write;
use vestal_board::verbs::{Claim, RunEnd, steps};
use vestal_board::{Authority, Board, Error, Outcome, Result, Run, RunId, TaskId};

use crate::dispatcher::{DispatchEvent, Dispatcher};
use crate::failpoint;
use crate::load::{BoardLoads, left_over};
use crate::locks::{DispatchLock, IfHeld};
use crate::start::PendingStart;
use crate::stop::{PendingStop, PendingSweep, is_tidy};

/// How often a plan is made again because another dispatcher was faster.
const ATTEMPTS: usize = 5;

/// How long a pass waits for a board that others write to.
const BUSY: Duration = Duration::from_secs(2);

/// The decisions of a pass about one board.
#[derive(Debug, Default)]
pub(crate) struct Pass {
    /// The result so far.
    pub(crate) result: DispatchResult,
    /// Workers to be started.
    pub(crate) launches: Vec<PendingStart>,
    /// Workers to be stopped.
    pub(crate) stops: Vec<PendingStop>,
    /// Workers that are gone and may have left something in their sandbox.
    pub(crate) sweeps: Vec<PendingSweep>,
    /// Events to emit.
    pub(crate) events: Vec<DispatchEvent>,
    /// When to look again, at the latest.
    pub(crate) next: Option<Duration>,
}

/// A plan and the snapshot it is based on.
struct PlannedPass {
    snapshot: BoardSnapshot,
    plan: DispatchPlan,
}

impl Dispatcher {
    /// Plans only, for a dry run.
    pub(crate) async fn look(&self, board: &Board, all: &[Board]) -> Result<DispatchResult> {
        let decided = self.decide(&[board], all).await.pop();
        Ok(decided.transpose()?.map(|decision| decision.plan.result).unwrap_or_default())
    }

    /// Plans for some boards and records the plans. Returns the result for each board, in order.
    ///
    /// A board that cannot be written delays the others only for a moment.
    pub(crate) async fn pass(
        &self,
        boards: &[Board],
        all: &[Board],
        if_held: IfHeld,
    ) -> Result<Vec<Result<Pass>>> {
        let _lock = match DispatchLock::take(&self.options().lock, if_held).await? {
            DispatchLock::HeldByOther => {
                let skipped = || DispatchResult { skipped_locked: true, ..Default::default() };
                let skip = |_| Ok(Pass { result: skipped(), ..Pass::default() });
                return Ok(boards.iter().map(skip).collect());
            }
            lock @ (DispatchLock::Held { .. } | DispatchLock::Bypassed) => lock,
        };
        let mut passes: Vec<Option<Result<Pass>>> = boards.iter().map(|_| None).collect();
        for _ in 0..ATTEMPTS {
            let open = passes.iter().enumerate().filter(|(_, pass)| pass.is_none());
            let open: Vec<usize> = open.map(|(at, _)| at).collect();
            if open.is_empty() {
                break;
            }
            let undecided: Vec<&Board> = open.iter().filter_map(|at| boards.get(*at)).collect();
            let decisions = self.decide(&undecided, all).await;
            // Each board is a file of its own, so they are written in parallel.
            let mut writing = JoinSet::new();
            for ((at, board), decision) in open.into_iter().zip(undecided).zip(decisions) {
                let (dispatcher, board) = (self.clone(), board.clone());
                writing.spawn(async move {
                    let written = match decision {
                        Ok(decision) => dispatcher.settle(&board, decision).await.transpose(),
                        Err(error) => Some(Err(error)),
                    };
                    (at, written)
                });
            }
            while let Some(done) = writing.join_next().await {
                match done {
                    Ok((at, written)) => {
                        if let Some(pass) = passes.get_mut(at) {
                            *pass = written;
                        }
                    }
                    Err(error) => tracing::error!(%error, "a task of the dispatcher panicked"),
                }
            }
        }
        // Of those that are left, others are at it without a pause, so what is to
        // be done gets done; the next change is the time to look again.
        let later = || Ok(Pass { next: Some(Duration::ZERO), ..Pass::default() });
        let mut passes: Vec<Result<Pass>> =
            passes.into_iter().map(|pass| pass.unwrap_or_else(later)).collect();
        self.keep_caps(all, &mut passes).await;
        Ok(passes)
    }

    /// Plans for some boards together.
    async fn decide(&self, boards: &[&Board], all: &[Board]) -> Vec<Result<PlannedPass>> {
        let loads = self.loads(all).await;
        let policy = self.policy_with(loads.total().running_here);
        let profiles = (self.options().profiles)();
        let mut snapshots = Vec::new();
        for board in boards {
            snapshots.push(self.snapshot(board, &policy, &loads, &profiles).await);
        }
        let read: Vec<&BoardSnapshot> =
            snapshots.iter().filter_map(|snapshot| snapshot.as_ref().ok()).collect();
        let mut plans = plan_together(&read, &policy).into_iter();
        let mut decisions = Vec::new();
        for snapshot in snapshots {
            match snapshot {
                Ok(snapshot) => {
                    let plan = plans.next();
                    decisions.extend(plan.map(|plan| Ok(PlannedPass { snapshot, plan })));
                }
                Err(error) => decisions.push(Err(error)),
            }
        }
        decisions
    }

    async fn snapshot(
        &self,
        board: &Board,
        policy: &DispatchPolicy,
        loads: &BoardLoads,
        profiles: &BTreeSet<String>,
    ) -> Result<BoardSnapshot> {
        let (outside, busy_elsewhere) = loads.outside(board);
        let view = DispatchView {
            profiles: profiles.clone(),
            outside,
            busy_elsewhere,
            life: &|run| self.life(board, run),
        };
        let mut read = board.read().await?;
        BoardSnapshot::take(&mut *read, policy, view).await
    }

    /// Records the decision about a board. Returns `None` if it has to be planned again.
    async fn settle(&self, board: &Board, decision: PlannedPass) -> Result<Option<Pass>> {
        let next = self.next_look(board, &decision.snapshot).await?;
        let written = self.write_down(board, decision).await?;
        Ok(written.map(|pass| Pass { next, ..pass }))
    }

    /// Releases claims beyond the caps that boards share. Dispatchers that plan at the same moment
    /// for different boards may count on the same slot. The last one to write sees all claims, so no
    /// worker starts beyond a cap.
    async fn keep_caps(&self, all: &[Board], passes: &mut [Result<Pass>]) {
        let Caps { global, host, .. } = self.policy().caps;
        let mut claimed = passes.iter_mut().flatten().filter(|pass| !pass.launches.is_empty());
        if all.len() < 2 || (global.is_none() && host.is_none()) || claimed.next().is_none() {
            return;
        }
        let total = self.loads(all).await.total();
        let over =
            |cap: Option<u32>, count: u64| cap.map_or(0, |cap| count.saturating_sub(cap.into()));
        let excess = over(global, total.running).max(over(host, total.running_here));
        for _ in 0..excess {
            let largest = passes.iter_mut().flatten().max_by_key(|pass| pass.launches.len());
            let Some(pass) = largest else { return };
            let Some(pending) = pass.launches.pop() else { return };
            let task = &pending.run.task_id;
            pass.result.spawned.entries.retain(|spawned| spawned.task_id != *task);
            pass.result.spawned.count = pass.result.spawned.count.saturating_sub(1);
            let given = give_back(&pending.board, pending.run.id).await;
            if let Err(error) = given {
                // Its lease expires, and the task is ready again.
                self.emit_error(Some(pending.board.slug()), &error);
            }
        }
    }

    /// Returns after which time the board needs another pass even without a change.
    async fn next_look(&self, board: &Board, snapshot: &BoardSnapshot) -> Result<Option<Duration>> {
        let mut read = board.read().await?;
        let now = read.now();
        let mut moments: Vec<_> = read.next_moment().await?.into_iter().collect();
        drop(read);
        for watched in &snapshot.runs {
            let run = &watched.run;
            if !run.is_open() {
                // Until then its worker may exit by itself.
                let may_be_there = matches!(watched.life, Liveness::Alive | Liveness::Unknown);
                moments.extend(may_be_there.then_some(run.expires_at));
                continue;
            }
            moments.extend(run.max_runtime.map(|limit| run.started_at.after(limit)));
            let quiet_since = run.activity_at.map_or(run.started_at, |at| at.max(run.started_at));
            moments.extend(self.policy().stale_after.map(|limit| quiet_since.after(limit)));
        }
        let leaving = |watched: &&WatchedRun| {
            !watched.run.is_open()
                && watched.life == Liveness::Alive
                && watched.run.expires_at > now
        };
        moments.extend(snapshot.runs.iter().filter(leaving).map(|watched| watched.run.expires_at));
        Ok(moments.into_iter().min().map(|moment| now.until(moment)))
    }

    /// Records the plan in one transaction; each step checks its conditions again. Returns `None` if
    /// another dispatcher took a slot since, so that a cap would be exceeded.
    async fn write_down(&self, board: &Board, decision: PlannedPass) -> Result<Option<Pass>> {
        let PlannedPass { snapshot, plan } = decision;
        for name in &plan.unknown_profiles {
            self.emit_once(DispatchEvent::UnknownProfile { name: name.clone() });
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
        let mut tx = match tokio::time::timeout(BUSY, board.write()).await {
            Ok(tx) => tx?,
            Err(_) => {
                let path = board.dir().to_owned();
                return Err(vestal_database::Error::Contended { path, waited: BUSY }.into());
            }
        };
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
                Ok(run) => pass.launches.push(PendingStart {
                    board: board.clone(),
                    run,
                    profile: start.profile.clone(),
                }),
                // The task has changed; the next plan sees that.
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
        life: Liveness,
        left: bool,
        pass: &mut Pass,
    ) -> Result<()> {
        // The run may have ended since the snapshot, or this process may be stopping it already.
        let now = tx.run(run.id).await?.filter(|run| !run.gone || run.is_open());
        let Some(now) = now.filter(|_| !self.is_run_locked(board, run.id)) else { return Ok(()) };
        let code = match life {
            Liveness::Gone { code } => code,
            Liveness::Unknown | Liveness::Alive | Liveness::Foreign | Liveness::Person => None,
        };
        match repair {
            Repair::Extend { run } => {
                steps::extend_in(tx, *run, self.policy().lease).await?;
            }
            Repair::Stop { outcome, reason, .. } => {
                self.intend(tx, board, run, *outcome, reason, pass).await?;
            }
            // The worker is gone, but not all processes it started.
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
                    Some(_) => pass.events.push(DispatchEvent::Ended {
                        board: board.slug().to_owned(),
                        task: run.task_id.clone(),
                        outcome: *outcome,
                        reason: reason.clone(),
                    }),
                    None => {
                        forget(&mut pass.result, &run.task_id, *outcome);
                        // It reported and exited after the snapshot.
                        if matches!(life, Liveness::Gone { .. }) {
                            return self.leave(tx, board, now, code, pass).await;
                        }
                    }
                }
                if matches!(life, Liveness::Gone { .. }) {
                    self.sweep_later(board, run, pass);
                }
            }
            Repair::Gone { .. } => self.leave(tx, board, run, code, pass).await?,
        }
        Ok(())
    }

    /// Handles a worker that exited after its run had ended.
    async fn leave(
        &self,
        tx: &mut dyn Write,
        board: &Board,
        run: Run,
        code: Option<i32>,
        pass: &mut Pass,
    ) -> Result<()> {
        let tidy = code.is_some_and(is_tidy);
        if let Some(outcome) = run.outcome.filter(|_| run.process.is_some()) {
            let (board, task) = (board.slug().to_owned(), run.task_id.clone());
            pass.events.push(DispatchEvent::Finished { board, task, outcome });
        }
        if tidy || run.process.is_none() {
            steps::gone_in(tx, run.id).await?;
        } else {
            self.sweep_later(board, run, pass);
        }
        Ok(())
    }

    /// Plans a sweep. The run counts as gone only after that, so that the sweep happens even if this
    /// process dies first.
    fn sweep_later(&self, board: &Board, run: Run, pass: &mut Pass) {
        if run.process.is_some()
            && let Some(lock) = self.try_lock_run(board, run.id)
        {
            pass.sweeps.push(PendingSweep { board: board.clone(), run, lock });
        }
    }

    /// Records that a worker is about to be stopped, unless this process is doing so already.
    async fn intend(
        &self,
        tx: &mut dyn Write,
        board: &Board,
        run: Run,
        outcome: Outcome,
        reason: &str,
        pass: &mut Pass,
    ) -> Result<()> {
        let Some(lock) = self.try_lock_run(board, run.id) else { return Ok(()) };
        if run.is_open() {
            steps::stop_in(tx, run.id, outcome, reason).await?;
        }
        let reason = reason.to_owned();
        pass.stops.push(PendingStop { board: board.clone(), run, outcome, reason, lock });
        Ok(())
    }
}

async fn give_back(board: &Board, run: RunId) -> Result<()> {
    let mut tx = board.write().await?;
    steps::give_back_in(&mut *tx, run, "another board took the last slot").await?;
    tx.commit().await
}

/// Removes from a result what did not happen.
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
