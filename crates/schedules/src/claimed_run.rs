//! A run that this process has claimed: carried out within its time, its result recorded.

use std::sync::Arc;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use crate::Result;
use crate::run::{RunOutcome, RunReport, ScheduleRunId};
use crate::schedule::Schedule;
use crate::scheduler::{Executor, RunJob};
use crate::store::ScheduleStore;
use crate::timing::ScheduleClock;

/// How long a run that was interrupted may take to end.
const INTERRUPTED_WITHIN: Duration = Duration::from_secs(30);

/// Tries to record the end of a run once nobody is to wait for it any more.
const LAST_TRIES: u32 = 6;

/// The first and the longest pause between tries to record the end of a run.
pub(crate) const RECORD_PAUSES: (Duration, Duration) =
    (Duration::from_millis(250), Duration::from_secs(30));

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
    clock: &ScheduleClock,
) -> RunReport {
    let report = carry_out(store, executor, schedule, run, timeout, stop, clock).await;
    let soon = CancellationToken::new();
    soon.cancel();
    let finish = || store.finish(run, &report, clock.now());
    record(run, finish, &soon, RECORD_PAUSES).await;
    report
}

pub(crate) async fn carry_out(
    store: &ScheduleStore,
    executor: Arc<dyn Executor>,
    schedule: Schedule,
    run: ScheduleRunId,
    timeout: Duration,
    stop: CancellationToken,
    clock: &ScheduleClock,
) -> RunReport {
    tracing::info!(name = schedule.name, "a scheduled run begins");
    let report = match store.started(run, clock.now(), timeout).await {
        Ok(()) => {
            let job = RunJob { schedule, run, store: store.clone() };
            within(executor, job, timeout, stop).await
        }
        // What cannot be recorded as begun is not started.
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
pub(crate) async fn record<F: Future<Output = Result<bool>>>(
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
    use crate::Error;

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
