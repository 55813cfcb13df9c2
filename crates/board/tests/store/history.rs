//! Runs, events and what is pruned.

use std::time::Duration;

use serde_json::json;
use vestal_board::store::{EventQuery, Retention};
use vestal_board::testing::{BEGINNING, TestBoard, profile, run, task};
use vestal_board::{
    Error, HostId, HostName, Kind, NewTaskEvent, Outcome, Role, Run, RunId, RunProcess, Task,
    TaskEvent, TaskId, Time,
};

use crate::{add, add_all, place};

fn full(task: &Task) -> Run {
    let host = HostId { name: HostName::new("here"), boot: "boot/1".to_owned() };
    let elsewhere = HostId { name: HostName::new("there"), boot: "boot/2".to_owned() };
    Run {
        profile: Some(profile("ada")),
        role: Role::Review,
        owner: "dispatcher on here".to_owned(),
        host: Some(host),
        process: Some(RunProcess { host: elsewhere, pid: 4_000_000_000, start: 1 << 40 }),
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

fn event(task: &TaskId, kind: Kind) -> NewTaskEvent {
    NewTaskEvent { task: task.clone(), run: None, kind, payload: json!({}) }
}

async fn add_events(place: &TestBoard, events: &[NewTaskEvent]) {
    let mut write = place.write().await.unwrap();
    write.add_events(events).await.unwrap();
    write.commit().await.unwrap();
}

fn every() -> EventQuery {
    EventQuery {
        after: 0,
        task: None,
        kinds: Vec::new(),
        assignee: None,
        tenant: None,
        limit: 1_000,
    }
}

async fn kinds(place: &TestBoard, query: &EventQuery) -> Vec<String> {
    let events = place.read().await.unwrap().events_after(query).await.unwrap();
    events.into_iter().map(|event| event.kind).collect()
}

#[tokio::test]
async fn an_event_is_read_as_it_was_written_at_the_time_of_its_transaction() {
    let place = place().await;
    let work = task("work");
    add(&place, &work).await;
    place.advance(Duration::from_secs(3));
    let payload = json!({"reason": "ünï", "list": [1, {"deep": null}]});
    let new = NewTaskEvent {
        task: work.id.clone(),
        run: Some(RunId::new(4)),
        kind: Kind::Claimed,
        payload: payload.clone(),
    };
    add_events(&place, &[new]).await;
    let events = place.read().await.unwrap().events(&work.id, 9).await.unwrap();
    let expected = TaskEvent {
        id: 1,
        task_id: work.id,
        run_id: Some(RunId::new(4)),
        kind: "claimed".to_owned(),
        payload,
        created_at: BEGINNING.after(Duration::from_secs(3)),
    };
    assert_eq!(events, [expected]);
}

#[tokio::test]
async fn notifications_are_read_in_the_same_transaction_and_in_order() {
    let place = place().await;
    let work = task("work");
    let mut write = place.write().await.unwrap();
    write.insert_tasks(std::slice::from_ref(&work)).await.unwrap();
    write.add_events(&[event(&work.id, Kind::Created)]).await.unwrap();
    write
        .add_events(&[event(&work.id, Kind::Claimed), event(&work.id, Kind::Crashed)])
        .await
        .unwrap();
    assert_eq!(write.last_event().await.unwrap(), 3);
    write.add_events(&[event(&work.id, Kind::Completed)]).await.unwrap();
    let seen: Vec<String> =
        write.events(&work.id, 3).await.unwrap().into_iter().map(|event| event.kind).collect();
    assert_eq!(seen, ["claimed", "crashed", "completed"]);
    write.commit().await.unwrap();
    assert_eq!(kinds(&place, &every()).await.len(), 4);
}

#[tokio::test]
async fn hundreds_of_events_are_added_in_one_transaction() {
    let place = place().await;
    let work = task("work");
    add(&place, &work).await;
    let many: Vec<NewTaskEvent> = (0..333)
        .map(|number| NewTaskEvent { payload: json!(number), ..event(&work.id, Kind::Edited) })
        .collect();
    add_events(&place, &many).await;
    let events = place.read().await.unwrap().events_after(&every()).await.unwrap();
    let numbers: Vec<i64> = events.iter().filter_map(|event| event.payload.as_i64()).collect();
    assert_eq!(numbers, (0..333).collect::<Vec<i64>>());
}

#[tokio::test]
async fn an_event_of_no_task_is_refused_and_nothing_of_its_transaction_is_kept() {
    let place = place().await;
    let work = task("work");
    let mut write = place.write().await.unwrap();
    write.insert_tasks(std::slice::from_ref(&work)).await.unwrap();
    write.add_events(&[event(&task("ghost").id, Kind::Edited)]).await.unwrap();
    let refused = write.commit().await;
    assert!(matches!(refused, Err(Error::Database(_))), "{refused:?}");
    assert_eq!(crate::get(&place, &work.id).await, None);
}

#[tokio::test]
async fn events_are_followed_by_number_task_kind_assignee_and_tenant() {
    let place = place().await;
    let hers = Task { assignee: Some(profile("ada")), ..task("hers") };
    let acme = Task { tenant: Some("acme".to_owned()), ..task("acme") };
    add_all(&place, &[hers.clone(), acme.clone()]).await;
    add_events(
        &place,
        &[
            event(&hers.id, Kind::Created),
            event(&acme.id, Kind::Created),
            event(&hers.id, Kind::Claimed),
            event(&acme.id, Kind::Blocked),
        ],
    )
    .await;
    assert_eq!(kinds(&place, &every()).await, ["created", "created", "claimed", "blocked"]);
    let cases: [(EventQuery, &[&str]); 6] = [
        (EventQuery { after: 2, ..every() }, &["claimed", "blocked"]),
        (EventQuery { limit: 1, ..every() }, &["created"]),
        (EventQuery { task: Some(hers.id.clone()), ..every() }, &["created", "claimed"]),
        (
            EventQuery { kinds: vec!["blocked".to_owned(), "claimed".to_owned()], ..every() },
            &["claimed", "blocked"],
        ),
        (EventQuery { assignee: Some("ADA".to_owned()), ..every() }, &["created", "claimed"]),
        (EventQuery { tenant: Some("acme".to_owned()), after: 2, ..every() }, &["blocked"]),
    ];
    for (query, expected) in cases {
        assert_eq!(kinds(&place, &query).await, expected, "{query:?}");
    }
}

#[tokio::test]
async fn the_number_of_an_event_never_comes_back() {
    let place = place().await;
    let [lost, kept] = ["lost", "kept"].map(task);
    add_all(&place, &[lost.clone(), kept.clone()]).await;
    add_events(&place, &[event(&lost.id, Kind::Created)]).await;
    let mut newest = place.read().await.unwrap().last_event().await.unwrap();
    let mut write = place.write().await.unwrap();
    write.delete_task(&lost).await.unwrap();
    write.commit().await.unwrap();
    assert_eq!(kinds(&place, &every()).await, [""; 0]);
    let nothing = Retention { events: Duration::ZERO, events_per_task: 0, runs_per_task: 0 };
    for kind in [Kind::Edited, Kind::Edited, Kind::Edited] {
        add_events(&place, &[event(&kept.id, kind)]).await;
        let last = place.read().await.unwrap().last_event().await.unwrap();
        assert!(last > newest);
        newest = last;
        place.advance(Duration::from_secs(1));
        let mut write = place.write().await.unwrap();
        write.prune(&nothing).await.unwrap();
        write.commit().await.unwrap();
    }
    assert_eq!(kinds(&place, &every()).await, ["edited"]);
}

#[tokio::test]
async fn old_events_are_forgotten_but_the_making_and_the_last_of_each_task_stay() {
    let place = place().await;
    let [busy, calm] = ["busy", "calm"].map(task);
    add_all(&place, &[busy.clone(), calm.clone()]).await;
    add_events(&place, &[event(&busy.id, Kind::Created), event(&calm.id, Kind::Created)]).await;
    for kind in [Kind::Claimed, Kind::Crashed, Kind::Reclaimed, Kind::Edited] {
        add_events(&place, &[event(&busy.id, kind)]).await;
    }
    add_events(&place, &[event(&calm.id, Kind::Blocked)]).await;
    place.advance(Duration::from_hours(2));
    add_events(&place, &[event(&busy.id, Kind::Completed)]).await;

    let keep = Retention { events: Duration::from_hours(1), events_per_task: 2, runs_per_task: 1 };
    let mut write = place.write().await.unwrap();
    assert_eq!(write.prune(&keep).await.unwrap(), (3, 0));
    assert_eq!(write.prune(&keep).await.unwrap(), (0, 0));
    write.commit().await.unwrap();
    let of = |task: &Task| EventQuery { task: Some(task.id.clone()), ..every() };
    assert_eq!(kinds(&place, &of(&busy)).await, ["created", "edited", "completed"]);
    assert_eq!(kinds(&place, &of(&calm)).await, ["created", "blocked"]);
    // Nothing is young or last enough, but for the newest of all.
    place.advance(Duration::from_hours(2));
    let nothing = Retention { events_per_task: 0, ..keep };
    let mut write = place.write().await.unwrap();
    assert_eq!(write.prune(&nothing).await.unwrap(), (2, 0));
    write.commit().await.unwrap();
    assert_eq!(kinds(&place, &every()).await, ["created", "created", "completed"]);
}

#[tokio::test]
async fn old_runs_are_forgotten_but_for_the_last_the_open_and_those_that_may_have_left_something() {
    let place = place().await;
    let work = task("work");
    add(&place, &work).await;
    let mut write = place.write().await.unwrap();
    let mut kept = Vec::new();
    for (ended_at, gone, stays) in [
        (Some(BEGINNING), true, false),
        (None, true, true),
        (Some(BEGINNING), false, true),
        (Some(BEGINNING), true, false),
        (Some(BEGINNING), true, true),
    ] {
        let id = write.insert_run(&Run { ended_at, gone, ..run(&work.id) }).await.unwrap();
        if stays {
            kept.push(id);
        }
    }
    write.commit().await.unwrap();
    place.advance(Duration::from_hours(2));
    let keep = Retention { events: Duration::from_hours(1), events_per_task: 2, runs_per_task: 1 };
    let mut write = place.write().await.unwrap();
    assert_eq!(write.prune(&keep).await.unwrap(), (0, 2));
    let left: Vec<RunId> =
        write.runs(&work.id, 9).await.unwrap().into_iter().map(|run| run.id).collect();
    assert_eq!(left, kept);
}
