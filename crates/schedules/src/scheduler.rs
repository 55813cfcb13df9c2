//! Runs what is due: waits for the next moment, claims it, has it carried out, records the result.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use async_trait::async_trait;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tracing::Instrument as _;

use crate::clock::Clock;
use crate::run::{Delivered, RunOutcome, RunOwner, RunReport, ScheduleRun, ScheduleRunId};
use crate::schedule::Schedule;
use crate::store::{ScheduleStore, Taken};
use crate::wake::FileWatch;
use crate::{Error, Result};

/// The longest sleep: a machine that was suspended, or whose clock was set, is noticed within it.
const LONGEST_SLEEP: Duration = Duration::from_mins(1);

/// The shortest one, so that no fault becomes a busy loop.
const SHORTEST_SLEEP: Duration = Duration::from_millis(10);

/// The pause after a failure of the store.
const AFTER_FAILURE: Duration = Duration::from_secs(5);

/// How long a run that was interrupted may take to end.
const INTERRUPTED_WITHIN: Duration = Duration::from_secs(30);

/// How long a delivery waits whose conversation is in use.
const DELIVER_AGAIN: Duration = Duration::from_secs(30);

/// Tries to record the end of a run once nobody is to wait for it any more.
const LAST_TRIES: u32 = 6;

/// The first and the longest pause between tries to record the end of a run.
const RECORD_PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(30));

/// What a due run does. The scheduler knows when; this knows what.
#[async_trait]
pub trait Executor: Send + Sync + 'static {
    /// Carries a run out. When `stop` is cancelled it interrupts what it does and returns soon.
    async fn execute(&self, job: RunJob, stop: CancellationToken) -> RunReport;

    /// Delivers what a run said to where its schedule says.
    async fn deliver(
        &self,
        schedule: &Schedule,
        run: &ScheduleRun,
    ) -> std::result::Result<(), DeliveryError>;
}

/// Why an output was not delivered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeliveryError {
    /// Nothing was sent; it is tried again.
    #[error("{0}")]
    Busy(String),
    /// It is not tried again.
    #[error("{0}")]
    Failed(String),
}

/// A run to be carried out.
#[derive(Debug)]
pub struct RunJob {
    /// The schedule, as it was when the run was claimed.
    pub schedule: Schedule,
    /// The run.
    pub run: ScheduleRunId,
    store: ScheduleStore,
}

impl RunJob {
    /// Records the conversation of the run, so that it is found also if the run is lost.
    #[boxed]
    pub async fn note_conversation(&self, conversation: &str) {
        if let Err(error) = self.store.note_conversation(self.run, conversation).await {
            tracing::warn!(%error, run = %self.run, "the conversation of a run was not recorded");
        }
    }
}

/// How much is run, and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchedulerLimits {
    /// Runs in progress at once; further ones wait.
    pub max_concurrent: usize,
    /// How long a run may take.
    pub timeout: Duration,
}

/// Runs the schedules of a store. Any number of processes may have one for the same store: each due
/// moment is run by one of them. Clones share everything.
#[derive(Clone)]
pub struct Scheduler {
    shared: Arc<SchedulerShared>,
}

struct SchedulerShared {
    store: ScheduleStore,
    executor: Arc<dyn Executor>,
    limits: SchedulerLimits,
    clock: Clock,
    owner: RunOwner,
    slots: Arc<Semaphore>,
    tasks: TaskTracker,
    /// Cancelled when no new runs are begun.
    stop: CancellationToken,
    /// Cancelled when runs in progress must end.
    interrupt: CancellationToken,
    /// Deliveries that wait to be tried again.
    retrying: Mutex<HashSet<ScheduleRunId>>,
    poke: Notify,
}

impl Scheduler {
    /// Returns a scheduler, which does nothing until it [serves](Self::serve).
    pub fn new(
        store: ScheduleStore,
        executor: Arc<dyn Executor>,
        limits: SchedulerLimits,
        clock: Clock,
    ) -> Result<Self> {
        let shared = SchedulerShared {
            store,
            executor,
            clock,
            owner: RunOwner::current()?,
            slots: Arc::new(Semaphore::new(limits.max_concurrent.max(1))),
            limits,
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            interrupt: CancellationToken::new(),
            retrying: Mutex::default(),
            poke: Notify::new(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Runs what is due until [`Self::stop`]. A failure of the store is reported and tried again; it
    /// does not end this.
    pub async fn serve(&self, on_tick: impl Fn(Option<&Error>) + Send) {
        let wake = match FileWatch::new(self.shared.store.path()) {
            Ok(wake) => Some(wake),
            Err(error) => {
                tracing::warn!(%error, "changes of schedules are noticed within a minute only");
                None
            }
        };
        while !self.shared.stop.is_cancelled() {
            let sleep = match self.tick().await {
                Ok(sleep) => {
                    on_tick(None);
                    sleep
                }
                Err(error) => {
                    tracing::error!(%error, "schedules cannot be read; they are tried again");
                    on_tick(Some(&error));
                    AFTER_FAILURE
                }
            };
            tokio::select! {
                biased;
                () = self.shared.stop.cancelled() => {}
                () = self.shared.poke.notified() => {}
                () = changed(wake.as_ref()) => {}
                () = tokio::time::sleep(sleep) => {}
            }
        }
    }

    /// Begins no new runs from now on. Claimed runs that have not begun end as interrupted.
    pub fn stop(&self) {
        self.shared.stop.cancel();
        self.shared.tasks.close();
    }

    /// Waits for the runs in progress; interrupts them when `patience` is over or `hurry` resolves,
    /// and waits for that. Returns how many were interrupted.
    pub async fn drain(&self, patience: Duration, hurry: impl Future<Output = ()>) -> usize {
        self.stop();
        tokio::select! {
            () = self.shared.tasks.wait() => return 0,
            () = tokio::time::sleep(patience) => {}
            () = hurry => {}
        }
        let interrupted = self.shared.tasks.len();
        self.shared.interrupt.cancel();
        self.shared.tasks.wait().await;
        interrupted
    }

    /// Takes what is due now, begins it, and returns how long there is nothing to do.
    #[boxed]
    pub async fn tick(&self) -> Result<Duration> {
        let shared = &self.shared;
        let now = shared.clock.now();
        // After a stop nothing is claimed: what is due is the next process's.
        let token = shared.tasks.token();
        if shared.stop.is_cancelled() {
            return Ok(LONGEST_SLEEP);
        }
        let Taken { runs, recorded, unreadable, next_at } =
            shared.store.take_due(&shared.owner, now).await?;
        for (schedule, status) in recorded {
            tracing::warn!(%schedule, status = status.word(), "a due moment was not run");
        }
        for error in unreadable {
            tracing::error!(%error, "a schedule cannot be read");
        }
        for (schedule, run) in runs {
            self.begin(schedule, run);
        }
        let retrying = self.retrying().clone();
        let is_wanted = |run: ScheduleRunId| !retrying.contains(&run);
        for (schedule, run) in shared.store.take_deliveries(&shared.owner, now, is_wanted).await? {
            shared.tasks.spawn(self.clone().deliver(schedule, run));
        }
        drop(token);
        let until = next_at.map(|next| next.duration_since(shared.clock.now()));
        let until =
            until.map_or(LONGEST_SLEEP, |until| Duration::try_from(until).unwrap_or_default());
        Ok(until.clamp(SHORTEST_SLEEP, LONGEST_SLEEP))
    }

    fn begin(&self, schedule: Schedule, run: ScheduleRunId) {
        let this = self.clone();
        let span = tracing::info_span!("cron", schedule = %schedule.id, run = run.get());
        let running = async move {
            let shared = &this.shared;
            let slot = tokio::select! {
                biased;
                () = shared.stop.cancelled() => None,
                slot = shared.slots.acquire() => slot.ok(),
            };
            let Some(slot) = slot else {
                let report = RunReport::without_answer(
                    RunOutcome::Interrupted,
                    "it had not begun when the gateway stopped",
                );
                return this.record(run, &report).await;
            };
            let executor = Arc::clone(&shared.executor);
            let stop = shared.interrupt.child_token();
            let (store, timeout) = (&shared.store, shared.limits.timeout);
            let report =
                carry_out(store, executor, schedule, run, timeout, stop, &shared.clock).await;
            // Others need not wait for a store that is full.
            drop(slot);
            this.record(run, &report).await;
        };
        self.shared.tasks.spawn(running.instrument(span));
    }

    /// Records how a run ended, for as long as that takes: until then its schedule is in progress, and
    /// has no other run. Once the scheduler stops it is tried a few times more.
    async fn record(&self, run: ScheduleRunId, report: &RunReport) {
        let SchedulerShared { store, clock, stop, .. } = &*self.shared;
        let finish = || store.finish(run, report, clock.now());
        record(run, finish, stop, RECORD_PAUSES).await;
    }

    async fn deliver(self, schedule: Schedule, run: ScheduleRun) {
        let shared = &self.shared;
        let result = shared.executor.deliver(&schedule, &run).await;
        let recorded = match &result {
            Ok(()) => shared.store.delivered(run.id, Delivered::Done, None).await,
            Err(DeliveryError::Failed(why)) => {
                tracing::warn!(run = %run.id, why, "the output of a run was not delivered");
                shared.store.delivered(run.id, Delivered::Failed, Some(why)).await
            }
            Err(DeliveryError::Busy(why)) => {
                self.retrying().insert(run.id);
                shared.store.delivered(run.id, Delivered::Pending, Some(why)).await
            }
        };
        if let Err(error) = recorded {
            tracing::warn!(%error, run = %run.id, "what became of a delivery was not recorded");
        }
        if matches!(result, Err(DeliveryError::Busy(_))) {
            tokio::select! {
                () = shared.stop.cancelled() => {}
                () = tokio::time::sleep(DELIVER_AGAIN) => {}
            }
            self.retrying().remove(&run.id);
            shared.poke.notify_one();
        }
    }

    fn retrying(&self) -> MutexGuard<'_, HashSet<ScheduleRunId>> {
        self.shared.retrying.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler").field("limits", &self.shared.limits).finish_non_exhaustive()
    }
}

/// Waits for a change by another process; for ever if that cannot be noticed.
async fn changed(wake: Option<&FileWatch>) {
    if let Some(wake) = wake {
        match wake.next().await {
            Ok(()) => return,
            Err(error) => tracing::warn!(%error, "changes of schedules are not noticed"),
        }
    }
    std::future::pending::<()>().await;
}

/// Carries out a run that this process has claimed, within its time, and records how it ended. What
/// cannot be recorded within some seconds is found as lost when this process is gone.
#[boxed]
pub async fn run_claimed(
    store: &ScheduleStore,
    executor: Arc<dyn Executor>,
    schedule: Schedule,
    run: ScheduleRunId,
    timeout: Duration,
    stop: CancellationToken,
    clock: &Clock,
) -> RunReport {
    let report = carry_out(store, executor, schedule, run, timeout, stop, clock).await;
    let soon = CancellationToken::new();
    soon.cancel();
    let finish = || store.finish(run, &report, clock.now());
    record(run, finish, &soon, RECORD_PAUSES).await;
    report
}

async fn carry_out(
    store: &ScheduleStore,
    executor: Arc<dyn Executor>,
    schedule: Schedule,
    run: ScheduleRunId,
    timeout: Duration,
    stop: CancellationToken,
    clock: &Clock,
) -> RunReport {
    tracing::info!(name = schedule.name, "a scheduled run begins");
    let report = match store.started(run, clock.now(), timeout).await {
        Ok(()) => {
            let job = RunJob { schedule, run, store: store.clone() };
            within(executor, job, timeout, stop).await
        }
        // What cannot be recorded as begun is not begun.
        Err(error) => RunReport::without_answer(RunOutcome::Failed, error.to_string()),
    };
    tracing::info!(
        outcome = report.outcome.status().word(),
        error = report.error,
        "a scheduled run ended"
    );
    report
}

async fn within(
    executor: Arc<dyn Executor>,
    job: RunJob,
    timeout: Duration,
    stop: CancellationToken,
) -> RunReport {
    let stop = stop.child_token();
    let executing = {
        let stop = stop.clone();
        async move { executor.execute(job, stop).await }.in_current_span()
    };
    // In a task of its own: whatever happens in it, the run gets its record.
    let mut execution = AbortOnDropHandle::new(tokio::spawn(executing));
    let crashed = |error: tokio::task::JoinError| {
        RunReport::without_answer(RunOutcome::Failed, format!("internal error: {error}"))
    };
    let (outcome, why) = tokio::select! {
        biased;
        report = &mut execution => return report.unwrap_or_else(crashed),
        () = stop.cancelled() => (RunOutcome::Interrupted, "it was interrupted".to_owned()),
        () = tokio::time::sleep(timeout) => {
            let why = format!("it took longer than {} s (cron.timeout_seconds)", timeout.as_secs());
            (RunOutcome::TimedOut, why)
        }
    };
    stop.cancel();
    match tokio::time::timeout(INTERRUPTED_WITHIN, &mut execution).await {
        // It ended by itself at the same moment.
        Ok(Ok(report)) if report.outcome == RunOutcome::Succeeded => report,
        Ok(Ok(report)) => {
            let error = report.error.filter(|_| outcome == RunOutcome::Interrupted).or(Some(why));
            RunReport { outcome, error, ..report }
        }
        Ok(Err(error)) => crashed(error),
        Err(_) => RunReport::without_answer(outcome, format!("{why}, and did not end in time")),
    }
}

/// Records how a run ended, by `finish`. A store that is busy or full is tried again until it takes
/// it; from `hurry` on only a few times more, and such a run is found as lost when this process is
/// gone.
async fn record<F: Future<Output = Result<bool>>>(
    run: ScheduleRunId,
    finish: impl Fn() -> F,
    hurry: &CancellationToken,
    (mut pause, longest): (Duration, Duration),
) {
    let mut left = LAST_TRIES;
    loop {
        let Err(error) = finish().await else { return };
        if hurry.is_cancelled() {
            left -= 1;
            pause = pause.min(RECORD_PAUSES.0 * 8);
        }
        if left == 0 {
            return tracing::error!(%error, %run, "the end of a run was not recorded");
        }
        tracing::warn!(%error, %run, "the end of a run is recorded later");
        let is_hurried = hurry.is_cancelled();
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = hurry.cancelled(), if !is_hurried => {}
        }
        pause = (pause * 2).min(longest);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    const SHORT: (Duration, Duration) = (Duration::from_micros(10), Duration::from_micros(50));

    fn full() -> Error {
        Error::Random(std::io::Error::other("the disk is full"))
    }

    #[tokio::test]
    async fn the_end_of_a_run_is_recorded_however_long_the_disk_was_full() {
        let tries = AtomicU32::new(0);
        let finish = async || {
            let tried = tries.fetch_add(1, Ordering::SeqCst);
            if tried < 100 { Err(full()) } else { Ok(true) }
        };
        record(ScheduleRunId::new(1), finish, &CancellationToken::new(), SHORT).await;
        assert_eq!(tries.load(Ordering::SeqCst), 101);
    }

    #[tokio::test]
    async fn a_scheduler_that_stops_does_not_wait_for_a_full_disk_for_ever() {
        let (tries, hurry) = (AtomicU32::new(0), CancellationToken::new());
        let finish = async || {
            if tries.fetch_add(1, Ordering::SeqCst) == 20 {
                hurry.cancel();
            }
            Err(full())
        };
        record(ScheduleRunId::new(1), finish, &hurry, SHORT).await;
        assert_eq!(tries.load(Ordering::SeqCst), 20 + LAST_TRIES);
    }
}
