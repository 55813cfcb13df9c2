//! The loop that runs what is due.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use vestal_schedules::{
    Delivered, DeliveryError, Executor, NewSchedule, RunJob, RunOutcome, RunReport, Schedule,
    ScheduleClock, ScheduleDelivery, ScheduleRun, ScheduleRunStatus, ScheduleStore, ScheduleTiming,
    Scheduler, SchedulerLimits, Zone,
};
use vestal_testkit::until_async;

/// What a run does.
#[derive(Clone, Copy)]
enum Work {
    Answer,
    Hang,
    Panic,
}

/// Carries runs out as the test says, and tells when one begins.
struct Fake {
    work: Work,
    begun: mpsc::UnboundedSender<String>,
    running: AtomicUsize,
    most: AtomicUsize,
    delivered: Mutex<Vec<String>>,
}

#[async_trait]
impl Executor for Fake {
    async fn execute(&self, job: RunJob, stop: CancellationToken) -> RunReport {
        let now = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        job.note_conversation("20260131-090000-k3f9ab").await;
        self.begun.send(job.schedule.name.clone()).ok();
        let report = RunReport {
            output: format!("did {}", job.schedule.prompt),
            error: None,
            ..RunReport::without_answer(RunOutcome::Succeeded, "")
        };
        let report = match self.work {
            Work::Answer => report,
            Work::Hang => {
                stop.cancelled().await;
                RunReport { outcome: RunOutcome::Interrupted, ..report }
            }
            Work::Panic => panic!("on purpose"),
        };
        self.running.fetch_sub(1, Ordering::SeqCst);
        report
    }

    async fn deliver(&self, schedule: &Schedule, run: &ScheduleRun) -> Result<(), DeliveryError> {
        let line = format!("{} {}", schedule.delivery, run.output);
        self.delivered.lock().unwrap().push(line);
        Ok(())
    }
}

struct ScheduleFixture {
    _dir: tempfile::TempDir,
    store: ScheduleStore,
    fake: Arc<Fake>,
    begun: mpsc::UnboundedReceiver<String>,
    scheduler: Scheduler,
    clock: ScheduleClock,
}

const START: &str = "2026-01-31T08:59:00Z";

impl ScheduleFixture {
    async fn new(work: Work, limits: SchedulerLimits) -> Self {
        Self::with(work, limits, ScheduleClock::at(START.parse().unwrap())).await
    }

    async fn with(work: Work, limits: SchedulerLimits, clock: ScheduleClock) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = ScheduleStore::open(vestal_schedules::store_path(dir.path())).await.unwrap();
        let (sender, begun) = mpsc::unbounded_channel();
        let fake = Arc::new(Fake {
            work,
            begun: sender,
            running: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            delivered: Mutex::default(),
        });
        let executor: Arc<dyn Executor> = Arc::clone(&fake) as _;
        let scheduler = Scheduler::new(store.clone(), executor, limits, clock.clone()).unwrap();
        Self { _dir: dir, store, fake, begun, scheduler, clock }
    }

    async fn create(&self, name: &str, timing: &str, delivery: ScheduleDelivery) -> Schedule {
        let now = self.clock.now();
        let timing = ScheduleTiming::parse(timing, now).unwrap();
        let new = NewSchedule {
            name: Some(name.to_owned()),
            delivery,
            ..NewSchedule::new(timing, Zone::utc(), "look")
        };
        self.store.create(new, now).await.unwrap()
    }

    /// Waits until the last run of a schedule has ended, and returns it.
    async fn ended(&self, schedule: &Schedule) -> ScheduleRun {
        let last = async || self.store.runs(Some(&schedule.id), 1).await.unwrap().pop();
        until_async("the run has ended", async || {
            last().await.is_some_and(|run| !run.status.is_open())
        })
        .await;
        last().await.unwrap()
    }
}

fn limits(max_concurrent: usize, timeout: Duration) -> SchedulerLimits {
    SchedulerLimits { max_concurrent, timeout }
}

const LONG: Duration = Duration::from_mins(10);

#[tokio::test]
async fn a_schedule_that_another_process_makes_is_run_when_it_is_due() {
    // The clock of the machine: the loop sleeps by it.
    let mut fixture =
        ScheduleFixture::with(Work::Answer, limits(2, LONG), ScheduleClock::system()).await;
    let scheduler = fixture.scheduler.clone();
    let serving =
        tokio::spawn(async move { scheduler.serve(|error| assert!(error.is_none())).await });
    // Another handle of the file, as another process has: nobody tells the scheduler.
    let other = ScheduleStore::open(fixture.store.path()).await.unwrap();
    let soon = Timestamp::now() + SignedDuration::from_secs(2);
    let timing = ScheduleTiming::Instant(Timestamp::from_second(soon.as_second()).unwrap());
    let delivery = ScheduleDelivery::Conversation("k3f9ab".to_owned());
    let new = NewSchedule { delivery, ..NewSchedule::new(timing, Zone::utc(), "look") };
    let schedule = other.create(new, Timestamp::now()).await.unwrap();
    assert_eq!(fixture.begun.recv().await.as_deref(), Some("look"));
    let run = fixture.ended(&schedule).await;
    assert_eq!((run.status, run.output.as_str()), (ScheduleRunStatus::Succeeded, "did look"));
    assert!(run.started_at >= schedule.next_at);
    // What it said is delivered without another word, too.
    until_async("it is delivered", async || {
        other.run(run.id).await.unwrap().delivered == Delivered::Done
    })
    .await;
    assert_eq!(*fixture.fake.delivered.lock().unwrap(), ["conversation:k3f9ab did look"]);
    assert_eq!(fixture.scheduler.drain(LONG, std::future::pending()).await, 0);
    serving.await.unwrap();
}

#[tokio::test]
async fn a_run_that_takes_too_long_is_interrupted_and_timed_out() {
    let fixture = ScheduleFixture::new(Work::Hang, limits(1, Duration::from_millis(50))).await;
    let schedule = fixture.create("slow", "0 9 * * *", ScheduleDelivery::Local).await;
    fixture.clock.set("2026-01-31T09:00:00Z".parse().unwrap());
    fixture.scheduler.tick().await.unwrap();
    let run = fixture.ended(&schedule).await;
    assert_eq!(run.status, ScheduleRunStatus::TimedOut);
    assert!(run.error.unwrap().contains("cron.timeout_seconds"));
    // What it had said until then is kept.
    assert_eq!(run.output, "did look");
}

#[tokio::test]
async fn a_run_that_crashes_is_a_failure_and_the_schedule_goes_on() {
    let fixture = ScheduleFixture::new(Work::Panic, limits(1, LONG)).await;
    let schedule = fixture.create("bad", "0 9 * * *", ScheduleDelivery::Local).await;
    for day in ["2026-01-31", "2026-02-01"] {
        fixture.clock.set(format!("{day}T09:00:00Z").parse().unwrap());
        fixture.scheduler.tick().await.unwrap();
        let run = fixture.ended(&schedule).await;
        assert_eq!(run.status, ScheduleRunStatus::Failed);
        assert_eq!(run.conversation.as_deref(), Some("20260131-090000-k3f9ab"));
    }
    assert_eq!(fixture.store.get(&schedule.id).await.unwrap().failures, 2);
}

#[tokio::test]
async fn as_many_run_at_once_as_may_and_a_drain_ends_them_all_and_says_so() {
    let mut fixture = ScheduleFixture::new(Work::Hang, limits(2, LONG)).await;
    let mut schedules = Vec::new();
    for name in ["a", "b", "c"] {
        schedules.push(fixture.create(name, "0 9 * * *", ScheduleDelivery::Local).await);
    }
    fixture.clock.set("2026-01-31T09:00:00Z".parse().unwrap());
    fixture.scheduler.tick().await.unwrap();
    fixture.begun.recv().await.unwrap();
    fixture.begun.recv().await.unwrap();
    let waiting = async || {
        let runs = fixture.store.runs(None, 10).await.unwrap();
        runs.iter().filter(|run| run.status == ScheduleRunStatus::Waiting).count()
    };
    assert_eq!(waiting().await, 1);
    // No patience: what runs is interrupted, what waits never begins, and nothing new is taken.
    let interrupted = fixture.scheduler.drain(Duration::ZERO, std::future::pending()).await;
    assert!((2..=3).contains(&interrupted), "{interrupted}");
    let mut errors = Vec::new();
    for schedule in &schedules {
        let run = fixture.ended(schedule).await;
        assert_eq!(run.status, ScheduleRunStatus::Interrupted);
        errors.push(run.error.unwrap_or_default());
    }
    assert_eq!(
        errors.iter().filter(|error| error.contains("had not started")).count(),
        1,
        "{errors:?}"
    );
    assert_eq!(fixture.fake.most.load(Ordering::SeqCst), 2);
    fixture.clock.set("2026-02-01T09:00:00Z".parse().unwrap());
    fixture.scheduler.tick().await.unwrap();
    assert_eq!(fixture.store.runs(None, 10).await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_run_that_ends_by_itself_during_a_drain_is_a_success() {
    let fixture = ScheduleFixture::new(Work::Answer, limits(1, LONG)).await;
    let schedule = fixture.create("quick", "0 9 * * *", ScheduleDelivery::Local).await;
    fixture.clock.set("2026-01-31T09:00:00Z".parse().unwrap());
    fixture.scheduler.tick().await.unwrap();
    let mut begun = fixture.begun;
    begun.recv().await.unwrap();
    assert_eq!(fixture.scheduler.drain(LONG, std::future::pending()).await, 0);
    let runs = fixture.store.runs(Some(&schedule.id), 1).await.unwrap();
    assert_eq!(runs[0].status, ScheduleRunStatus::Succeeded);
}
