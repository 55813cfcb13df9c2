//! Hosts the schedules of the profile: what is due is asked of the agent.

mod agent;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use async_trait::async_trait;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use vestal_agent::EventSink;
use vestal_api::SchedulesRunner;
use vestal_schedules::{
    DeliveryError, Error, Executor, RunJob, RunOutcome, RunReport, Schedule, ScheduleClock,
    ScheduleRun, ScheduleStore, Scheduler, SchedulerLimits, store_path,
};

use crate::control::{StatusAnswer, ask_status};
use crate::state::{GatewayPhase, ListenerPhase, StateFile};
use crate::turns::Turns;

pub use agent::{deliver_output, run_schedule};

/// The name of this part in the state.
const NAME: &str = "schedules";

/// The pause before a file is tried again that cannot be opened.
const OPEN_AGAIN: Duration = Duration::from_mins(1);

/// How long runs may take to be recorded once their turns have ended.
const RECORDED_WITHIN: Duration = Duration::from_secs(20);

/// Longer than any gateway runs: how long runs may take is the drain's to say.
const UNLIMITED: Duration = Duration::from_hours(24 * 365);

/// The schedules of a gateway.
#[derive(Debug)]
pub(crate) struct ScheduleHost {
    stop: SchedulesStop,
    task: JoinHandle<()>,
}

/// Stops schedules at once: when it has returned, no further moment is claimed.
#[derive(Debug, Clone, Default)]
struct SchedulesStop {
    asked: CancellationToken,
    scheduler: Arc<OnceLock<Scheduler>>,
}

impl SchedulesStop {
    fn ask(&self) {
        self.asked.cancel();
        if let Some(scheduler) = self.scheduler.get() {
            scheduler.stop();
        }
    }

    /// Stops this scheduler, too, when that is asked for, or if it was.
    fn add_scheduler(&self, scheduler: &Scheduler) {
        let scheduler = self.scheduler.get_or_init(|| scheduler.clone());
        // After that: callers from now on find it.
        if self.asked.is_cancelled() {
            scheduler.stop();
        }
    }
}

impl ScheduleHost {
    /// Begins to run what is due.
    pub(crate) fn start(
        home: &Path,
        turns: Turns,
        limits: SchedulerLimits,
        state: &Arc<StateFile>,
    ) -> Self {
        state.listener(NAME, |listener| listener.state = ListenerPhase::Connecting);
        let stop = SchedulesStop::default();
        let serving = serve(store_path(home), turns, limits, Arc::clone(state), stop.clone());
        Self { stop, task: tokio::spawn(serving) }
    }

    /// Begins no new runs from now on.
    pub(crate) fn stop(&self) {
        self.stop.ask();
    }

    /// Returns when the runs have ended, which the drain of the turns sees to, and are on record.
    pub(crate) async fn ended(mut self) {
        self.stop();
        if tokio::time::timeout(RECORDED_WITHIN, &mut self.task).await.is_err() {
            tracing::warn!("scheduled runs did not end in time; they will be found as lost");
            self.task.abort();
        }
    }
}

async fn serve(
    path: PathBuf,
    turns: Turns,
    limits: SchedulerLimits,
    state: Arc<StateFile>,
    stop: SchedulesStop,
) {
    let failed = |error: &Error| {
        state.listener(NAME, |listener| {
            listener.state = ListenerPhase::Failed;
            listener.error_code = Some("schedules_unreadable".to_owned());
            listener.error_message = Some(error.to_string());
        });
    };
    let executor: Arc<dyn Executor> = Arc::new(AgentExecutor { turns });
    let scheduler = loop {
        let opened = async {
            let store = ScheduleStore::open(&path).await?;
            Scheduler::new(store, Arc::clone(&executor), limits, ScheduleClock::system())
        };
        match opened.await {
            Ok(scheduler) => break scheduler,
            Err(error) => {
                tracing::error!(%error, "schedules cannot be run; they are tried again");
                failed(&error);
            }
        }
        tokio::select! {
            () = stop.asked.cancelled() => return,
            () = tokio::time::sleep(OPEN_AGAIN) => {}
        }
    };
    stop.add_scheduler(&scheduler);
    let is_well = AtomicBool::new(false);
    let on_tick = |error: Option<&Error>| {
        // The file is written when something changes, not with every look.
        if is_well.swap(error.is_none(), Ordering::Relaxed) == error.is_none() {
            return;
        }
        match error {
            Some(error) => failed(error),
            None => state.listener(NAME, |listener| {
                listener.state = ListenerPhase::Connected;
                (listener.error_code, listener.error_message) = (None, None);
            }),
        }
    };
    // Not a race with the stop: a claim that is being made is seen through.
    scheduler.serve(on_tick).await;
    scheduler.drain(UNLIMITED, std::future::pending()).await;
    state.listener(NAME, |listener| listener.state = ListenerPhase::Stopped);
}

/// Returns who runs the schedules of a profile: its gateway, or nobody, and why.
#[boxed]
pub async fn schedules_runner(home: &Path, profile: &str) -> SchedulesRunner {
    let option = if profile == "default" { String::new() } else { format!("-p {profile} ") };
    let nobody =
        |pid, reason: String| SchedulesRunner { is_running: false, pid, reason: Some(reason) };
    let state = match ask_status(home).await {
        Ok(StatusAnswer::Answers(state)) => state,
        Ok(StatusAnswer::NotRunning) => {
            return nobody(
                None,
                format!(
                    "no gateway of this profile is running; to start one: vestal {option}gateway start"
                ),
            );
        }
        Err(error) => return nobody(None, error.to_string()),
    };
    let pid = Some(state.pid);
    match state.platforms.get(NAME) {
        None => nobody(
            pid,
            format!(
                "the gateway does not run schedules; to change that: vestal {option}config set cron.enabled true, then vestal {option}gateway restart"
            ),
        ),
        Some(part) if part.state == ListenerPhase::Failed => {
            nobody(pid, part.error_message.clone().unwrap_or_else(|| "they failed".to_owned()))
        }
        Some(_) if state.gateway_state == GatewayPhase::Draining => {
            nobody(pid, "the gateway is stopping".to_owned())
        }
        Some(_) => SchedulesRunner { is_running: true, pid, reason: None },
    }
}

/// Has the agent do what is due.
struct AgentExecutor {
    turns: Turns,
}

#[async_trait]
impl Executor for AgentExecutor {
    async fn execute(&self, job: RunJob, stop: CancellationToken) -> RunReport {
        let enlisted = match self.turns.enlist() {
            Ok(enlisted) => enlisted,
            Err(refused) => {
                return RunReport::without_answer(RunOutcome::Interrupted, refused.to_string());
            }
        };
        let stop = stop.child_token();
        let interrupt = async {
            enlisted.interrupted().await;
            stop.cancel();
            std::future::pending().await
        };
        let sink = EventSink::new(|event| event.log());
        let running = Box::pin(run_schedule(self.turns.runtime(), &job, &sink, &stop));
        tokio::select! {
            biased;
            report = running => report,
            report = interrupt => report,
        }
    }

    async fn deliver(&self, schedule: &Schedule, run: &ScheduleRun) -> Result<(), DeliveryError> {
        deliver_output(self.turns.runtime(), schedule, run).await
    }
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};
    use vestal_schedules::{NewSchedule, ScheduleTiming, Zone};

    use super::*;

    /// Runs nothing: whatever is claimed is a failure of the test.
    struct Nothing;

    #[async_trait]
    impl Executor for Nothing {
        async fn execute(&self, _: RunJob, _: CancellationToken) -> RunReport {
            RunReport::without_answer(RunOutcome::Failed, "it was claimed")
        }

        async fn deliver(&self, _: &Schedule, _: &ScheduleRun) -> Result<(), DeliveryError> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn once_a_stop_was_asked_for_a_moment_is_left_to_the_next_gateway() {
        for is_asked_first in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let store = ScheduleStore::open(dir.path().join("schedules.db")).await.unwrap();
            let now: Timestamp = "2026-01-31T09:00:00Z".parse().unwrap();
            let new = NewSchedule::new(ScheduleTiming::Instant(now), Zone::utc(), "look");
            let schedule = store.create(new, now - SignedDuration::from_secs(60)).await.unwrap();
            let limits = SchedulerLimits { max_concurrent: 1, timeout: Duration::from_mins(1) };
            let clock = ScheduleClock::at(now);
            let executor = Arc::new(Nothing);
            let scheduler = Scheduler::new(store.clone(), executor, limits, clock).unwrap();
            let stop = SchedulesStop::default();
            if is_asked_first {
                stop.ask();
                stop.add_scheduler(&scheduler);
            } else {
                stop.add_scheduler(&scheduler);
                stop.ask();
            }
            scheduler.tick().await.unwrap();
            assert_eq!(store.runs(Some(&schedule.id), 1).await.unwrap(), []);
            assert_eq!(store.get(&schedule.id).await.unwrap().next_at, Some(now));
        }
    }
}
