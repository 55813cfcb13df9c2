//! Making tasks.

use std::path::PathBuf;
use std::time::Duration;

use vestal_board::testing::profile;
use vestal_board::verbs::{MAX_BODY, MAX_KEY};
use vestal_board::{
    Authority, BlockKind, BoardRefusal, Error, Initial, NewTask, Status, TaskId, TaskWorkspace,
};

use crate::support::{
    add, after, ann, done, everything, get, place, ready, running, status, titled,
};

#[tokio::test]
async fn a_task_without_parents_is_ready_and_queued() {
    let place = place().await;
    let created = place.create(&ann(), titled("  Write report \n")).await.unwrap();
    let task = created.task;
    assert!(!created.existed);
    assert_eq!(task.title, "Write report");
    assert_eq!(task.status, Status::Ready);
    assert_eq!(task.created_by, "ann");
    assert_eq!(task.queued_at, Some(task.created_at));
    assert_eq!(task.queue_as(), Some("alpha"));
    let stored = get(&place, &task.id).await;
    assert_eq!((stored.seq > 0, stored.title), (true, task.title));
}

#[tokio::test]
async fn a_task_waits_for_its_unfinished_parents_only() {
    let place = place().await;
    let (open, finished, archived) =
        (ready(&place).await, ready(&place).await, ready(&place).await);
    place.complete(&ann(), &finished, done("done")).await.unwrap();
    place.archive(&ann(), &archived).await.unwrap();
    let child = get(&place, &add(&place, after(&[&open, &finished, &archived])).await).await;
    assert_eq!((child.status, child.pending_parents), (Status::Todo, 1));
    let free = get(&place, &add(&place, after(&[&finished, &archived])).await).await;
    assert_eq!((free.status, free.pending_parents), (Status::Ready, 0));
}

#[tokio::test]
async fn a_parent_that_does_not_exist_is_an_error_and_makes_nothing() {
    let place = place().await;
    let ghost: TaskId = "t_000000000000".parse().unwrap();
    let error = place.create(&ann(), after(&[&ghost])).await.unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
    assert_eq!(everything(&place).await, []);
}

#[tokio::test]
async fn a_parent_named_twice_is_waited_for_once() {
    let place = place().await;
    let parent = ready(&place).await;
    let child = add(&place, after(&[&parent, &parent])).await;
    assert_eq!(get(&place, &child).await.pending_parents, 1);
    place.complete(&ann(), &parent, done("done")).await.unwrap();
    assert_eq!(status(&place, &child).await, Status::Ready);
}

#[tokio::test]
async fn a_task_made_blocked_waits_for_a_person_whatever_else_happens() {
    let place = place().await;
    let gated = add(&place, NewTask { initial: Initial::Blocked, ..titled("gate") }).await;
    let task = get(&place, &gated).await;
    assert_eq!((task.status, task.gate), (Status::Blocked, true));
    assert_eq!(task.block_kind, Some(BlockKind::Gate));

    // All that moves other tasks by itself: an end elsewhere, a list, time.
    let parent = ready(&place).await;
    let child = add(&place, NewTask { initial: Initial::Blocked, ..after(&[&parent]) }).await;
    place.complete(&ann(), &parent, done("done")).await.unwrap();
    everything(&place).await;
    place.advance(Duration::from_hours(24 * 365));
    for id in [&gated, &child] {
        let mut tx = place.write().await.unwrap();
        let by = crate::support::dispatcher();
        assert!(vestal_board::verbs::steps::wake_in(&mut *tx, &by, id).await.unwrap().is_none());
        tx.commit().await.unwrap();
        assert!(place.unblock(&by, id, None).await.is_err(), "a dispatcher is not a person");
        assert_eq!(status(&place, id).await, Status::Blocked);
    }

    place.unblock(&ann(), &gated, None).await.unwrap();
    assert_eq!(status(&place, &gated).await, Status::Ready);
}

#[tokio::test]
async fn the_same_key_is_the_same_task_until_it_is_archived() {
    let place = place().await;
    let keyed = || NewTask { idempotency_key: Some("k".to_owned()), ..titled("once") };
    let first = place.create(&ann(), keyed()).await.unwrap();
    let second = place.create(&ann(), keyed()).await.unwrap();
    assert_eq!((second.task.id.clone(), second.existed), (first.task.id.clone(), true));
    place.archive(&ann(), &first.task.id).await.unwrap();
    let third = place.create(&ann(), keyed()).await.unwrap();
    assert!(!third.existed && third.task.id != first.task.id);

    // The first is taken up again: the key stays with its heir.
    place.reopen(&ann(), &first.task.id, "again").await.unwrap();
    assert_eq!(get(&place, &first.task.id).await.idempotency_key, None);
    let fourth = place.create(&ann(), keyed()).await.unwrap();
    assert_eq!(fourth.task.id, third.task.id);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_that_create_with_one_key_at_once_one_makes_the_task_and_all_get_it() {
    let place = std::sync::Arc::new(place().await);
    let keyed = || NewTask { idempotency_key: Some("k".to_owned()), ..titled("once") };
    let mut asking = tokio::task::JoinSet::new();
    for number in 0..8 {
        let place = std::sync::Arc::clone(&place);
        asking.spawn(async move {
            // Each as another process would: with a store of its own.
            let board = place.from_host(&format!("host{number}")).await.unwrap();
            board.create(&ann(), keyed()).await.unwrap()
        });
    }
    let created = asking.join_all().await;
    let made = created.iter().filter(|one| !one.existed).count();
    assert_eq!(made, 1);
    assert!(created.iter().all(|one| one.task.id == created[0].task.id));
    assert_eq!(everything(&place).await.len(), 1);
}

#[tokio::test]
async fn many_are_made_together_or_not_at_all() {
    let place = place().await;
    let mut new: Vec<NewTask> = (0..50).map(|n| titled(&format!("task {n}"))).collect();
    new.push(NewTask { idempotency_key: Some("k".to_owned()), ..titled("a") });
    new.push(NewTask { idempotency_key: Some("k".to_owned()), ..titled("b") });
    let created = place.create_many(&ann(), new).await.unwrap();
    assert_eq!(created.len(), 52);
    assert_eq!(created[50].task.id, created[51].task.id);
    assert_eq!(everything(&place).await.len(), 51);

    let ghost: TaskId = "t_000000000000".parse().unwrap();
    let error = place.create_many(&ann(), vec![titled("fine"), after(&[&ghost])]).await;
    assert!(error.is_err());
    assert_eq!(everything(&place).await.len(), 51);
}

#[tokio::test]
async fn what_cannot_be_taken_is_refused_with_a_reason() {
    let place = place().await;
    let dir = |path: &str| TaskWorkspace::Dir { path: PathBuf::from(path) };
    let tree = |branch: &str| TaskWorkspace::Worktree {
        path: PathBuf::from("/srv/repo"),
        branch: Some(branch.to_owned()),
    };
    let new = || titled("fine");
    let cases: Vec<(NewTask, &str)> = vec![
        (titled("  "), "the title is empty"),
        (titled("two\nlines"), "single line"),
        (titled(&"x".repeat(501)), "501 characters"),
        (NewTask { body: "x".repeat(MAX_BODY + 1), ..new() }, "the body has"),
        (NewTask { body: "a\0b".to_owned(), ..new() }, "NUL"),
        (NewTask { priority: 1_000_001, ..new() }, "the priority is 1000001"),
        (NewTask { max_retries: Some(0), ..new() }, "retries is 0"),
        (NewTask { max_runtime: Some(Duration::ZERO), ..new() }, "under a second"),
        (NewTask { tenant: Some("a\u{7}".to_owned()), ..new() }, "control characters"),
        (NewTask { skills: vec!["a,b".to_owned()], ..new() }, "a comma"),
        (NewTask { workspace: dir("relative"), ..new() }, "not an absolute path"),
        (NewTask { workspace: dir("/srv/../etc"), ..new() }, "goes up by `..`"),
        (
            NewTask { workspace: tree("--upload-pack=x"), ..new() },
            "the branch is not a valid branch name",
        ),
        (NewTask { workspace: tree("a..b"), ..new() }, "the branch is not a valid branch name"),
        (
            NewTask { idempotency_key: Some("k".repeat(MAX_KEY + 1)), ..new() },
            "the idempotency key has",
        ),
    ];
    for (new, wanted) in cases {
        let error = place.create(&ann(), new).await.unwrap_err().to_string();
        assert!(error.contains(wanted), "{error:?} does not say {wanted:?}");
    }
    assert_eq!(everything(&place).await, []);
}

#[tokio::test]
async fn skills_are_kept_once_each() {
    let place = place().await;
    let skills = ["review", " review ", "humanizer"].map(str::to_owned).to_vec();
    let id = add(&place, NewTask { skills, ..titled("t") }).await;
    assert_eq!(get(&place, &id).await.skills, ["review", "humanizer"]);
}

#[tokio::test]
async fn a_workers_tasks_are_of_its_tenant_and_name_the_run_that_made_them() {
    let place = place().await;
    let new = NewTask { tenant: Some("acme".to_owned()), ..titled("parent") };
    let parent = add(&place, new).await;
    let fence = crate::support::take(&place, &parent).await;
    let worker = Authority::Worker(fence.clone());
    let new = NewTask {
        tenant: Some("other".to_owned()),
        created_by: Some("root".to_owned()),
        ..titled("child")
    };
    let child = place.create(&worker, new).await.unwrap().task;
    assert_eq!(child.tenant.as_deref(), Some("acme"));
    assert_eq!(child.created_by, "alpha");
    assert_eq!((child.created_by_run, child.depth), (Some(fence.run), 1));
    assert_eq!(child.workspace, TaskWorkspace::Scratch);
}

#[tokio::test]
async fn a_worker_reaches_no_directory_by_way_of_a_task_but_its_own() {
    let place = place().await;
    let own = TaskWorkspace::Dir { path: PathBuf::from("/srv/own") };
    let parent = add(&place, NewTask { workspace: own.clone(), ..titled("parent") }).await;
    let worker = Authority::Worker(crate::support::take(&place, &parent).await);
    let other = TaskWorkspace::Dir { path: PathBuf::from("/etc") };
    let error = place.create(&worker, NewTask { workspace: other, ..titled("c") }).await;
    assert!(error.unwrap_err().to_string().contains("the workspace"));
    let new = NewTask { inherit_workspace: true, ..titled("c") };
    let child = place.create(&worker, new).await.unwrap().task;
    assert_eq!(child.workspace, own);
    assert_eq!(child.workspace_host, get(&place, &parent).await.workspace_host);
}

#[tokio::test]
async fn a_run_makes_fifty_tasks_and_no_more() {
    let place = place().await;
    let (_, fence) = running(&place).await;
    let worker = Authority::Worker(fence);
    let new = (0..50).map(|n| titled(&format!("task {n}"))).collect();
    place.create_many(&worker, new).await.unwrap();
    let error = place.create(&worker, titled("one more")).await.unwrap_err();
    assert!(matches!(error, Error::Refused(BoardRefusal::TooMany { limit: 50 })), "{error}");
}

#[tokio::test]
async fn workers_whose_workers_make_tasks_come_to_an_end() {
    let place = place().await;
    let mut id = ready(&place).await;
    for depth in 1..=5 {
        let worker = Authority::Worker(crate::support::take(&place, &id).await);
        let task = place.create(&worker, titled("deeper")).await.unwrap().task;
        assert_eq!(task.depth, depth);
        id = task.id;
    }
    let worker = Authority::Worker(crate::support::take(&place, &id).await);
    let error = place.create(&worker, titled("too deep")).await.unwrap_err();
    assert!(matches!(error, Error::Refused(BoardRefusal::TooDeep { limit: 5 })), "{error}");
}

#[tokio::test]
async fn a_reviewer_means_that_the_work_is_looked_at() {
    let place = place().await;
    let id = add(&place, NewTask { reviewer: Some(profile("beta")), ..titled("t") }).await;
    assert!(get(&place, &id).await.needs_review);
}

#[tokio::test]
async fn a_task_waits_for_one_that_is_made_with_it_however_many_there_are() {
    let place = place().await;
    let by = ann();
    let mut creation = place.creation(&by).await.unwrap();
    let first = creation.add(&titled("first")).await.unwrap().task.id;
    let keyed = NewTask { idempotency_key: Some("k".to_owned()), ..titled("keyed") };
    let keyed_id = creation.add(&keyed).await.unwrap().task.id;
    let mut last = first.clone();
    // More than are given to the store at once.
    for number in 0..600 {
        let new = NewTask { parents: vec![last.clone()], ..titled(&number.to_string()) };
        let made = creation.add(&new).await.unwrap();
        assert_eq!((made.task.status, made.existed), (Status::Todo, false));
        last = made.task.id;
    }
    let again = creation.add(&keyed).await.unwrap();
    assert_eq!((again.task.id, again.existed), (keyed_id, true));
    creation.commit().await.unwrap();
    let all = place.list(&vestal_board::store::TaskQuery::default()).await.unwrap();
    assert_eq!(all.len(), 602);
    assert_eq!(place.complete(&by, &first, done("x")).await.unwrap().promoted.len(), 1);

    let mut creation = place.creation(&by).await.unwrap();
    creation.add(&titled("never")).await.unwrap();
    drop(creation);
    assert_eq!(place.list(&vestal_board::store::TaskQuery::default()).await.unwrap().len(), 602);
}
