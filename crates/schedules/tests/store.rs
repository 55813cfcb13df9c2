//! What a store promises about moments, clocks and records.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use tempfile::TempDir;
use vestal_schedules::{
    Delivered, Error, KEPT_RUNS, MissedPolicy, NewSchedule, RunOutcome, RunOwner, RunReport,
    Schedule, ScheduleChange, ScheduleDelivery, ScheduleRun, ScheduleRunStatus, ScheduleState,
    ScheduleStore, ScheduleTiming, Trigger, Zone,
};
use vestal_testkit::sqlite::execute;

/// A store with the process that uses it.
struct ScheduleFixture {
    dir: TempDir,
    store: ScheduleStore,
    owner: RunOwner,
}

/// Returns a time of January 2026.
fn at(text: &str) -> Timestamp {
    format!("2026-01-{text}Z").parse().unwrap()
}

fn success(output: &str) -> RunReport {
    RunReport {
        outcome: RunOutcome::Succeeded,
        output: output.to_owned(),
        error: None,
        conversation: Some("20260131-090000-k3f9ab".to_owned()),
        tokens: Some(120),
        micro_usd: Some(900),
    }
}

impl ScheduleFixture {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = ScheduleStore::open(vestal_schedules::store_path(dir.path())).await.unwrap();
        Self { dir, store, owner: RunOwner::current().unwrap() }
    }

    async fn create(&self, timing: &str, missed: MissedPolicy, now: Timestamp) -> Schedule {
        let timing = ScheduleTiming::parse(timing, now).unwrap();
        let new = NewSchedule { missed, ..NewSchedule::new(timing, Zone::utc(), "look") };
        self.store.create(new, now).await.unwrap()
    }

    /// Takes what is due; each run ends with success at once. Returns how many there were.
    async fn work(&self, now: Timestamp) -> usize {
        let taken = self.store.take_due(&self.owner, now).await.unwrap();
        for (_, run) in &taken.runs {
            assert!(self.store.finish(*run, &success("done"), now).await.unwrap());
        }
        taken.runs.len()
    }

    /// Returns what is on record, the earliest first.
    async fn entries(
        &self,
        schedule: &Schedule,
    ) -> Vec<(ScheduleRunStatus, Trigger, Option<Timestamp>, u64)> {
        let mut runs = self.store.runs(Some(&schedule.id), 200).await.unwrap();
        runs.reverse();
        runs.iter().map(|run| (run.status, run.trigger, run.due_at, run.missed)).collect()
    }

    async fn get(&self, schedule: &Schedule) -> Schedule {
        self.store.get(&schedule.id).await.unwrap()
    }
}

#[tokio::test]
async fn missed_moments_are_reported_once_and_caught_up_once_or_skipped_as_asked() {
    for policy in [MissedPolicy::Run, MissedPolicy::Skip] {
        let fixture = ScheduleFixture::new().await;
        let schedule = fixture.create("0 9 * * *", policy, at("01T08:00:00")).await;
        assert_eq!(fixture.work(at("01T09:00:30")).await, 1);
        // Nobody was there for three moments.
        let caught_up = usize::from(policy == MissedPolicy::Run);
        assert_eq!(fixture.work(at("04T12:00:00")).await, caught_up);
        assert_eq!(fixture.work(at("04T12:00:01")).await, 0);
        let mut expected = vec![
            (ScheduleRunStatus::Succeeded, Trigger::Due, Some(at("01T09:00:00")), 0),
            (ScheduleRunStatus::Missed, Trigger::Due, Some(at("02T09:00:00")), 3),
        ];
        if policy == MissedPolicy::Run {
            expected.push((
                ScheduleRunStatus::Succeeded,
                Trigger::CatchUp,
                Some(at("04T09:00:00")),
                0,
            ));
        }
        assert_eq!(fixture.entries(&schedule).await, expected);
        assert_eq!(fixture.get(&schedule).await.next_at, Some(at("05T09:00:00")));
    }
}

#[tokio::test]
async fn a_clock_that_is_set_back_repeats_nothing_and_one_that_was_far_ahead_strands_nothing() {
    let fixture = ScheduleFixture::new().await;
    let daily = fixture.create("0 9 * * *", MissedPolicy::Run, at("10T08:00:00")).await;
    let often = fixture.create("* * * * *", MissedPolicy::Skip, at("10T08:59:30")).await;
    for minute in 0..60 {
        let now = at("10T09:00:00") + SignedDuration::from_mins(minute);
        assert_eq!(fixture.work(now).await, if minute == 0 { 2 } else { 1 }, "{minute}");
    }
    // An hour back: all of it was run already, more of it than is kept.
    for minute in 0..60 {
        let now = at("10T09:00:05") + SignedDuration::from_mins(minute);
        assert_eq!(fixture.work(now).await, 0, "{minute}");
    }
    assert_eq!(fixture.work(at("10T10:00:05")).await, 1);
    // Years ahead, and back again: caught up once, and then due when it should be.
    assert_eq!(fixture.work("2031-05-05T12:00:00Z".parse().unwrap()).await, 2);
    assert!(fixture.get(&daily).await.next_at.unwrap() > at("31T00:00:00"));
    assert_eq!(fixture.work(at("10T10:05:30")).await, 0);
    assert_eq!(fixture.get(&daily).await.next_at, Some(at("11T09:00:00")));
    assert_eq!(fixture.get(&often).await.next_at, Some(at("10T10:06:00")));
    assert_eq!(fixture.work(at("11T09:00:00")).await, 2);
}

/// A clock that goes, jumps ahead and is set back at random, by up to days: whatever it does, no
/// moment is run twice, and each that it passed was run or is reported as missed.
#[tokio::test]
async fn however_the_clock_jumps_no_moment_is_run_twice_or_lost_silently() {
    const MINUTE: i64 = 60_000;
    let start = at("10T08:00:30").as_millisecond();
    for (seed, policy) in
        [(1_u64, MissedPolicy::Run), (2, MissedPolicy::Skip), (3, MissedPolicy::Run)]
    {
        let fixture = ScheduleFixture::new().await;
        let schedule = fixture
            .create("*/15 * * * *", policy, Timestamp::from_millisecond(start).unwrap())
            .await;
        let (mut random, mut now) = (seed, start);
        let (mut run, mut accounted, mut passed) = (Vec::new(), Vec::new(), Vec::new());
        let mut last_entry = 0;
        for _ in 0..120 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let draw = i64::try_from(random >> 33).unwrap();
            let before = now;
            now += match draw % 10 {
                0 => (draw % 4000) * MINUTE,
                1 => -(draw % 2000) * MINUTE,
                2 => -(draw % 90_000),
                _ => draw % (5 * MINUTE),
            };
            let due = 15 * MINUTE;
            passed.extend((before / due + 1..=now / due).map(|step| step * due));
            fixture.work(Timestamp::from_millisecond(now).unwrap()).await;
            let mut entries = fixture.store.runs(Some(&schedule.id), 200).await.unwrap();
            entries.retain(|entry| entry.id.get() > last_entry);
            last_entry = entries.iter().map(|entry| entry.id.get()).max().unwrap_or(last_entry);
            for entry in entries {
                let due_at = entry.due_at.unwrap().as_millisecond();
                match entry.status {
                    ScheduleRunStatus::Missed => {
                        let count = i64::try_from(entry.missed).unwrap();
                        accounted.extend((0..count).map(|step| due_at + step * due));
                    }
                    ScheduleRunStatus::Succeeded => run.push(due_at),
                    other => panic!("{other:?}"),
                }
            }
        }
        let once: BTreeSet<i64> = run.iter().copied().collect();
        assert_eq!(once.len(), run.len(), "seed {seed}: a moment was run twice");
        let known: BTreeSet<i64> = run.into_iter().chain(accounted).collect();
        let lost: Vec<i64> = passed.into_iter().filter(|at| !known.contains(at)).collect();
        assert!(lost.is_empty(), "seed {seed}: {} moments are lost", lost.len());
    }
}

#[tokio::test]
async fn a_run_whose_process_is_gone_is_shown_as_lost_and_blocks_nothing() {
    let fixture = ScheduleFixture::new().await;
    let schedule = fixture.create("0 9 * * *", MissedPolicy::Run, at("10T08:00:00")).await;
    let taken = fixture.store.take_due(&fixture.owner, at("10T09:00:00")).await.unwrap();
    let run = taken.runs[0].1;
    fixture.store.started(run, at("10T09:00:00"), std::time::Duration::from_mins(1)).await.unwrap();
    assert_eq!(fixture.store.run(run).await.unwrap().status, ScheduleRunStatus::Running);
    let path = fixture.store.path().to_owned();
    execute(&path, "UPDATE runs SET owner = replace(owner, '\"pid\":', '\"pid\":9')").await;
    // It is not recorded, and shown all the same.
    let seen = fixture.store.runs(Some(&schedule.id), 1).await.unwrap().remove(0);
    assert_eq!(seen.status, ScheduleRunStatus::Lost);
    assert!(seen.error.unwrap().contains("its process died"));
    let asked = fixture.store.request(&schedule.id, at("10T09:05:00")).await.unwrap();
    assert_eq!(asked.status, ScheduleRunStatus::Requested);
    let counted = fixture.get(&schedule).await;
    assert_eq!((counted.runs, counted.failures), (1, 1));
}

#[tokio::test]
async fn a_schedule_never_overlaps_itself() {
    let fixture = ScheduleFixture::new().await;
    let schedule = fixture.create("*/5 * * * *", MissedPolicy::Run, at("10T09:00:00")).await;
    let mut taken = fixture.store.take_due(&fixture.owner, at("10T09:05:00")).await.unwrap();
    let (_, run) = taken.runs.remove(0);
    fixture.store.started(run, at("10T09:05:00"), std::time::Duration::from_mins(1)).await.unwrap();
    let later = fixture.store.take_due(&fixture.owner, at("10T09:10:00")).await.unwrap();
    assert_eq!(later.runs.len(), 0);
    assert_eq!(later.recorded, [(schedule.id.clone(), ScheduleRunStatus::Skipped)]);
    // Nobody else begins one, either.
    for refused in [
        fixture.store.request(&schedule.id, at("10T09:10:00")).await.map(drop),
        fixture.store.begin(&schedule.id, &fixture.owner, at("10T09:10:00")).await.map(drop),
    ] {
        assert!(matches!(refused, Err(Error::Running { run: found, .. }) if found == run));
    }
    assert!(fixture.store.finish(run, &success("done"), at("10T09:11:00")).await.unwrap());
    assert_eq!(fixture.work(at("10T09:15:00")).await, 1);
    let skipped = fixture.store.runs(Some(&schedule.id), 10).await.unwrap().remove(1);
    assert_eq!(skipped.error, Some(format!("run {run} was still in progress")));
}

#[tokio::test]
async fn a_run_that_was_asked_for_is_taken_once_and_given_up_after_an_hour() {
    let fixture = ScheduleFixture::new().await;
    let schedule = fixture.create("0 9 * * *", MissedPolicy::Run, at("10T10:00:00")).await;
    let asked = fixture.store.request(&schedule.id, at("10T10:00:00")).await.unwrap();
    assert_eq!((asked.status, asked.trigger), (ScheduleRunStatus::Requested, Trigger::Manual));
    assert_eq!(fixture.work(at("10T10:00:01")).await, 1);
    assert_eq!(fixture.work(at("10T10:00:02")).await, 0);
    fixture.store.request(&schedule.id, at("10T11:00:00")).await.unwrap();
    assert_eq!(fixture.work(at("10T12:00:01")).await, 0);
    let entries = fixture.entries(&schedule).await;
    let statuses: Vec<ScheduleRunStatus> = entries.iter().map(|entry| entry.0).collect();
    assert_eq!(statuses, [ScheduleRunStatus::Succeeded, ScheduleRunStatus::Missed]);
}

#[tokio::test]
async fn paused_moments_are_not_missed_and_a_new_time_counts_from_now() {
    let fixture = ScheduleFixture::new().await;
    let schedule = fixture.create("0 9 * * *", MissedPolicy::Run, at("10T08:00:00")).await;
    let id = &schedule.id;
    let paused = fixture.store.pause(id, at("10T08:30:00")).await.unwrap();
    assert_eq!((paused.state, paused.next_at), (ScheduleState::Paused, None));
    assert_eq!(fixture.work(at("15T12:00:00")).await, 0);
    let resumed = fixture.store.resume(id, at("15T12:00:00")).await.unwrap();
    assert_eq!(resumed.next_at, Some(at("16T09:00:00")));
    assert_eq!(fixture.entries(&schedule).await, []);
    let now = at("15T12:00:00");
    let timing = Some(ScheduleTiming::parse("every 2h", now).unwrap());
    let change =
        ScheduleChange { timing, name: Some("often".to_owned()), ..ScheduleChange::default() };
    let edited = fixture.store.edit(id, change, now).await.unwrap();
    assert_eq!((edited.name.as_str(), edited.prompt.as_str()), ("often", "look"));
    assert_eq!(edited.next_at, Some(at("15T14:00:00")));
    // Once: done when it has come, and due again when it is given another moment.
    let timing = Some(ScheduleTiming::parse("at 2026-01-20T10:00", now).unwrap());
    let change = ScheduleChange { timing, ..ScheduleChange::default() };
    fixture.store.edit(id, change, now).await.unwrap();
    assert_eq!(fixture.work(at("20T10:00:00")).await, 1);
    assert_eq!(fixture.get(&schedule).await.state, ScheduleState::Done);
    assert!(matches!(fixture.store.resume(id, at("20T10:00:01")).await, Err(Error::Never { .. })));
    for (timing, reason) in
        [("at 2020-01-01T10:00", "it has passed"), ("0 0 31 2 *", "no such date")]
    {
        let timing = ScheduleTiming::parse(timing, now).unwrap();
        let refused = fixture.store.create(NewSchedule::new(timing, Zone::utc(), "x"), now).await;
        assert!(refused.unwrap_err().to_string().contains(reason));
    }
}

#[tokio::test]
async fn the_last_runs_are_kept_with_bounded_output_and_true_counts() {
    let fixture = ScheduleFixture::new().await;
    let schedule = fixture.create("* * * * *", MissedPolicy::Skip, at("10T00:00:00")).await;
    for minute in 1..=60 {
        let now = at("10T00:00:00") + SignedDuration::from_mins(minute);
        assert_eq!(fixture.work(now).await, 1);
    }
    let runs = fixture.store.runs(Some(&schedule.id), 1000).await.unwrap();
    assert_eq!(runs.len(), usize::try_from(KEPT_RUNS).unwrap());
    let last: &ScheduleRun = &runs[0];
    assert_eq!(last.due_at, Some(at("10T01:00:00")));
    assert_eq!((last.output.as_str(), last.tokens, last.micro_usd), ("done", Some(120), Some(900)));
    let after = fixture.get(&schedule).await;
    assert_eq!((after.runs, after.failures), (60, 0));
    fixture.store.remove(&schedule.id).await.unwrap();
    assert_eq!(fixture.store.runs(None, 10).await.unwrap(), []);
    // A run in progress whose schedule is gone has nobody to report to.
    assert!(!fixture.store.finish(last.id, &success("late"), at("10T02:00:00")).await.unwrap());
}

#[tokio::test]
async fn an_output_is_delivered_at_most_once() {
    let fixture = ScheduleFixture::new().await;
    let now = at("10T08:00:00");
    let timing = ScheduleTiming::parse("0 9 * * *", now).unwrap();
    let delivery = ScheduleDelivery::Conversation("k3f9ab".to_owned());
    let new = NewSchedule { delivery, ..NewSchedule::new(timing, Zone::utc(), "look") };
    fixture.store.create(new, now).await.unwrap();
    assert_eq!(fixture.work(at("10T09:00:00")).await, 1);
    let take = |now| fixture.store.take_deliveries(&fixture.owner, now, |_| true);
    let taken = take(at("10T09:00:01")).await.unwrap();
    let [(_, run)] = taken.as_slice() else { panic!("{taken:?}") };
    assert_eq!(take(at("10T09:00:02")).await.unwrap(), []);
    // Its conversation is in use: once more, until a day is over.
    fixture.store.delivered(run.id, Delivered::Pending, Some("in use")).await.unwrap();
    assert_eq!(take(at("10T09:05:00")).await.unwrap().len(), 1);
    fixture.store.delivered(run.id, Delivered::Pending, Some("in use")).await.unwrap();
    assert_eq!(take(at("11T10:00:00")).await.unwrap(), []);
    let given_up = fixture.store.run(run.id).await.unwrap();
    assert_eq!(given_up.delivered, Delivered::Failed);
    // A process that died in the middle may have sent it.
    let path = fixture.store.path().to_owned();
    execute(
        &path,
        "UPDATE runs SET delivered = 'begun', owner = replace(owner, '\"pid\":', '\"pid\":9')",
    )
    .await;
    assert_eq!(take(at("10T09:06:00")).await.unwrap(), []);
    let lost = fixture.store.run(run.id).await.unwrap();
    assert_eq!(lost.delivered, Delivered::Failed);
    assert!(lost.delivery_error.unwrap().contains("may be there"));
}

#[tokio::test]
async fn a_run_that_cannot_be_read_keeps_no_other_from_being_delivered() {
    let fixture = ScheduleFixture::new().await;
    let now = at("10T08:00:00");
    for name in ["broken", "whole"] {
        let timing = ScheduleTiming::parse("0 9 * * *", now).unwrap();
        let delivery = ScheduleDelivery::Conversation("k3f9ab".to_owned());
        let name = Some(name.to_owned());
        let new = NewSchedule { name, delivery, ..NewSchedule::new(timing, Zone::utc(), "look") };
        fixture.store.create(new, now).await.unwrap();
    }
    assert_eq!(fixture.work(at("10T09:00:00")).await, 2);
    // The schedule of one cannot be read.
    let path = fixture.store.path().to_owned();
    execute(&path, "UPDATE schedules SET zone = 'Mars/Olympus' WHERE name = 'broken'").await;
    let take = |now| fixture.store.take_deliveries(&fixture.owner, now, |_| true);
    let taken = take(at("10T09:00:01")).await.unwrap();
    assert_eq!(taken.iter().map(|(of, _)| of.name.as_str()).collect::<Vec<_>>(), ["whole"]);
    let runs = fixture.store.runs(None, 10).await.unwrap();
    let given_up = runs.iter().find(|run| run.delivered == Delivered::Failed).unwrap();
    assert!(given_up.delivery_error.as_deref().is_some_and(|why| why.contains("Mars/Olympus")));
    assert_eq!(take(at("10T09:00:02")).await.unwrap(), []);
}

#[tokio::test]
async fn a_schedule_is_found_by_id_beginning_or_name() {
    let fixture = ScheduleFixture::new().await;
    let now = at("10T08:00:00");
    let timing = || ScheduleTiming::parse("every 1h", now).unwrap();
    let new = |name: &str| NewSchedule {
        name: Some(name.to_owned()),
        ..NewSchedule::new(timing(), Zone::utc(), "look")
    };
    let one = fixture.store.create(new("logs"), now).await.unwrap();
    let two = fixture.store.create(new("mail"), now).await.unwrap();
    for wanted in [one.id.as_str(), &one.id.as_str()[2..8], "logs"] {
        assert_eq!(fixture.store.find(wanted).await.unwrap(), one.id, "{wanted}");
    }
    assert!(matches!(fixture.store.find("none").await, Err(Error::NotFound { .. })));
    assert!(matches!(fixture.store.find("").await, Err(Error::NotFound { .. })));
    // As it could be before names were kept apart.
    execute(fixture.store.path(), "UPDATE schedules SET name = 'logs'").await;
    assert_ne!(one.id, two.id);
    match fixture.store.find("logs").await {
        Err(Error::Ambiguous { candidates, .. }) => assert_eq!(candidates.len(), 2),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_schedule_that_cannot_be_read_holds_no_other_up() {
    let fixture = ScheduleFixture::new().await;
    let broken = fixture.create("0 9 * * *", MissedPolicy::Run, at("10T08:00:00")).await;
    let whole = fixture.create("0 9 * * *", MissedPolicy::Run, at("10T08:00:00")).await;
    let change = ScheduleChange { name: Some("broken".to_owned()), ..ScheduleChange::default() };
    fixture.store.edit(&broken.id, change, at("10T08:00:00")).await.unwrap();
    let path = fixture.store.path().to_owned();
    execute(&path, "UPDATE schedules SET zone = 'Mars/Olympus' WHERE name = 'broken'").await;
    let taken = fixture.store.take_due(&fixture.owner, at("10T09:00:00")).await.unwrap();
    assert_eq!(taken.runs.iter().map(|(of, _)| &of.id).collect::<Vec<_>>(), [&whole.id]);
    assert_eq!(taken.unreadable.len(), 1);
    // It is not waited for in a loop.
    assert_eq!(taken.next_at, Some(at("11T09:00:00")));
    assert_eq!(fixture.store.list().await.unwrap().iter().filter(|one| one.is_err()).count(), 1);
    assert_eq!(fixture.store.remove(&whole.id).await.unwrap().id, whole.id);
}

#[tokio::test]
async fn a_newer_file_is_refused_and_not_changed() {
    let fixture = ScheduleFixture::new().await;
    let path = vestal_schedules::store_path(fixture.dir.path());
    fixture.store.clone().close().await.unwrap();
    execute(&path, "PRAGMA user_version = 99").await;
    let before = std::fs::read(&path).unwrap();
    let refused = ScheduleStore::open(&path).await.unwrap_err().to_string();
    assert!(refused.contains("has version 99"), "{refused}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn no_two_schedules_are_called_alike() {
    let fixture = ScheduleFixture::new().await;
    let now = at("05T12:00:00");
    let new = |name: Option<&str>| NewSchedule {
        name: name.map(str::to_owned),
        ..NewSchedule::new(
            ScheduleTiming::parse("every 2h", now).unwrap(),
            Zone::utc(),
            "look around",
        )
    };
    let first = fixture.store.create(new(Some("weekly")), now).await.unwrap();
    let error = fixture.store.create(new(Some("weekly")), now).await.unwrap_err();
    let is_it = matches!(&error, Error::NameTaken { name, id } if name == "weekly" && *id == first.id.to_string());
    assert!(is_it, "{error}");
    // A name that nobody chose gives way.
    let names = [
        fixture.store.create(new(None), now).await.unwrap().name,
        fixture.store.create(new(None), now).await.unwrap().name,
    ];
    assert_eq!(names, ["look around", "look around 2"]);
    let rename =
        |name: &str| ScheduleChange { name: Some(name.to_owned()), ..ScheduleChange::default() };
    let taken = fixture.store.edit(&first.id, rename("look around"), now).await.unwrap_err();
    assert!(matches!(taken, Error::NameTaken { .. }), "{taken}");
    let same = fixture.store.edit(&first.id, rename("weekly"), now).await.unwrap();
    assert_eq!(same.name, "weekly");
}

#[tokio::test]
async fn a_schedule_of_another_program_is_adopted_once_and_paused_if_it_was() {
    let fixture = ScheduleFixture::new().await;
    let now = at("01T00:00:00");
    let new = || {
        let timing = ScheduleTiming::parse("0 9 * * *", now).unwrap();
        NewSchedule {
            name: Some("look".to_owned()),
            ..NewSchedule::new(timing, Zone::utc(), "look")
        }
    };
    fixture.store.create(new(), now).await.unwrap();
    let id = "c_815d5c00".parse().unwrap();
    let adopted =
        fixture.store.adopt(&id, new(), ScheduleState::Paused, now).await.unwrap().unwrap();
    assert_eq!((adopted.name.as_str(), adopted.state), ("look 2", ScheduleState::Paused));
    assert_eq!(adopted.next_at, None);
    let again = fixture.store.adopt(&id, new(), ScheduleState::Active, now).await.unwrap();
    assert_eq!(again, None);
    assert_eq!(fixture.store.get(&id).await.unwrap().state, ScheduleState::Paused);
    let other = "c_7a07de9a".parse().unwrap();
    let active = fixture.store.adopt(&other, new(), ScheduleState::Active, now).await.unwrap();
    assert_eq!(active.unwrap().next_at, Some(at("01T09:00:00")));
}
