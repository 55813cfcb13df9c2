//! Tasks of another program's board.

use serde_json::json;
use vestal_board::testing::{self, TestBoard};
use vestal_board::verbs::AdoptedTask;
use vestal_board::{Outcome, Run, Status, Task, TaskId, Time};

use crate::support::{add, ann, place, titled};

const LONG_AGO: Time = Time::from_millis(1_500_000_000_000);

fn adopted(id: &str, status: Status, parents: &[&str]) -> AdoptedTask {
    let id: TaskId = id.parse().unwrap();
    AdoptedTask {
        task: Task { id, status, created_at: LONG_AGO, ..testing::task("from there") },
        parents: parents.iter().map(|parent| parent.parse().unwrap()).collect(),
        comments: Vec::new(),
        runs: Vec::new(),
        origin: json!({"system": "elsewhere"}),
    }
}

const ONE: &str = "t_00aa11bb0000";
const TWO: &str = "t_11bb22cc0000";

async fn status(place: &TestBoard, id: &str) -> Status {
    place.get(&id.parse().unwrap()).await.unwrap().status
}

#[tokio::test]
async fn what_was_worked_on_there_waits_for_a_person_and_nothing_is_ready_before_its_parents() {
    let place = place().await;
    let tasks = vec![
        adopted(TWO, Status::Ready, &[ONE, "t_zzzzzzzzzzzz"]),
        adopted(ONE, Status::Running, &[]),
        adopted("t_22cc33dd0000", Status::Done, &[]),
        adopted("t_33dd44ee0000", Status::Todo, &["t_22cc33dd0000"]),
    ];
    assert_eq!(place.adopt(&ann(), tasks).await.unwrap().len(), 4);
    assert_eq!(status(&place, ONE).await, Status::Blocked);
    assert_eq!(status(&place, TWO).await, Status::Todo);
    assert_eq!(status(&place, "t_33dd44ee0000").await, Status::Ready);
    let one = place.get(&ONE.parse().unwrap()).await.unwrap();
    assert!(one.gate && one.current_run.is_none());
    assert_eq!(one.created_at, LONG_AGO);
    // Its child goes on when it is done.
    place.unblock(&ann(), &one.id, None).await.unwrap();
    place.complete(&ann(), &one.id, vestal_board::TaskCompletion::default()).await.unwrap();
    assert_eq!(status(&place, TWO).await, Status::Ready);
}

#[tokio::test]
async fn what_belongs_to_a_task_comes_with_it_and_keeps_its_time() {
    let place = place().await;
    let mut task = adopted(ONE, Status::Done, &[]);
    task.comments.push(("ada".to_owned(), "with care".to_owned(), LONG_AGO));
    let run = testing::run(&task.task.id);
    task.runs.push(Run {
        ended_at: Some(LONG_AGO),
        outcome: Some(Outcome::Completed),
        summary: Some("done there".to_owned()),
        ..run
    });
    place.adopt(&ann(), vec![task]).await.unwrap();
    let id = ONE.parse().unwrap();
    let mut read = place.read().await.unwrap();
    let comments = read.comments(&id, 10).await.unwrap();
    assert_eq!((comments[0].body.as_str(), comments[0].created_at), ("with care", LONG_AGO));
    let runs = read.runs(&id, 10).await.unwrap();
    assert_eq!(runs[0].summary.as_deref(), Some("done there"));
    let events = read.events(&id, 10).await.unwrap();
    assert_eq!(events[0].payload["origin"]["system"], "elsewhere");
}

#[tokio::test]
async fn what_is_here_already_is_left_as_it_is() {
    let place = place().await;
    place.adopt(&ann(), vec![adopted(ONE, Status::Ready, &[])]).await.unwrap();
    place
        .complete(&ann(), &ONE.parse().unwrap(), vestal_board::TaskCompletion::default())
        .await
        .unwrap();
    let again = vec![adopted(ONE, Status::Ready, &[]), adopted(TWO, Status::Ready, &[ONE])];
    let new = place.adopt(&ann(), again).await.unwrap();
    assert_eq!(new, [TWO.parse().unwrap()]);
    assert_eq!(status(&place, ONE).await, Status::Done);
    assert_eq!(status(&place, TWO).await, Status::Ready);
}

#[tokio::test]
async fn tasks_that_wait_for_each_other_no_longer_do_and_a_key_means_one_task() {
    let place = place().await;
    let keyed = vestal_board::NewTask { idempotency_key: Some("k".to_owned()), ..titled("here") };
    let here = add(&place, keyed).await;
    let mut one = adopted(ONE, Status::Ready, &[TWO]);
    one.task.idempotency_key = Some("k".to_owned());
    place.adopt(&ann(), vec![one, adopted(TWO, Status::Ready, &[ONE])]).await.unwrap();
    let statuses = [status(&place, ONE).await, status(&place, TWO).await];
    assert!(statuses.contains(&Status::Ready) && statuses.contains(&Status::Todo), "{statuses:?}");
    let mut read = place.read().await.unwrap();
    assert_eq!(read.task_with_key("k").await.unwrap().unwrap().id, here);
}
