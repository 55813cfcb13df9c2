//! What a worker may do, and that one which lost its task may do nothing.

use vestal_board::testing::{TestBoard, profile};
use vestal_board::{
    Authority, Block, BlockKind, BoardRefusal, Error, Fence, Heartbeat, Promotion, Result, Role,
    Status, TaskEdit, TaskId,
};

use crate::support::{
    LEASE, add, after, ann, because, claim, done, get, place, process, ready, running, status,
    take, titled,
};

/// A worker whose task was given to another, and that other.
async fn stale(place: &TestBoard) -> (TaskId, Fence, Fence) {
    let (id, old) = running(place).await;
    place.reclaim(&ann(), &id, "taken for dead").await.unwrap();
    let new = take(place, &id).await;
    (id, old, new)
}

/// All that a worker can write, by name.
async fn every_write(place: &TestBoard, fence: &Fence) -> Vec<(&'static str, Result<()>)> {
    let (id, by) = (&fence.task, &Authority::Worker(fence.clone()));
    let beat = Heartbeat { lease: LEASE, activity: true, note: None };
    let summary = TaskEdit { summary: Some("s".to_owned()), ..TaskEdit::default() };
    let other = ready(place).await;
    vec![
        ("heartbeat", place.heartbeat(fence, beat).await.map(drop)),
        ("started", place.started(fence, process(place.host()), "").await),
        ("run_session", place.run_session(fence, "s").await),
        ("complete", place.complete(by, id, done("x")).await.map(drop)),
        ("submit", place.submit(by, id, done("x")).await.map(drop)),
        ("request_changes", place.request_changes(by, id, "x").await.map(drop)),
        ("block", place.block(by, id, because(BlockKind::NeedsInput)).await.map(drop)),
        ("schedule", place.schedule(by, id, "x", None).await.map(drop)),
        ("edit", place.edit(by, id, summary).await.map(drop)),
        ("comment", place.comment(by, id, "x").await.map(drop)),
        ("comment elsewhere", place.comment(by, &other, "x").await.map(drop)),
        ("create", place.create(by, titled("x")).await.map(drop)),
        ("link", place.link(by, &other, id).await.map(drop)),
    ]
}

#[tokio::test]
async fn a_worker_that_lost_its_task_can_write_nothing() {
    let place = place().await;
    let (id, old, new) = stale(&place).await;
    let before = place.show(&id).await.unwrap();
    for (verb, result) in every_write(&place, &old).await {
        let error = result.expect_err(verb);
        let Error::Fenced { run, now, .. } = &error else { panic!("{verb}: {error}") };
        assert_eq!((*run, *now), (old.run, Some(new.run)), "{verb}");
    }
    let after = place.show(&id).await.unwrap();
    assert_eq!(after.task, before.task);
    assert_eq!(after.comments, before.comments);
    assert_eq!(after.runs.last(), before.runs.last(), "its successor is untouched");
    let made = crate::support::everything(&place).await;
    assert!(made.iter().all(|task| task.created_by_run.is_none()));
}

#[tokio::test]
async fn a_worker_whose_task_nobody_holds_can_write_nothing() {
    let place = place().await;
    let (id, fence) = running(&place).await;
    place.archive(&ann(), &id).await.unwrap();
    for (verb, result) in every_write(&place, &fence).await {
        let error = result.expect_err(verb);
        assert!(matches!(error, Error::Fenced { now: None, .. }), "{verb}: {error}");
    }
    place.run_gone(fence.run).await.unwrap();
    place.delete(&ann(), &id).await.unwrap();
    let by = Authority::Worker(fence);
    let error = place.create(&by, titled("x")).await.unwrap_err();
    assert!(matches!(error, Error::Fenced { .. }), "{error}");
}

#[tokio::test]
async fn a_worker_changes_no_task_but_its_own() {
    let place = place().await;
    let (_, fence) = running(&place).await;
    let (other, _) = running(&place).await;
    let by = Authority::Worker(fence);
    let results: Vec<(&str, Result<()>)> = vec![
        ("complete", place.complete(&by, &other, done("x")).await.map(drop)),
        ("submit", place.submit(&by, &other, done("x")).await.map(drop)),
        ("block", place.block(&by, &other, because(BlockKind::NeedsInput)).await.map(drop)),
        ("schedule", place.schedule(&by, &other, "x", None).await.map(drop)),
        ("edit", place.edit(&by, &other, TaskEdit::default()).await.map(drop)),
        ("archive", place.archive(&by, &other).await.map(drop)),
        ("reclaim", place.reclaim(&by, &other, "x").await.map(drop)),
        ("assign", place.assign(&by, &other, Some(profile("beta"))).await.map(drop)),
        ("unblock", place.unblock(&by, &other, None).await.map(drop)),
        ("promote", place.promote(&by, &other, Promotion::default()).await.map(drop)),
        ("reopen", place.reopen(&by, &other, "").await.map(drop)),
        ("delete", place.delete(&by, &other).await),
        ("claim", place.claim(&by, &other, claim(&place, Role::Work)).await.map(drop)),
        ("unlink", place.unlink(&by, &other, &other).await.map(drop)),
    ];
    for (verb, result) in results {
        let error = result.expect_err(verb);
        assert!(matches!(error, Error::Refused(BoardRefusal::NotYours { .. })), "{verb}: {error}");
    }
    assert_eq!(status(&place, &other).await, Status::Running);
}

#[tokio::test]
async fn a_worker_opens_no_gate_of_its_own_task() {
    let place = place().await;
    let (id, fence) = running(&place).await;
    let by = Authority::Worker(fence);
    place.block(&by, &id, because(BlockKind::NeedsInput)).await.unwrap();
    assert!(place.unblock(&by, &id, None).await.is_err());
    assert!(
        place.promote(&by, &id, Promotion { force: true, ..Default::default() }).await.is_err()
    );
    assert_eq!(status(&place, &id).await, Status::Blocked);
    let forbidden = Block { reason: "x".to_owned(), kind: Some(BlockKind::GaveUp) };
    assert!(matches!(place.block(&ann(), &id, forbidden).await, Err(Error::Invalid { .. })));
}

#[tokio::test]
async fn a_worker_comments_anywhere_under_its_own_name() {
    let place = place().await;
    let (_, fence) = running(&place).await;
    let other = ready(&place).await;
    place.comment(&Authority::Worker(fence), &other, "found something").await.unwrap();
    let sheet = place.show(&other).await.unwrap();
    assert_eq!(sheet.comments[0].author, "alpha");
}

#[tokio::test]
async fn a_worker_links_what_it_made_and_its_own_task_only() {
    let place = place().await;
    let (id, fence) = running(&place).await;
    let by = Authority::Worker(fence);
    let made = place.create(&by, titled("made")).await.unwrap().task.id;
    let (foreign, other) = (ready(&place).await, ready(&place).await);
    place.link(&by, &foreign, &made).await.unwrap();
    place.link(&by, &made, &id).await.unwrap();
    let error = place.link(&by, &foreign, &other).await.unwrap_err();
    assert!(matches!(error, Error::Refused(BoardRefusal::NotYours { .. })), "{error}");
    assert_eq!(get(&place, &other).await.pending_parents, 0);
}

#[tokio::test]
async fn a_worker_edits_what_came_of_its_work_and_nothing_else() {
    let place = place().await;
    let (id, fence) = running(&place).await;
    let by = Authority::Worker(fence);
    let outcome = TaskEdit { summary: Some("so far".to_owned()), ..TaskEdit::default() };
    place.edit(&by, &id, outcome).await.unwrap();
    assert_eq!(place.show(&id).await.unwrap().latest_summary.as_deref(), Some("so far"));
    let title = TaskEdit { title: Some("easier".to_owned()), ..TaskEdit::default() };
    let error = place.edit(&by, &id, title).await.unwrap_err();
    assert!(matches!(error, Error::Refused(BoardRefusal::NotYours { .. })), "{error}");
}

#[tokio::test]
async fn tasks_that_a_worker_did_not_make_end_nothing() {
    let place = place().await;
    let (id, fence) = running(&place).await;
    let by = Authority::Worker(fence);
    let made = place.create(&by, titled("made")).await.unwrap().task.id;
    let child = add(&place, after(&[&id])).await;
    let foreign = ready(&place).await;
    let ghost: TaskId = "t_000000000000".parse().unwrap();

    let mut naming = done("all done");
    naming.created_cards = vec![made.clone(), foreign.clone(), ghost.clone()];
    let error = place.complete(&by, &id, naming.clone()).await.unwrap_err();
    let Error::Refused(BoardRefusal::Phantoms { tasks }) = &error else { panic!("{error}") };
    assert_eq!(*tasks, [foreign, ghost]);
    assert_eq!(status(&place, &id).await, Status::Running);
    let event = crate::support::reported(&place, &id, "completion_blocked_hallucination").await;
    assert_eq!(event["verified_cards"], serde_json::json!([made]));

    naming.created_cards = vec![made, child];
    place.complete(&by, &id, naming).await.unwrap();
    assert_eq!(status(&place, &id).await, Status::Done);
}

#[tokio::test]
async fn a_worker_is_refused_before_it_learns_whether_a_task_exists() {
    let place = place().await;
    let (_, fence) = running(&place).await;
    let by = &Authority::Worker(fence);
    let id = &"t_000000000000".parse::<TaskId>().unwrap();
    for (verb, result) in [
        ("archive", place.archive(by, id).await.map(drop)),
        ("assign", place.assign(by, id, None).await.map(drop)),
        ("claim", place.claim(by, id, claim(&place, Role::Work)).await.map(drop)),
        ("delete", place.delete(by, id).await),
        ("promote", place.promote(by, id, Promotion::default()).await.map(drop)),
        ("reclaim", place.reclaim(by, id, "").await.map(drop)),
        ("reopen", place.reopen(by, id, "").await.map(drop)),
        ("unblock", place.unblock(by, id, None).await.map(drop)),
        ("unlink", place.unlink(by, id, id).await.map(drop)),
    ] {
        let error = result.expect_err(verb);
        let Error::Refused(BoardRefusal::NotYours { verb: named, .. }) = &error else {
            panic!("{verb}: {error}")
        };
        assert_eq!(*named, verb);
    }
}
