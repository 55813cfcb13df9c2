//! Which tasks are started: assignees, reviewers, guards.

use std::slice::from_ref;
use std::time::Duration;

use vestal_board::dispatch::DispatchResult;
use vestal_board::{Authority, Fence, Promotion, Role, Status, TaskCompletion, TaskEvent, TaskId};

use crate::fixture::{LanesFixture, at_their_cap, person, profile, started};

#[tokio::test]
async fn a_task_of_nobody_is_skipped_and_left_alone_without_a_default_assignee() {
    let fixture = LanesFixture::with(&["default"]).await;
    let task = fixture.task("").await;
    let plan = fixture.dispatch(&fixture.policy()).await;
    assert_eq!(plan.result.skipped_unassigned.entries, from_ref(&task));
    assert!(plan.result.auto_assigned_default.is_empty());
    assert!(plan.result.spawned.is_empty());
    assert_eq!(fixture.get(&task).await.assignee, None);
}

#[tokio::test]
async fn a_task_of_nobody_is_given_to_the_default_assignee_and_started_at_once() {
    let fixture = LanesFixture::with(&["default"]).await;
    let task = fixture.task("").await;
    let (policy, printed) = fixture.configured("  default_assignee: default\n");
    assert_eq!(printed, [""; 0]);
    let plan = fixture.dispatch(&policy).await;
    assert_eq!(plan.result.auto_assigned_default.entries, from_ref(&task));
    assert!(plan.result.skipped_unassigned.is_empty());
    let spawned = &plan.result.spawned.entries;
    assert_eq!(spawned.len(), 1);
    assert_eq!((&spawned[0].task_id, spawned[0].assignee.as_str()), (&task, "default"));
    assert_eq!(fixture.get(&task).await.assignee.unwrap().as_str(), "default");
    let assigned = assigned(&fixture, &task).await;
    assert_eq!(assigned.len(), 1);
    assert_eq!(assigned[0].payload["assignee"], "default");
    assert_eq!(assigned[0].payload["source"], "kanban.default_assignee");
}

async fn assigned(fixture: &LanesFixture, task: &TaskId) -> Vec<TaskEvent> {
    let mut read = fixture.place.read().await.unwrap();
    let events = read.events(task, 100).await.unwrap();
    events.into_iter().filter(|event| event.kind == "assigned").collect()
}

#[tokio::test]
async fn a_dry_run_shows_who_would_get_a_task_and_gives_it_to_nobody() {
    let fixture = LanesFixture::with(&["default"]).await;
    let task = fixture.task("").await;
    let (policy, _) = fixture.configured("  default_assignee: default\n");
    let plan = fixture.dry(&policy).await;
    assert_eq!(plan.result.auto_assigned_default.entries, from_ref(&task));
    assert_eq!(plan.result.spawned.count, 1);
    assert_eq!(fixture.get(&task).await.assignee, None);
    assert!(assigned(&fixture, &task).await.is_empty());
}

#[tokio::test]
async fn blanks_name_no_default_assignee() {
    let fixture = LanesFixture::with(&["default"]).await;
    let task = fixture.task("").await;
    for blank in ["'   '", "''", "null"] {
        let (policy, printed) = fixture.configured(&format!("  default_assignee: {blank}\n"));
        assert_eq!((policy.default_assignee.clone(), printed), (None, Vec::new()), "{blank}");
        let plan = fixture.dispatch(&policy).await;
        assert_eq!(plan.result.skipped_unassigned.entries, from_ref(&task));
        assert!(plan.result.auto_assigned_default.is_empty());
    }
}

#[tokio::test]
async fn a_task_of_somebody_is_not_given_to_the_default_assignee() {
    let fixture = LanesFixture::with(&["default", "someother"]).await;
    let task = fixture.task("default").await;
    let (policy, _) = fixture.configured("  default_assignee: someother\n");
    let plan = fixture.dispatch(&policy).await;
    assert!(plan.result.auto_assigned_default.is_empty());
    assert_eq!(plan.starts[0].task, task);
    assert_eq!(started(&plan), ["default"]);
    assert_eq!(fixture.get(&task).await.assignee.unwrap().as_str(), "default");
}

#[test]
fn a_result_has_a_bucket_for_what_the_default_assignee_got() {
    let result = DispatchResult::default();
    assert_eq!(result.auto_assigned_default.entries, [] as [TaskId; 0]);
    assert_eq!(
        serde_json::to_value(&result).unwrap()["auto_assigned_default"],
        serde_json::json!([])
    );
}

#[tokio::test]
async fn the_default_assignee_is_the_same_profile_in_whatever_case_it_is_written() {
    let fixture = LanesFixture::with(&["alpha"]).await;
    fixture.task("Alpha").await;
    fixture.task("").await;
    let (policy, _) =
        fixture.configured("  default_assignee: ' ALPHA '\n  max_in_progress_per_profile: 1\n");
    let plan = fixture.dispatch(&policy).await;
    assert_eq!(started(&plan), ["alpha"], "one profile with one cap");
    assert_eq!(plan.result.skipped_per_profile_capped.count, 1);
    assert_eq!(fixture.dispatch(&policy).await.starts, []);
    let lanes = fixture.place.read().await.unwrap().lanes().await.unwrap();
    assert!(lanes.iter().all(|lane| lane.key.profile == "alpha"), "{lanes:?}");
}

#[tokio::test]
async fn a_default_assignee_that_does_not_exist_is_named_and_gets_nothing() {
    let fixture = LanesFixture::with(&["alpha"]).await;
    let task = fixture.task("").await;
    let (policy, _) = fixture.configured("  default_assignee: alhpa\n");
    let plan = fixture.dispatch(&policy).await;
    assert_eq!(plan.unknown_profiles, ["alhpa"]);
    assert_eq!(plan.result.skipped_unassigned.entries, from_ref(&task));
    assert_eq!(fixture.get(&task).await.assignee, None);
}

#[tokio::test]
async fn a_default_assignee_that_is_no_name_stops_no_dispatch() {
    let fixture = LanesFixture::with(&["alpha"]).await;
    fixture.task("alpha").await;
    for value in ["[1, 2]", "'a/b'", "{a: b}"] {
        let (policy, printed) = fixture.configured(&format!("  default_assignee: {value}\n"));
        assert_eq!((policy.default_assignee.clone(), printed.len()), (None, 1), "{value}");
        assert_eq!(fixture.dry(&policy).await.result.spawned.count, 1);
    }
}

/// Makes a task whose work is done and waits for `grace` to look at it.
async fn to_be_looked_at(fixture: &LanesFixture) -> TaskId {
    let task = fixture
        .task_with("ada", |new| {
            new.needs_review = true;
            new.reviewer = Some(profile("grace"));
            new.skills = vec!["a-skill".to_owned()];
        })
        .await;
    let plan = fixture.dispatch(&fixture.policy()).await;
    assert_eq!((&plan.starts[0].task, plan.starts[0].role), (&task, Role::Work));
    let run = fixture.get(&task).await.current_run.unwrap();
    let fence = Fence { task: task.clone(), run, profile: profile("ada") };
    let worker = Authority::Worker(fence);
    let done = TaskCompletion { summary: Some("done".to_owned()), ..TaskCompletion::default() };
    fixture.place.complete(&worker, &task, done).await.unwrap();
    fixture.place.run_gone(run).await.unwrap();
    assert_eq!(fixture.get(&task).await.status, Status::Review);
    task
}

#[tokio::test]
async fn a_review_is_started_within_the_caps_and_keeps_the_tasks_skills() {
    let fixture = LanesFixture::with(&["ada", "grace"]).await;
    let task = to_be_looked_at(&fixture).await;
    let (policy, _) = fixture.configured("  max_in_progress_per_profile: 1\n");
    fixture.task("grace").await;
    fixture.task("grace").await;
    let plan = fixture.dispatch(&policy).await;
    assert_eq!(plan.starts.len(), 1, "reviews and other work share the cap");
    assert_eq!(at_their_cap(&plan), ["grace", "grace"]);
    let (policy, _) = fixture.configured("  max_in_progress: 1\n");
    assert!(fixture.dry(&policy).await.starts.is_empty(), "and the one of all boards");
    assert_eq!(fixture.get(&task).await.skills, ["a-skill"]);
}

#[tokio::test]
async fn a_review_that_crashed_goes_back_to_be_looked_at() {
    let fixture = LanesFixture::with(&["ada", "grace"]).await;
    let task = to_be_looked_at(&fixture).await;
    let (policy, _) = fixture.configured("  claim_ttl_seconds: 86400\n");
    for _ in 0..2 {
        let plan = fixture.dispatch(&policy).await;
        let start = &plan.starts[0];
        assert_eq!(
            (&start.task, start.role, start.profile.as_str()),
            (&task, Role::Review, "grace")
        );
        if fixture.events(&task).await.contains(&"crashed".to_owned()) {
            return;
        }
        fixture.worker_of_ended(&task, 70).await;
        fixture.dispatch(&policy).await;
        assert_eq!(fixture.get(&task).await.status, Status::Review);
        fixture.place.clock().advance(Duration::from_mins(20));
    }
}

#[tokio::test]
async fn words_in_an_error_never_hold_a_task_back() {
    let fixture = LanesFixture::with(&["alpha"]).await;
    let task = fixture.task("alpha").await;
    let (policy, _) = fixture.configured("  failure_limit: 3\n  claim_ttl_seconds: 86400\n");
    for attempt in 1..=3 {
        assert_eq!(started(&fixture.dispatch(&policy).await), ["alpha"], "attempt {attempt}");
        let run = fixture.get(&task).await.current_run.unwrap();
        let end = vestal_board::RunEnd {
            outcome: vestal_board::Outcome::Crashed,
            error: "the author's quota: authentication failed".to_owned(),
            exit_code: Some(70),
        };
        fixture.place.end_run(run, end, &policy.failures).await.unwrap();
        fixture.place.run_gone(run).await.unwrap();
        fixture.place.clock().advance(Duration::from_mins(20));
    }
    assert_eq!(fixture.get(&task).await.status, Status::Blocked, "its budget ends it");
}

#[tokio::test]
async fn a_guard_is_reported_once_and_not_by_every_dispatch() {
    let fixture = LanesFixture::with(&["alpha"]).await;
    let task = fixture.task("alpha").await;
    let (policy, _) = fixture.configured("  claim_ttl_seconds: 86400\n");
    fixture.dispatch(&policy).await;
    fixture.worker_of_ended(&task, 75).await;
    let plan = fixture.dispatch(&policy).await;
    assert_eq!(plan.result.rate_limited.entries, from_ref(&task));
    for _ in 0..10 {
        let plan = fixture.dispatch(&policy).await;
        assert_eq!(plan.result.respawn_guarded.entries[0].reason, "rate_limit_cooldown");
        assert!(plan.starts.is_empty());
        fixture.place.clock().advance(Duration::from_secs(10));
    }
    let events = fixture.events(&task).await;
    assert_eq!(events.iter().filter(|kind| *kind == "respawn_guarded").count(), 1, "{events:?}");
    fixture.place.clock().advance(Duration::from_mins(5));
    assert_eq!(started(&fixture.dispatch(&policy).await), ["alpha"], "time lifts it");
}

#[tokio::test]
async fn a_comment_with_an_address_holds_no_task_back() {
    let fixture = LanesFixture::with(&["alpha"]).await;
    let task = fixture.task("alpha").await;
    let comment = "see https://github.com/acme/site/pull/17";
    fixture.place.comment(&person(), &task, comment).await.unwrap();
    assert_eq!(fixture.dispatch(&fixture.policy()).await.starts.len(), 1);
}

#[tokio::test]
async fn a_task_taken_up_anew_is_started_whatever_was_before() {
    let fixture = LanesFixture::with(&["alpha"]).await;
    let task = fixture.task("alpha").await;
    let policy = fixture.policy();
    fixture.dispatch(&policy).await;
    // It is done a moment ago, with a pull request; somebody wants it changed.
    let run = fixture.get(&task).await.current_run.unwrap();
    let done = TaskCompletion {
        summary: Some("https://github.com/acme/site/pull/17".to_owned()),
        ..TaskCompletion::default()
    };
    fixture.place.complete(&person(), &task, done).await.unwrap();
    fixture.worker(run, vestal_board::dispatch::Liveness::Gone { code: Some(0) });
    fixture.place.reopen(&person(), &task, "the colour is wrong").await.unwrap();
    assert_eq!(fixture.dispatch(&policy).await.starts.len(), 1);
}

#[tokio::test]
async fn an_explicit_requeue_beats_a_guard() {
    let fixture = LanesFixture::with(&["alpha", "beta"]).await;
    let policy = fixture.policy();
    for way in ["unblock", "promote", "assign"] {
        let task = fixture.task("alpha").await;
        fixture.dispatch(&policy).await;
        fixture.worker_of_ended(&task, 70).await;
        fixture.dispatch(&policy).await;
        assert!(fixture.get(&task).await.guard.is_some());
        assert!(fixture.dispatch(&policy).await.starts.is_empty());
        let by: &Authority = &person();
        match way {
            "unblock" => drop(fixture.place.unblock(by, &task, None).await.unwrap()),
            "promote" => {
                let now = Promotion { reason: "now".to_owned(), force: false, dry_run: false };
                drop(fixture.place.promote(by, &task, now).await.unwrap());
            }
            _ => {
                let to = Some(crate::fixture::profile("beta"));
                drop(fixture.place.assign(by, &task, to).await.unwrap());
            }
        }
        let plan = fixture.dispatch(&policy).await;
        assert_eq!(plan.starts[0].task, task, "{way}");
        let run = fixture.get(&task).await.current_run.unwrap();
        fixture.place.complete(by, &task, TaskCompletion::default()).await.unwrap();
        fixture.place.run_gone(run).await.unwrap();
    }
}
