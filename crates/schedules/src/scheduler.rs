//! Runs what is due: waits for the next moment, claims it, has it carried out, records the result.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use async_trait::async_trait;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;
use vestal_process::FileChanges;

use crate::claimed_run::{RECORD_PAUSES, carry_out, record};
use crate::run::{Delivered, RunOutcome, RunOwner, RunReport, ScheduleRun, ScheduleRunId};
use crate::schedule::Schedule;
use crate::store::{ScheduleStore, Taken, watch_announcements};
use crate::timing::ScheduleClock;
use crate::{Error, Result};

/// The longest sleep: a machine that was suspended, or whose clock was set, is noticed within it.
const LONGEST_SLEEP: Duration = Duration::from_mins(1);

/// The shortest one, so that no fault becomes a busy loop.
const SHORTEST_SLEEP: Duration = Duration::from_millis(10);

/// The pause after a failure of the store.
const AFTER_FAILURE: Duration = Duration::from_secs(5);

/// How long a delivery waits whose conversation is in use.
const DELIVER_AGAIN: Duration = Duration::from_secs(30);

/// The writes of one change are seen as one.
const TOGETHER: Duration = Duration::from_millis(20);

/// What a due run does. The scheduler knows when; this knows what.
#[async_trait]
pub trait Executor: Send + Sync + 'static {
    /// Carries a run out. When `stop` is cancelled it interrupts what it does and returns soon.
    async fn execute(&self, job: RunJob, stop: CancellationToken) -> RunReport;

    /// Delivers the output of a run to the target of its schedule.
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
    pub(crate) store: ScheduleStore,
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
    clock: ScheduleClock,
    owner: RunOwner,
    slots: Arc<Semaphore>,
    tasks: TaskTracker,
    /// Cancelled when no new runs are started.
    stop: CancellationToken,
    /// Cancelled when runs in progress must end.
    interrupt: CancellationToken,
    /// Deliveries that wait to be tried again.
    retrying: Mutex<HashSet<ScheduleRunId>>,
    /// How long they do.
    deliver_again: Duration,
    poke: Notify,
}

impl Scheduler {
    /// Returns a scheduler, which does nothing until it [serves](Self::serve).
    pub fn new(
        store: ScheduleStore,
        executor: Arc<dyn Executor>,
        limits: SchedulerLimits,
        clock: ScheduleClock,
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
            deliver_again: DELIVER_AGAIN,
            poke: Notify::new(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Runs what is due until [`Self::stop`]. A failure of the store is reported and tried again; it
    /// does not end this.
    pub async fn serve(&self, on_tick: impl Fn(Option<&Error>) + Send) {
        let wake = match watch_announcements(self.shared.store.path()) {
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

    /// Begins no new runs from now on. Claimed runs that have not started end as interrupted.
    pub fn stop(&self) {
        self.shared.stop.cancel();
        self.shared.tasks.close();
    }

    /// Waits for the runs in progress; interrupts them when `grace` is over or `hurry` resolves,
    /// and waits for that. Returns how many were interrupted.
    pub async fn drain(&self, grace: Duration, hurry: impl Future<Output = ()>) -> usize {
        self.stop();
        tokio::select! {
            () = self.shared.tasks.wait() => return 0,
            () = tokio::time::sleep(grace) => {}
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
                    "it had not started when the gateway stopped",
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
                () = tokio::time::sleep(shared.deliver_again) => {}
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
async fn changed(wake: Option<&FileChanges>) {
    if let Some(wake) = wake {
        match wake.next(TOGETHER, |_| {}).await {
            Ok(()) => return,
            Err(error) => tracing::warn!(%error, "changes of schedules are not noticed"),
        }
    }
    std::future::pending::<()>().await;
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::{NewSchedule, ScheduleDelivery, ScheduleTiming, Zone};

    /// Answers at once, and can deliver the second time.
    struct Busy {
        clock: ScheduleClock,
        delivered: AtomicU32,
    }

    #[async_trait]
    impl Executor for Busy {
        async fn execute(&self, _: RunJob, _: CancellationToken) -> RunReport {
            RunReport {
                output: "said".to_owned(),
                error: None,
                ..RunReport::without_answer(RunOutcome::Succeeded, "")
            }
        }

        async fn deliver(
            &self,
            _: &Schedule,
            _: &ScheduleRun,
        ) -> std::result::Result<(), DeliveryError> {
            if self.delivered.fetch_add(1, Ordering::SeqCst) > 0 {
                return Ok(());
            }
            // While it waits for another try, the clock of the wall is set back by years.
            self.clock.set("2020-01-01T00:00:00Z".parse().unwrap());
            Err(DeliveryError::Busy("somebody talks there".to_owned()))
        }
    }

    #[tokio::test]
    async fn a_delivery_is_tried_again_whatever_the_clock_of_the_wall_does() {
        let dir = tempfile::tempdir().unwrap();
        let store = ScheduleStore::open(dir.path().join("schedules.db")).await.unwrap();
        let clock = ScheduleClock::at("2026-01-31T08:59:00Z".parse().unwrap());
        let timing = ScheduleTiming::Instant("2026-01-31T09:00:00Z".parse().unwrap());
        let delivery = ScheduleDelivery::Conversation("20260131-090000-k3f9ab".to_owned());
        let new = NewSchedule { delivery, ..NewSchedule::new(timing, Zone::utc(), "look") };
        let schedule = store.create(new, clock.now()).await.unwrap();
        let busy = Arc::new(Busy { clock: clock.clone(), delivered: AtomicU32::new(0) });
        let limits = SchedulerLimits { max_concurrent: 1, timeout: Duration::from_mins(1) };
        let executor: Arc<dyn Executor> = Arc::clone(&busy) as _;
        let mut scheduler = Scheduler::new(store.clone(), executor, limits, clock.clone()).unwrap();
        Arc::get_mut(&mut scheduler.shared).unwrap().deliver_again = Duration::from_millis(1);
        clock.set("2026-01-31T09:00:00Z".parse().unwrap());
        let serving = scheduler.clone();
        let serving = tokio::spawn(async move { serving.serve(|_| {}).await });
        vestal_testkit::until_async("it is delivered", || async {
            let runs = store.runs(Some(&schedule.id), 1).await.unwrap();
            runs.first().is_some_and(|run| run.delivered == Delivered::Done)
        })
        .await;
        assert_eq!(busy.delivered.load(Ordering::SeqCst), 2);
        scheduler.stop();
        serving.await.unwrap();
        scheduler.drain(Duration::from_mins(1), std::future::pending()).await;
    }
}
