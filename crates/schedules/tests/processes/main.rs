//! Processes that race for a due moment, and processes that are killed with one.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use jiff::Timestamp;
use vestal_schedules::{
    NewSchedule, RunOwner, Schedule, ScheduleRunStatus, ScheduleState, ScheduleStore,
    ScheduleTiming, Trigger, Zone,
};
use vestal_testkit::sqlite::assert_intact;

fn at(text: &str) -> Timestamp {
    format!("2026-01-31T{text}Z").parse().unwrap()
}

async fn store(dir: &Path, timing: &str) -> (PathBuf, ScheduleStore, Schedule) {
    let path = dir.join("schedules.db");
    let store = ScheduleStore::open(&path).await.unwrap();
    let now = at("08:30:00");
    let timing = ScheduleTiming::parse(timing, now).unwrap();
    let new = NewSchedule::new(timing, Zone::utc(), "look at the logs");
    let schedule = store.create(new, now).await.unwrap();
    (path, store, schedule)
}

/// Another process, killed when the test ends.
struct User {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl User {
    fn start(path: &Path, now: Timestamp, step: &str) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_schedules-user"))
            .arg(path)
            .args([&now.to_string(), step])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn line(&mut self) -> Option<String> {
        self.lines.next().map(Result::unwrap)
    }

    fn go(&mut self) {
        self.child.stdin.take().unwrap().write_all(b"\n").unwrap();
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for User {
    fn drop(&mut self) {
        // One that has ended already needs no more.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[tokio::test]
async fn of_twenty_processes_that_race_for_a_due_moment_one_runs_it() {
    let dir = tempfile::tempdir().unwrap();
    let (path, store, schedule) = store(dir.path(), "0 9 * * *").await;
    let mut users: Vec<User> =
        (0..20).map(|_| User::start(&path, at("09:00:00"), "race")).collect();
    for user in &mut users {
        assert_eq!(user.line().as_deref(), Some("ready"));
    }
    for user in &mut users {
        user.go();
    }
    let won: Vec<String> =
        users.iter_mut().flat_map(|user| std::iter::from_fn(|| user.line())).collect();
    let runs = store.runs(Some(&schedule.id), 100).await.unwrap();
    assert_eq!(runs.iter().map(|run| format!("run {}", run.id)).collect::<Vec<_>>(), won);
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0].due_at, Some(at("09:00:00")));
    // All of them were there at the moment, and the next one is tomorrow's.
    let next = store.get(&schedule.id).await.unwrap().next_at;
    assert_eq!(next, Some("2026-02-01T09:00:00Z".parse().unwrap()));
    drop(users);
    store.close().await.unwrap();
    assert_intact(&path).await;
}

#[tokio::test]
async fn a_run_whose_process_is_killed_at_any_step_is_lost_and_not_repeated() {
    for step in ["claimed", "started", "worked"] {
        for timing in ["0 9 * * *", "at 2026-01-31T09:00"] {
            let dir = tempfile::tempdir().unwrap();
            let (path, store, schedule) = store(dir.path(), timing).await;
            let mut user = User::start(&path, at("09:00:00"), step);
            let line = user.line().unwrap();
            let owner = RunOwner::current().unwrap();
            // While it lives, its run is its own.
            assert!(store.take_due(&owner, at("09:00:10")).await.unwrap().recorded.is_empty());
            user.kill();
            let taken = store.take_due(&owner, at("09:00:20")).await.unwrap();
            assert_eq!(taken.recorded, [(schedule.id.clone(), ScheduleRunStatus::Lost)], "{step}");
            assert_eq!(taken.runs.len(), 0, "{step}: a lost run was repeated");
            let runs = store.runs(Some(&schedule.id), 10).await.unwrap();
            let [run] = runs.as_slice() else { panic!("{runs:?}") };
            assert_eq!(format!("run {}", run.id), line);
            assert_eq!((run.status, run.trigger), (ScheduleRunStatus::Lost, Trigger::Due));
            assert_eq!(run.conversation.is_some(), step != "claimed");
            assert_eq!(run.ended_at, Some(at("09:00:20")));
            let worked = std::fs::read_to_string(path.with_extension("worked"));
            assert_eq!(worked.is_ok(), step == "worked");
            let after = store.get(&schedule.id).await.unwrap();
            assert_eq!((after.runs, after.failures), (1, 1));
            assert_eq!(after.last_status, Some(ScheduleRunStatus::Lost));
            let is_once = timing.starts_with("at");
            assert_eq!(after.state == ScheduleState::Done, is_once, "{step} {timing}");
            // The next moment is run as if nothing had happened.
            let tomorrow = "2026-02-01T09:00:00Z".parse().unwrap();
            let next = store.take_due(&owner, tomorrow).await.unwrap();
            assert_eq!(next.runs.len(), usize::from(!is_once), "{step} {timing}");
            assert_eq!(next.recorded, []);
        }
    }
}
