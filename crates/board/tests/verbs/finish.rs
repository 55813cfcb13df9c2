//! Ends, reviews, and what is handed over.

use serde_json::json;
use vestal_board::NewAttachment;
use vestal_board::testing::profile;
use vestal_board::{
    AttachmentSource, Authority, Block, BlockKind, Error, NewTask, Outcome, Role, Status,
    TaskCompletion, TaskEdit,
};

use crate::support::{
    add, all_gone, ann, at, because, claim, dispatcher, done, ended, get, kinds, place, ready,
    reported, running, status, take, titled,
};

#[tokio::test]
async fn what_a_worker_hands_over_is_kept_with_its_run() {
    let place = place().await;
    let (id, fence) = running(&place).await;
    let handoff = TaskCompletion {
        summary: Some("first line\nsecond".to_owned()),
        result: Some("42".to_owned()),
        metadata: Some(json!({"files": 3})),
        artifacts: vec!["report.pdf".to_owned()],
        ..TaskCompletion::default()
    };
    let moved = place.complete(&Authority::Worker(fence), &id, handoff).await.unwrap();
    assert_eq!(moved.task.status, Status::Done);
    assert_eq!(moved.task.completed_at, Some(moved.task.updated_at));
    let sheet = place.show(&id).await.unwrap();
    assert_eq!(sheet.task.result.as_deref(), Some("42"));
    assert_eq!(sheet.latest_summary.as_deref(), Some("first line\nsecond"));
    assert_eq!(sheet.runs[0].metadata, Some(json!({"files": 3})));
    assert_eq!(sheet.runs[0].outcome, Some(Outcome::Completed));
    assert_eq!(
        reported(&place, &id, "completed").await,
        json!({"result_len": 2, "summary": "first line", "artifacts": ["report.pdf"]})
    );
}

#[tokio::test]
async fn finishing_a_task_that_nobody_held_loses_no_handoff() {
    let place = place().await;
    let id = ready(&place).await;
    place.complete(&ann(), &id, done("did it by hand")).await.unwrap();
    let sheet = place.show(&id).await.unwrap();
    assert_eq!(sheet.latest_summary.as_deref(), Some("did it by hand"));
    let run = &sheet.runs[0];
    assert_eq!((run.started_at, run.gone), (run.ended_at.unwrap(), true));
    assert_eq!(sheet.events.last().unwrap().run_id, Some(run.id));

    let blocked = ready(&place).await;
    place.block(&ann(), &blocked, because(BlockKind::NeedsInput)).await.unwrap();
    assert_eq!(place.show(&blocked).await.unwrap().runs[0].outcome, Some(Outcome::Blocked));
}

#[tokio::test]
async fn what_is_too_large_to_hand_over_is_refused_and_the_task_goes_on() {
    let place = place().await;
    let (id, fence) = running(&place).await;
    let by = Authority::Worker(fence);
    let large = json!({"x": "y".repeat(64 * 1024)});
    for metadata in [large, json!([1, 2])] {
        let handoff = TaskCompletion { metadata: Some(metadata), ..done("x") };
        let error = place.complete(&by, &id, handoff).await.unwrap_err();
        assert!(error.to_string().contains("the metadata"), "{error}");
    }
    let error = place.comment(&by, &id, &"x".repeat(64 * 1024 + 1)).await.unwrap_err();
    assert!(error.to_string().contains("the comment has"), "{error}");
    assert_eq!(status(&place, &id).await, Status::Running);
}

#[tokio::test]
async fn work_that_has_to_be_looked_at_is_not_done_when_its_worker_says_so() {
    let place = place().await;
    let id = add(&place, NewTask { needs_review: true, ..titled("t") }).await;
    let fence = take(&place, &id).await;
    let moved = place.complete(&Authority::Worker(fence), &id, done("look")).await.unwrap();
    assert_eq!(moved.task.status, Status::Review);
    assert_eq!(moved.ended.unwrap().outcome, Some(Outcome::Submitted));
    assert_eq!(moved.task.queue_as(), None, "a person looks at it");
    assert!(moved.task.attention.is_some());
    assert_eq!(kinds(&place, &id).await.last().unwrap(), "submitted");
    let moved = place.complete(&ann(), &id, done("approved")).await.unwrap();
    assert_eq!((moved.task.status, moved.task.attention), (Status::Done, None));
}

#[tokio::test]
async fn a_reviewer_approves_or_sends_back() {
    let place = place().await;
    let new = NewTask { reviewer: Some(profile("beta")), ..titled("t") };
    let id = add(&place, new).await;
    let worker = take(&place, &id).await;
    place.submit(&Authority::Worker(worker), &id, done("look")).await.unwrap();
    assert_eq!(get(&place, &id).await.queue_as(), Some("beta"));

    let review =
        || vestal_board::Claim { profile: Some(profile("beta")), ..claim(&place, Role::Review) };
    all_gone(&place).await;
    let run = place.claim(&dispatcher(), &id, review()).await.unwrap();
    let fence = |run: &vestal_board::Run| {
        let profile = profile("beta");
        Authority::Worker(vestal_board::Fence { task: id.clone(), run: run.id, profile })
    };
    let again = place.submit(&fence(&run), &id, done("x")).await;
    assert!(matches!(again, Err(Error::Invalid { .. })), "{again:?}");
    let moved = place.request_changes(&fence(&run), &id, "add tests").await.unwrap();
    assert_eq!(moved.task.status, Status::Ready);
    assert_eq!(moved.task.queue_as(), Some("alpha"));
    let comments = place.show(&id).await.unwrap().comments;
    assert_eq!(comments.last().unwrap().body, "CHANGES: add tests");

    let worker = take(&place, &id).await;
    place.complete(&Authority::Worker(worker), &id, done("with tests")).await.unwrap();
    all_gone(&place).await;
    let run = place.claim(&dispatcher(), &id, review()).await.unwrap();
    let moved = place.complete(&fence(&run), &id, done("fine")).await.unwrap();
    assert_eq!(moved.task.status, Status::Done);
}

#[tokio::test]
async fn a_review_that_fails_or_waits_is_a_review_afterwards() {
    let place = place().await;
    let id = at(&place, Status::Review).await;
    let fence = take(&place, &id).await;
    let policy = vestal_board::dispatch::FailurePolicy::default();
    let moved = place.end_run(fence.run, ended(Outcome::Crashed), &policy).await.unwrap();
    assert_eq!(moved.task.status, Status::Review);
    place.run_gone(fence.run).await.unwrap();

    place.unblock(&ann(), &id, None).await.unwrap();
    let fence = take(&place, &id).await;
    place.block(&Authority::Worker(fence), &id, because(BlockKind::NeedsInput)).await.unwrap();
    assert_eq!(status(&place, &id).await, Status::Blocked);
    place.unblock(&ann(), &id, None).await.unwrap();
    let task = get(&place, &id).await;
    assert_eq!((task.status, task.attention.is_some()), (Status::Review, true));

    place.block(&ann(), &id, because(BlockKind::Capability)).await.unwrap();
    place.unblock(&ann(), &id, None).await.unwrap();
    assert_eq!(status(&place, &id).await, Status::Review, "also where a person blocked it");
    place.request_changes(&ann(), &id, "no").await.unwrap();
    place.schedule(&ann(), &id, "later", None).await.unwrap();
    place.unblock(&ann(), &id, None).await.unwrap();
    assert_eq!(status(&place, &id).await, Status::Ready, "after changes were requested");
}

#[tokio::test]
async fn work_waits_for_a_person_only_while_no_profile_looks_at_it() {
    let place = place().await;
    let id = at(&place, Status::Review).await;
    let set = |reviewer| TaskEdit { reviewer: Some(reviewer), ..TaskEdit::default() };
    let task = place.edit(&ann(), &id, set(Some(profile("beta")))).await.unwrap();
    assert_eq!((task.attention.as_deref(), task.queue_as()), (None, Some("beta")));
    let task = place.edit(&ann(), &id, set(None)).await.unwrap();
    assert_eq!((task.attention.is_some(), task.queue_as()), (true, None));
}

#[tokio::test]
async fn a_block_that_asks_for_review_submits_the_work() {
    let place = place().await;
    let (id, fence) = running(&place).await;
    let block = Block { reason: "Review-Required: see branch".to_owned(), kind: None };
    let moved = place.block(&Authority::Worker(fence), &id, block).await.unwrap();
    assert_eq!(moved.task.status, Status::Review);
    assert_eq!(moved.ended.unwrap().summary.as_deref(), Some("see branch"));
}

#[tokio::test]
async fn what_came_of_a_task_can_be_put_right_afterwards() {
    let place = place().await;
    let id = at(&place, Status::Done).await;
    let edit = TaskEdit {
        result: Some("43".to_owned()),
        summary: Some("better".to_owned()),
        metadata: Some(json!({"a": 1})),
        priority: Some(3),
        ..TaskEdit::default()
    };
    place.edit(&ann(), &id, edit).await.unwrap();
    let sheet = place.show(&id).await.unwrap();
    assert_eq!(sheet.task.result.as_deref(), Some("43"));
    assert_eq!(sheet.latest_summary.as_deref(), Some("better"));
    assert_eq!(
        reported(&place, &id, "edited").await["fields"],
        json!(["result", "summary", "metadata"])
    );
    assert_eq!(reported(&place, &id, "reprioritized").await, json!({"priority": 3}));
    let events = kinds(&place, &id).await.len();
    place.edit(&ann(), &id, TaskEdit { priority: Some(3), ..TaskEdit::default() }).await.unwrap();
    assert_eq!(kinds(&place, &id).await.len(), events, "nothing changed, nothing is reported");
}

#[tokio::test]
async fn a_deleted_task_leaves_neither_row_nor_file_behind() {
    let place = place().await;
    let (id, fence) = running(&place).await;
    let new = NewAttachment {
        name: "notes.txt".to_owned(),
        content_type: None,
        source: AttachmentSource::Bytes(b"bytes".to_vec()),
    };
    let file = place.attachment_path(&place.attach(&ann(), &id, new).await.unwrap());
    let log = vestal_board::log_path(place.dir(), &id);
    std::fs::create_dir_all(log.parent().unwrap()).unwrap();
    std::fs::write(&log, "log").unwrap();
    assert!(file.exists());
    let parent = ready(&place).await;
    place.link(&ann(), &parent, &id).await.unwrap();
    place.comment(&ann(), &id, "gone soon").await.unwrap();
    place.archive(&ann(), &id).await.unwrap();
    place.delete(&ann(), &id).await.unwrap();
    let mut tx = place.read().await.unwrap();
    assert_eq!(tx.run(fence.run).await.unwrap(), None);
    assert_eq!(tx.runs(&id, 10).await.unwrap(), []);
    assert_eq!(tx.comments(&id, 10).await.unwrap(), []);
    assert_eq!(tx.events(&id, 10).await.unwrap(), []);
    assert_eq!(tx.children(&parent).await.unwrap(), []);
    assert_eq!(tx.attachments(&id).await.unwrap(), []);
    assert!(!file.exists() && !file.parent().unwrap().exists() && !log.exists());
}
