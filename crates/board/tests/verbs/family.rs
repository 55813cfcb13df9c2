//! Tasks that wait for others.

use serde_json::json;
use vestal_board::{Authority, BoardRefusal, Error, Status};

use crate::support::{
    add, after, ann, at, done, get, kinds, place, ready, reported, running, status, take,
};

#[tokio::test]
async fn the_last_parent_to_finish_makes_its_children_ready() {
    let place = place().await;
    let (a, b) = (ready(&place).await, ready(&place).await);
    let (both, one) = (add(&place, after(&[&a, &b])).await, add(&place, after(&[&a])).await);
    let moved = place.complete(&ann(), &a, done("done")).await.unwrap();
    assert_eq!(moved.promoted, std::slice::from_ref(&one));
    let task = get(&place, &both).await;
    assert_eq!((task.status, task.pending_parents), (Status::Todo, 1));
    let moved = place.complete(&ann(), &b, done("done")).await.unwrap();
    assert_eq!(moved.promoted, std::slice::from_ref(&both));
    assert_eq!(kinds(&place, &both).await, ["created", "promoted"]);
    assert_eq!(get(&place, &both).await.queue_as(), Some("alpha"));
}

#[tokio::test]
async fn an_archived_parent_is_not_waited_for_and_the_child_sees_what_was_skipped() {
    let place = place().await;
    let (never_done, done_before) = (ready(&place).await, ready(&place).await);
    let child = add(&place, after(&[&never_done, &done_before])).await;
    place.archive(&ann(), &never_done).await.unwrap();
    assert_eq!(status(&place, &child).await, Status::Todo);
    place.complete(&ann(), &done_before, done("done")).await.unwrap();
    assert_eq!(status(&place, &child).await, Status::Ready);
    let event = reported(&place, &child, "promoted").await;
    assert_eq!(event["unfinished_parents"], json!([never_done]));
    place.archive(&ann(), &done_before).await.unwrap();
    assert_eq!(get(&place, &child).await.pending_parents, 0, "it was satisfied before");
}

#[tokio::test]
async fn a_parent_taken_up_again_makes_ready_children_wait_and_leaves_others() {
    let place = place().await;
    let parent = ready(&place).await;
    place.complete(&ann(), &parent, done("done")).await.unwrap();
    let waiting = add(&place, after(&[&parent])).await;
    let working = add(&place, after(&[&parent])).await;
    let finished = add(&place, after(&[&parent])).await;
    take(&place, &working).await;
    place.complete(&ann(), &finished, done("done")).await.unwrap();
    let task = place.reopen(&ann(), &parent, "not good").await.unwrap().task;
    assert_eq!((task.status, task.completed_at), (Status::Ready, None));
    let statuses = [
        status(&place, &waiting).await,
        status(&place, &working).await,
        status(&place, &finished).await,
    ];
    assert_eq!(statuses, [Status::Todo, Status::Running, Status::Done]);
    assert_eq!(reported(&place, &waiting, "demoted").await["parent"], json!(parent));
    for id in [&waiting, &working, &finished] {
        assert_eq!(get(&place, id).await.pending_parents, 1);
    }
    place.complete(&ann(), &parent, done("better")).await.unwrap();
    assert_eq!(status(&place, &waiting).await, Status::Ready);
}

#[tokio::test]
async fn a_reopened_task_waits_for_its_own_parents() {
    let place = place().await;
    let parent = ready(&place).await;
    let id = add(&place, after(&[&parent])).await;
    place.archive(&ann(), &id).await.unwrap();
    let task = place.reopen(&ann(), &id, "").await.unwrap().task;
    assert_eq!(task.status, Status::Todo);
}

#[tokio::test]
async fn a_link_to_an_unfinished_task_makes_a_ready_one_wait_and_unlinking_frees_it() {
    let place = place().await;
    let (parent, child) = (ready(&place).await, ready(&place).await);
    let task = place.link(&ann(), &parent, &child).await.unwrap();
    assert_eq!((task.status, task.pending_parents), (Status::Todo, 1));
    let again = place.link(&ann(), &parent, &child).await.unwrap();
    assert_eq!(again.pending_parents, 1, "a link counts once");
    let task = place.unlink(&ann(), &parent, &child).await.unwrap();
    assert_eq!((task.status, task.pending_parents), (Status::Ready, 0));
    let reported = kinds(&place, &child).await;
    assert_eq!(reported, ["created", "linked", "demoted", "unlinked", "promoted"]);
    let error = place.unlink(&ann(), &parent, &child).await.unwrap_err();
    assert!(error.to_string().contains("does not wait for"), "{error}");
}

#[tokio::test]
async fn a_link_to_a_finished_task_changes_nothing_else() {
    let place = place().await;
    let (parent, child) = (at(&place, Status::Done).await, ready(&place).await);
    let task = place.link(&ann(), &parent, &child).await.unwrap();
    assert_eq!((task.status, task.pending_parents), (Status::Ready, 0));
    place.unlink(&ann(), &parent, &child).await.unwrap();
    assert_eq!(get(&place, &child).await.pending_parents, 0);
}

#[tokio::test]
async fn nothing_waits_for_itself_not_even_by_way_of_others() {
    let place = place().await;
    let a = ready(&place).await;
    let b = add(&place, after(&[&a])).await;
    let c = add(&place, after(&[&b])).await;
    for (parent, child) in [(&a, &a), (&b, &a), (&c, &a), (&c, &b)] {
        let error = place.link(&ann(), parent, child).await.unwrap_err();
        assert!(matches!(error, Error::Refused(BoardRefusal::Cycle { .. })), "{error}");
    }
    place.link(&ann(), &a, &c).await.unwrap();
}

#[tokio::test]
async fn a_deleted_parent_is_waited_for_by_nobody() {
    let place = place().await;
    let parent = ready(&place).await;
    let child = add(&place, after(&[&parent])).await;
    place.archive(&ann(), &parent).await.unwrap();
    place.delete(&ann(), &parent).await.unwrap();
    let task = get(&place, &child).await;
    assert_eq!((task.status, task.pending_parents), (Status::Ready, 0));
}

#[tokio::test]
async fn a_blocked_child_is_not_freed_by_its_parents() {
    let place = place().await;
    let parent = ready(&place).await;
    let child = add(&place, after(&[&parent])).await;
    let block = crate::support::because(vestal_board::BlockKind::NeedsInput);
    place.block(&ann(), &child, block).await.unwrap();
    let moved = place.complete(&ann(), &parent, done("done")).await.unwrap();
    assert_eq!(moved.promoted, []);
    let task = get(&place, &child).await;
    assert_eq!((task.status, task.pending_parents), (Status::Blocked, 0));
}

#[tokio::test]
async fn a_worker_that_makes_its_own_task_wait_goes_on_until_it_ends() {
    let place = place().await;
    let (id, fence) = running(&place).await;
    let by = Authority::Worker(fence);
    let needed = place.create(&by, crate::support::titled("needed")).await.unwrap().task.id;
    let task = place.link(&by, &needed, &id).await.unwrap();
    assert_eq!((task.status, task.pending_parents), (Status::Running, 1));
    place.reclaim(&ann(), &id, "stop").await.unwrap();
    assert_eq!(status(&place, &id).await, Status::Todo);
}
