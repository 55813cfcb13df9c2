//! Blocks, moments, gates and loops.

use std::time::Duration;

use vestal_board::testing::TestBoard;
use vestal_board::verbs::steps;
use vestal_board::{
    Authority, Block, BlockKind, BoardRefusal, Error, Initial, NewTask, Promotion, Status, TaskId,
    Time,
};

use crate::support::{
    add, after, ann, at, because, dispatcher, done, get, kinds, place, ready, reported, running,
    status, take,
};

/// Wakes what has come due, as a dispatcher does.
async fn wake(place: &TestBoard, id: &TaskId) -> bool {
    let mut tx = place.write().await.unwrap();
    let due = tx.due(100).await.unwrap();
    let woken = steps::wake_in(&mut *tx, &dispatcher(), id).await.unwrap().is_some();
    tx.commit().await.unwrap();
    assert_eq!(due.iter().any(|task| task.id == *id), woken, "the store and the machine agree");
    woken
}

#[tokio::test]
async fn reasons_are_kept_as_comments_too() {
    let place = place().await;
    let id = ready(&place).await;
    place.block(&ann(), &id, because(BlockKind::NeedsInput)).await.unwrap();
    place.unblock(&ann(), &id, Some("answered")).await.unwrap();
    place.schedule(&ann(), &id, "tomorrow", None).await.unwrap();
    let comments = place.show(&id).await.unwrap().comments;
    let bodies: Vec<&str> = comments.iter().map(|comment| comment.body.as_str()).collect();
    assert_eq!(bodies, ["BLOCKED: a reason", "UNBLOCK: answered", "SCHEDULED: tomorrow"]);
}

#[tokio::test]
async fn a_block_that_asks_a_person_says_so_until_it_moves_on() {
    let place = place().await;
    for kind in [BlockKind::NeedsInput, BlockKind::Capability] {
        let (id, fence) = running(&place).await;
        let moved = place.block(&Authority::Worker(fence), &id, because(kind)).await.unwrap();
        let task = moved.task;
        assert_eq!((task.status, task.gate), (Status::Blocked, true));
        assert_eq!(task.attention.as_deref(), Some("a reason"));
        assert_eq!(moved.ended.unwrap().outcome, Some(vestal_board::Outcome::Blocked));
        place.advance(Duration::from_hours(1000));
        assert!(!wake(&place, &id).await);
        let task = place.unblock(&ann(), &id, None).await.unwrap().task;
        assert_eq!((task.status, task.gate, task.attention), (Status::Ready, false, None));
    }
}

#[tokio::test]
async fn the_second_block_of_a_kind_in_a_row_is_a_persons_to_decide() {
    let place = place().await;
    let id = ready(&place).await;
    for round in 1..=2 {
        let by = Authority::Worker(take(&place, &id).await);
        let moved = place.block(&by, &id, because(BlockKind::NeedsInput)).await.unwrap();
        if round == 1 {
            assert_eq!(moved.task.status, Status::Blocked);
            place.unblock(&ann(), &id, None).await.unwrap();
        }
    }
    let task = get(&place, &id).await;
    assert_eq!((task.status, task.gate), (Status::Triage, true));
    assert!(task.attention.is_some(), "a person hears of it");
    let event = reported(&place, &id, "block_loop_detected").await;
    assert_eq!((&event["recurrences"], &event["limit"]), (&2.into(), &2.into()));
    assert!(place.unblock(&dispatcher(), &id, None).await.is_err());
    assert!(place.promote(&dispatcher(), &id, Promotion::default()).await.is_err());

    // The person decided: counting restarts.
    place.unblock(&ann(), &id, Some("now it is clear")).await.unwrap();
    let by = Authority::Worker(take(&place, &id).await);
    place.block(&by, &id, because(BlockKind::NeedsInput)).await.unwrap();
    assert_eq!(status(&place, &id).await, Status::Blocked);
}

#[tokio::test]
async fn blocks_of_different_kinds_are_no_loop() {
    let place = place().await;
    let id = ready(&place).await;
    for kind in [Some(BlockKind::NeedsInput), Some(BlockKind::Capability), None] {
        let block = Block { reason: "r".to_owned(), kind };
        let moved = place.block(&ann(), &id, block).await.unwrap();
        assert_eq!(moved.task.status, Status::Blocked, "{kind:?}");
        place.unblock(&ann(), &id, None).await.unwrap();
    }
    let untyped = Block { reason: "r".to_owned(), kind: None };
    assert_eq!(place.block(&ann(), &id, untyped).await.unwrap().task.status, Status::Triage);
}

#[tokio::test]
async fn a_passing_trouble_passes_by_itself_a_few_times() {
    let place = place().await;
    let id = ready(&place).await;
    for round in 1..=5_u32 {
        let by = Authority::Worker(take(&place, &id).await);
        let task = place.block(&by, &id, because(BlockKind::Transient)).await.unwrap().task;
        if round == 5 {
            assert_eq!((task.status, task.gate), (Status::Triage, true));
            break;
        }
        let wait = Duration::from_mins(5) * 2_u32.pow(round - 1);
        assert_eq!((task.status, task.gate), (Status::Blocked, false));
        assert_eq!(task.wake_at, Some(task.updated_at.after(wait)));
        let almost = wait.saturating_sub(Duration::from_millis(1));
        place.advance(almost);
        assert!(!wake(&place, &id).await, "not yet");
        place.advance(Duration::from_millis(1));
        assert!(wake(&place, &id).await);
        assert_eq!(status(&place, &id).await, Status::Ready);
        assert_eq!(reported(&place, &id, "unblocked").await["reason"], "due");
    }
}

#[tokio::test]
async fn a_task_that_waits_for_nothing_cannot_be_blocked_by_a_dependency() {
    let place = place().await;
    let (id, fence) = running(&place).await;
    let by = Authority::Worker(fence);
    let error = place.block(&by, &id, because(BlockKind::Dependency)).await.unwrap_err();
    assert!(matches!(error, Error::Refused(BoardRefusal::NothingToWaitFor { .. })), "{error}");
    assert_eq!(status(&place, &id).await, Status::Running);

    let needed = place.create(&by, crate::support::titled("needed")).await.unwrap().task.id;
    place.link(&by, &needed, &id).await.unwrap();
    let moved = place.block(&by, &id, because(BlockKind::Dependency)).await.unwrap();
    assert_eq!((moved.task.status, moved.task.gate), (Status::Todo, false));
    assert_eq!(kinds(&place, &id).await.last().unwrap(), "dependency_wait");
    let moved = place.complete(&ann(), &needed, done("there")).await.unwrap();
    assert_eq!(moved.promoted, std::slice::from_ref(&id));
    assert_eq!(status(&place, &id).await, Status::Ready);
}

#[tokio::test]
async fn a_task_that_is_put_off_comes_back_at_its_moment() {
    let place = place().await;
    let id = ready(&place).await;
    let at = get(&place, &id).await.created_at.after(Duration::from_hours(2));
    let task = place.schedule(&ann(), &id, "tonight", Some(at)).await.unwrap().task;
    assert_eq!((task.status, task.wake_at), (Status::Scheduled, Some(at)));
    assert!(!wake(&place, &id).await);
    place.advance(Duration::from_hours(2));
    assert!(wake(&place, &id).await);
    let task = get(&place, &id).await;
    assert_eq!((task.status, task.wake_at), (Status::Ready, None));
    assert_eq!(reported(&place, &id, "promoted").await["reason"], "due");
}

#[tokio::test]
async fn a_task_made_for_later_begins_then() {
    let place = place().await;
    let at = place.clock().now().after(Duration::from_hours(2));
    let new = NewTask { initial: Initial::At(at), ..crate::support::titled("t") };
    let id = add(&place, new).await;
    let task = get(&place, &id).await;
    assert_eq!((task.status, task.wake_at, task.queue_as()), (Status::Scheduled, Some(at), None));
    place.advance(Duration::from_hours(2));
    assert!(wake(&place, &id).await);
    assert_eq!(get(&place, &id).await.queue_as(), Some("alpha"));
}

#[tokio::test]
async fn a_moment_does_not_end_the_wait_for_other_tasks() {
    let place = place().await;
    let parent = ready(&place).await;
    let id = add(&place, after(&[&parent])).await;
    let at = get(&place, &id).await.created_at.after(Duration::from_secs(1));
    place.schedule(&ann(), &id, "soon", Some(at)).await.unwrap();
    place.advance(Duration::from_secs(1));
    assert!(wake(&place, &id).await);
    assert_eq!(status(&place, &id).await, Status::Todo);
    place.complete(&ann(), &parent, done("done")).await.unwrap();
    assert_eq!(status(&place, &id).await, Status::Ready);
}

#[tokio::test]
async fn a_worker_cannot_put_its_task_off_to_the_past() {
    let place = place().await;
    let (id, fence) = running(&place).await;
    let by = Authority::Worker(fence);
    let error = place.schedule(&by, &id, "again", Some(Time::from_millis(1))).await.unwrap_err();
    assert!(error.to_string().contains("the moment has passed"), "{error}");
    let task = place.schedule(&by, &id, "when asked", None).await.unwrap().task;
    assert!(task.attention.is_some(), "without a moment, a person has to hear of it");
}

#[tokio::test]
async fn an_explicit_requeue_beats_every_guard() {
    let place = place().await;
    let policy = vestal_board::dispatch::FailurePolicy::default();
    for verb in ["unblock", "promote", "assign"] {
        let (id, fence) = running(&place).await;
        let end = crate::support::ended(vestal_board::Outcome::RateLimited);
        let task = place.end_run(fence.run, end, &policy).await.unwrap().task;
        assert!(task.wake_at.is_some() && task.guard.is_some());
        assert_eq!(task.queue_as(), None);
        let by = ann();
        match verb {
            "unblock" => drop(place.unblock(&by, &id, None).await.unwrap()),
            "promote" => drop(place.promote(&by, &id, Promotion::default()).await.unwrap()),
            _ => drop(place.assign(&by, &id, get(&place, &id).await.assignee).await.unwrap()),
        }
        let sheet = place.show(&id).await.unwrap();
        assert_eq!((sheet.task.wake_at, &sheet.task.guard), (None, &None), "{verb}");
        assert_eq!(sheet.task.queue_as(), Some("alpha"), "{verb}");
        assert_eq!(sheet.failures, [], "{verb}");
    }
}

#[tokio::test]
async fn words_about_a_pull_request_or_an_author_guard_nothing() {
    let place = place().await;
    let id = ready(&place).await;
    place.comment(&ann(), &id, "see https://github.com/o/r/pull/1 by its author").await.unwrap();
    assert_eq!(get(&place, &id).await.queue_as(), Some("alpha"));
    let by = Authority::Worker(take(&place, &id).await);
    place.submit(&by, &id, done("https://github.com/o/r/pull/1")).await.unwrap();
    place.request_changes(&ann(), &id, "rename it").await.unwrap();
    assert_eq!(get(&place, &id).await.queue_as(), Some("alpha"), "at once");
}

#[tokio::test]
async fn force_is_needed_to_go_on_before_the_tasks_one_waits_for() {
    let place = place().await;
    let parent = ready(&place).await;
    let id = add(&place, after(&[&parent])).await;
    let error = place.promote(&ann(), &id, Promotion::default()).await.unwrap_err();
    let Error::Refused(BoardRefusal::UnfinishedParents { parents, .. }) = &error else {
        panic!("{error}")
    };
    assert_eq!(*parents, std::slice::from_ref(&parent));
    let force = Promotion { reason: "now".to_owned(), force: true, ..Promotion::default() };
    let task = place.promote(&ann(), &id, force).await.unwrap().task;
    assert_eq!((task.status, task.pending_parents), (Status::Ready, 1));
    let event = reported(&place, &id, "promoted_manual").await;
    assert_eq!((&event["actor"], &event["forced"]), (&"ann".into(), &true.into()));
    take(&place, &id).await;
}

#[tokio::test]
async fn a_promotion_that_is_only_tried_changes_nothing() {
    let place = place().await;
    let id = at(&place, Status::Blocked).await;
    let before = place.show(&id).await.unwrap();
    let promotion = Promotion { dry_run: true, ..Promotion::default() };
    let moved = place.promote(&ann(), &id, promotion).await.unwrap();
    assert_eq!(moved.task.status, Status::Ready, "what would come of it");
    assert_eq!(place.show(&id).await.unwrap(), before);
}

#[tokio::test]
async fn a_rough_idea_becomes_a_task_when_a_person_says_so() {
    let place = place().await;
    let id = at(&place, Status::Triage).await;
    assert!(place.unblock(&ann(), &id, None).await.is_err(), "it is not blocked");
    place.promote(&ann(), &id, Promotion::default()).await.unwrap();
    assert_eq!(status(&place, &id).await, Status::Ready);
}
