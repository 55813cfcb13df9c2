//! Attempts at tasks, and how they failed.

use std::time::Duration;

use vestal_board::testing::{BEGINNING, profile, run, task};
use vestal_board::{Error, Host, HostName, Outcome, Process, Role, Run, RunId, Task, Time};

use crate::{add, add_all, place};

fn full(task: &Task) -> Run {
    let host = Host { name: HostName::new("here"), boot: "boot/1".to_owned() };
    let elsewhere = Host { name: HostName::new("there"), boot: "boot/2".to_owned() };
    Run {
        profile: Some(profile("ada")),
        role: Role::Review,
        owner: "dispatcher on here".to_owned(),
        host: Some(host),
        process: Some(Process { host: elsewhere, pid: 4_000_000_000, start: 1 << 40 }),
        heartbeat_at: Some(Time::from_millis(2)),
        activity_at: Some(Time::from_millis(3)),
        note: Some("half way".to_owned()),
        graced: true,
        max_runtime: Some(Duration::from_millis(12_345)),
        stopping: Some(Outcome::TimedOut),
        ended_at: Some(Time::from_millis(4)),
        outcome: Some(Outcome::Completed),
        summary: Some("done".to_owned()),
        metadata: Some(serde_json::json!({"files": ["a", "b"]})),
        error: Some("nothing".to_owned()),
        gone: false,
        workspace: Some("/srv/work".to_owned()),
        session_id: Some("talk".to_owned()),
        ..run(&task.id)
    }
}

#[tokio::test]
async fn a_run_comes_out_as_it_went_in_and_as_it_was_changed() {
    let place = place().await;
    let work = task("work");
    add(&place, &work).await;
    for (first, then) in [(run(&work.id), full(&work)), (full(&work), run(&work.id))] {
        let mut write = place.write().await.unwrap();
        let id = write.insert_run(&first).await.unwrap();
        assert_eq!(write.run(id).await.unwrap(), Some(Run { id, ..first }));
        let then = Run { id, ..then };
        write.update_run(&then).await.unwrap();
        assert_eq!(write.run(id).await.unwrap(), Some(then));
        write.commit().await.unwrap();
    }
    assert_eq!(place.read().await.unwrap().run(RunId::new(77)).await.unwrap(), None);
    let ghost = Run { id: RunId::new(77), ..run(&work.id) };
    let refused = place.write().await.unwrap().update_run(&ghost).await;
    assert!(matches!(refused, Err(Error::Unreadable { .. })), "{refused:?}");
    // A run is of a task that is there.
    let refused = place.write().await.unwrap().insert_run(&run(&task("ghost").id)).await;
    assert!(matches!(refused, Err(Error::Database(_))), "{refused:?}");
}

#[tokio::test]
async fn the_number_of_a_run_never_comes_back() {
    let place = place().await;
    let [first, second] = ["first", "second"].map(task);
    add_all(&place, &[first.clone(), second.clone()]).await;
    let mut write = place.write().await.unwrap();
    let before = write.insert_run(&run(&first.id)).await.unwrap();
    write.delete_task(&first).await.unwrap();
    assert!(write.insert_run(&run(&second.id)).await.unwrap() > before);
}

#[tokio::test]
async fn runs_are_alive_until_they_ended_and_nothing_of_them_is_left() {
    let place = place().await;
    let work = task("work");
    let mut write = place.write().await.unwrap();
    write.insert_tasks(std::slice::from_ref(&work)).await.unwrap();
    let mut expected = Vec::new();
    for (ended, gone, alive) in [
        (None, true, true),
        (None, false, true),
        (Some(BEGINNING), false, true),
        (Some(BEGINNING), true, false),
    ] {
        let new = Run { ended_at: ended, gone, ..run(&work.id) };
        let id = write.insert_run(&new).await.unwrap();
        if alive {
            expected.push(id);
        }
    }
    let alive: Vec<RunId> = write.live_runs().await.unwrap().iter().map(|run| run.id).collect();
    assert_eq!(alive, expected);
    let last: Vec<i64> =
        write.runs(&work.id, 2).await.unwrap().iter().map(|run| run.id.get()).collect();
    assert_eq!(last, [3, 4]);
}

#[tokio::test]
async fn what_a_profile_completed_is_read_newest_first_with_its_titles() {
    let place = place().await;
    let mut write = place.write().await.unwrap();
    for (number, (who, outcome)) in [
        ("ada", Outcome::Completed),
        ("ada", Outcome::Crashed),
        ("grace", Outcome::Completed),
        ("ada", Outcome::Completed),
        ("ada", Outcome::Completed),
    ]
    .into_iter()
    .enumerate()
    {
        let work = task(&format!("task {number}"));
        write.insert_tasks(std::slice::from_ref(&work)).await.unwrap();
        let ended_at = Some(BEGINNING.after(Duration::from_secs(number as u64)));
        let (outcome, profile) = (Some(outcome), Some(profile(who)));
        write.insert_run(&Run { profile, outcome, ended_at, ..run(&work.id) }).await.unwrap();
    }
    let found = write.completed_by("ada", 2).await.unwrap();
    let titles: Vec<&str> = found.iter().map(|(_, title)| title.as_str()).collect();
    assert_eq!(titles, ["task 4", "task 3"]);
    assert_eq!(found[0].0.profile, Some(profile("ada")));
    assert_eq!(write.completed_by("nobody", 2).await.unwrap(), []);
}

#[tokio::test]
async fn tasks_are_counted_by_the_run_that_made_them() {
    let place = place().await;
    let made = |run| Task { created_by_run: run, ..task("made") };
    let (one, two) = (Some(RunId::new(1)), Some(RunId::new(2)));
    add_all(&place, &[made(one), made(one), made(two), made(None)]).await;
    let mut read = place.read().await.unwrap();
    let mut counts = Vec::new();
    for run in 1..=3 {
        counts.push(read.made_by(RunId::new(run)).await.unwrap());
    }
    assert_eq!(counts, [2, 1, 0]);
}

#[tokio::test]
async fn failures_are_counted_by_cause_until_they_are_forgotten() {
    let place = place().await;
    let [work, other] = ["work", "other"].map(task);
    add_all(&place, &[work.clone(), other.clone()]).await;
    let mut write = place.write().await.unwrap();
    assert_eq!(write.count_failure(&work.id, Outcome::Crashed, "one").await.unwrap(), 1);
    assert_eq!(write.count_failure(&work.id, Outcome::Crashed, "two").await.unwrap(), 2);
    assert_eq!(write.count_failure(&work.id, Outcome::TimedOut, "slow").await.unwrap(), 1);
    assert_eq!(write.count_failure(&other.id, Outcome::Crashed, "three").await.unwrap(), 1);
    let failures = write.failures(&work.id).await.unwrap();
    let seen: Vec<_> =
        failures.iter().map(|f| (f.cause, f.count, f.error.as_str(), f.at)).collect();
    assert_eq!(
        seen,
        [(Outcome::Crashed, 2, "two", BEGINNING), (Outcome::TimedOut, 1, "slow", BEGINNING)]
    );
    let failing = write.failing(2, 9).await.unwrap();
    assert_eq!(failing, [(work.id.clone(), failures[0].clone())]);
    write.clear_failures(&work.id).await.unwrap();
    assert_eq!(write.failures(&work.id).await.unwrap(), []);
    assert_eq!(write.failures(&other.id).await.unwrap().len(), 1);
}
