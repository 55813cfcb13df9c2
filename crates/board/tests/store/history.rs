//! Events, and what is forgotten with time.

use std::time::Duration;

use serde_json::json;
use vestal_board::store::{EventQuery, Retention};
use vestal_board::testing::{BEGINNING, Place, profile, run, task};
use vestal_board::{Error, Event, Kind, NewEvent, Run, RunId, Task, TaskId};

use crate::{add, add_all, place};

fn event(task: &TaskId, kind: Kind) -> NewEvent {
    NewEvent { task: task.clone(), run: None, kind, payload: json!({}) }
}

async fn tell(place: &Place, events: &[NewEvent]) {
    let mut write = place.write().await.unwrap();
    write.tell(events).await.unwrap();
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

async fn kinds(place: &Place, query: &EventQuery) -> Vec<String> {
    let events = place.read().await.unwrap().events_after(query).await.unwrap();
    events.into_iter().map(|event| event.kind).collect()
}

#[tokio::test]
async fn an_event_comes_out_as_it_was_told_at_the_moment_of_its_transaction() {
    let place = place().await;
    let work = task("work");
    add(&place, &work).await;
    place.advance(Duration::from_secs(3));
    let payload = json!({"reason": "ünï", "list": [1, {"deep": null}]});
    let new = NewEvent {
        task: work.id.clone(),
        run: Some(RunId::new(4)),
        kind: Kind::Claimed,
        payload: payload.clone(),
    };
    tell(&place, &[new]).await;
    let events = place.read().await.unwrap().events(&work.id, 9).await.unwrap();
    let expected = Event {
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
async fn what_was_told_is_read_in_the_same_transaction_in_the_order_it_was_told() {
    let place = place().await;
    let work = task("work");
    let mut write = place.write().await.unwrap();
    write.insert_tasks(std::slice::from_ref(&work)).await.unwrap();
    write.tell(&[event(&work.id, Kind::Created)]).await.unwrap();
    write.tell(&[event(&work.id, Kind::Claimed), event(&work.id, Kind::Crashed)]).await.unwrap();
    assert_eq!(write.last_event().await.unwrap(), 3);
    write.tell(&[event(&work.id, Kind::Completed)]).await.unwrap();
    let seen: Vec<String> =
        write.events(&work.id, 3).await.unwrap().into_iter().map(|event| event.kind).collect();
    assert_eq!(seen, ["claimed", "crashed", "completed"]);
    write.commit().await.unwrap();
    assert_eq!(kinds(&place, &every()).await.len(), 4);
}

#[tokio::test]
async fn hundreds_of_events_are_told_in_one_transaction() {
    let place = place().await;
    let work = task("work");
    add(&place, &work).await;
    let many: Vec<NewEvent> = (0..333)
        .map(|number| NewEvent { payload: json!(number), ..event(&work.id, Kind::Edited) })
        .collect();
    tell(&place, &many).await;
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
    write.tell(&[event(&task("ghost").id, Kind::Edited)]).await.unwrap();
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
    tell(
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
    tell(&place, &[event(&lost.id, Kind::Created)]).await;
    let mut newest = place.read().await.unwrap().last_event().await.unwrap();
    let mut write = place.write().await.unwrap();
    write.delete_task(&lost).await.unwrap();
    write.commit().await.unwrap();
    assert_eq!(kinds(&place, &every()).await, [""; 0]);
    let nothing = Retention { events: Duration::ZERO, events_per_task: 0, runs_per_task: 0 };
    for kind in [Kind::Edited, Kind::Edited, Kind::Edited] {
        tell(&place, &[event(&kept.id, kind)]).await;
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
    tell(&place, &[event(&busy.id, Kind::Created), event(&calm.id, Kind::Created)]).await;
    for kind in [Kind::Claimed, Kind::Crashed, Kind::Reclaimed, Kind::Edited] {
        tell(&place, &[event(&busy.id, kind)]).await;
    }
    tell(&place, &[event(&calm.id, Kind::Blocked)]).await;
    place.advance(Duration::from_hours(2));
    tell(&place, &[event(&busy.id, Kind::Completed)]).await;

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
