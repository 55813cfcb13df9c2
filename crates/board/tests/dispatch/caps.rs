//! Caps, and budgets of failures.

use std::time::Duration;

use vestal_board::dispatch::{CappedBy, DispatchResult, Liveness};
use vestal_board::{Status, TaskCompletion, TaskId};

use crate::fixture::{LanesFixture, at_their_cap, count, person, started};

/// Has a task started and its worker end with an exit code, until it is not
/// started any more. Returns how often it was.
async fn attempts(fixture: &LanesFixture, task: &TaskId, code: i32, kanban: &str) -> u32 {
    let (policy, _) = fixture.configured(kanban);
    let mut attempts = 0;
    loop {
        let plan = fixture.dispatch(&policy).await;
        if plan.starts.is_empty() {
            if fixture.get(task).await.status == Status::Blocked {
                return attempts;
            }
            // It waits before it is tried again.
            assert_eq!(fixture.get(task).await.status, Status::Ready);
        } else {
            attempts += 1;
            assert!(attempts < 50, "nothing ends this");
            fixture.worker_of_ended(task, code).await;
        }
        fixture.place.clock().advance(Duration::from_mins(20));
    }
}

#[tokio::test]
async fn the_limit_of_the_settings_counts_for_crashes_and_a_task_is_given_up_once() {
    for limit in [1, 2, 10] {
        let fixture = LanesFixture::with(&["alpha"]).await;
        let task = fixture.task("alpha").await;
        // Each attempt is under its lease, which ends after the worker.
        let kanban = format!("  failure_limit: {limit}\n  claim_ttl_seconds: 86400\n");
        assert_eq!(attempts(&fixture, &task, 70, &kanban).await, limit);
        let events = fixture.events(&task).await;
        let given_up = events.iter().filter(|kind| *kind == "gave_up").count();
        assert_eq!(given_up, 1, "{events:?}");
        // And nothing but a person takes it up again.
        let (policy, _) = fixture.configured(&kanban);
        fixture.place.clock().advance(Duration::from_hours(100));
        assert!(fixture.dispatch(&policy).await.starts.is_empty());
    }
}

#[tokio::test]
async fn the_limit_of_the_settings_counts_for_timeouts() {
    let fixture = LanesFixture::with(&["alpha"]).await;
    let limit = |new: &mut vestal_board::NewTask| new.max_runtime = Some(Duration::from_mins(1));
    let task = fixture.task_with("alpha", limit).await;
    let (policy, _) = fixture.configured("  failure_limit: 3\n  claim_ttl_seconds: 86400\n");
    let mut timed_out = 0;
    while fixture.get(&task).await.status != Status::Blocked {
        let plan = fixture.dispatch(&policy).await;
        timed_out += plan.result.timed_out.count;
        assert_eq!(plan.result.auto_blocked.count, u64::from(timed_out == 3));
        fixture.place.clock().advance(Duration::from_mins(20));
        assert!(timed_out <= 3);
    }
    assert_eq!(timed_out, 3);
}

#[tokio::test]
async fn workers_without_a_report_have_a_budget_of_their_own() {
    let fixture = LanesFixture::with(&["alpha"]).await;
    let task = fixture.task("alpha").await;
    let kanban = "  failure_limit: 1\n  no_report_limit: 4\n  claim_ttl_seconds: 86400\n";
    assert_eq!(attempts(&fixture, &task, 0, kanban).await, 4);
}

#[tokio::test]
async fn a_tasks_own_limit_takes_the_place_of_the_settings() {
    let fixture = LanesFixture::with(&["alpha"]).await;
    let task = fixture.task_with("alpha", |new| new.max_retries = Some(5)).await;
    let kanban = "  failure_limit: 1\n  claim_ttl_seconds: 86400\n";
    assert_eq!(attempts(&fixture, &task, 70, kanban).await, 5);
}

#[tokio::test]
async fn many_crashes_at_once_are_each_tasks_own() {
    let fixture = LanesFixture::with(&["alpha"]).await;
    let tasks = fixture.tasks("alpha", 5).await;
    let (policy, _) = fixture.configured("  failure_limit: 2\n");
    fixture.dispatch(&policy).await;
    for task in &tasks {
        fixture.worker_of_ended(task, 70).await;
    }
    let plan = fixture.dispatch(&policy).await;
    assert_eq!((plan.result.crashed.count, plan.result.auto_blocked.count), (5, 0));
    for task in &tasks {
        assert_eq!(fixture.get(task).await.status, Status::Ready);
    }
}

const PROFILES: [&str; 3] = ["alpha", "beta", "default"];

#[tokio::test]
async fn without_a_cap_every_ready_task_is_started() {
    let fixture = LanesFixture::with(&PROFILES).await;
    fixture.tasks("alpha", 5).await;
    fixture.tasks("beta", 3).await;
    let plan = fixture.dry(&fixture.policy()).await;
    assert_eq!(plan.result.spawned.count, 8);
    assert!(plan.result.skipped_per_profile_capped.is_empty());
}

#[tokio::test]
async fn a_cap_of_two_lets_each_profile_have_two() {
    let fixture = LanesFixture::with(&PROFILES).await;
    fixture.tasks("alpha", 5).await;
    fixture.tasks("beta", 3).await;
    let (policy, _) = fixture.configured("  max_in_progress_per_profile: 2\n");
    let plan = fixture.dry(&policy).await;
    let (started, held) = (started(&plan), at_their_cap(&plan));
    assert_eq!((count(&started, "alpha"), count(&started, "beta")), (2, 2));
    assert_eq!((count(&held, "alpha"), count(&held, "beta")), (3, 1));
}

#[tokio::test]
async fn what_is_running_already_counts_and_others_are_not_held_back_by_it() {
    let fixture = LanesFixture::with(&PROFILES).await;
    let (policy, _) = fixture.configured("  max_in_progress_per_profile: 1\n");
    fixture.task("alpha").await;
    assert_eq!(started(&fixture.dispatch(&policy).await), ["alpha"]);
    fixture.tasks("alpha", 2).await;
    fixture.tasks("beta", 2).await;
    let plan = fixture.dry(&policy).await;
    let (started, held) = (started(&plan), at_their_cap(&plan));
    assert_eq!((count(&started, "alpha"), count(&started, "beta")), (0, 1));
    assert_eq!((count(&held, "alpha"), count(&held, "beta")), (2, 1));
}

#[tokio::test]
async fn a_cap_of_zero_is_ignored_and_reported() {
    is_no_cap("0", 1).await;
}

#[tokio::test]
async fn a_cap_below_zero_is_ignored_and_reported() {
    is_no_cap("-1", 1).await;
}

#[tokio::test]
async fn a_cap_that_is_not_a_number_is_ignored_and_reported() {
    is_no_cap("abc", 1).await;
}

#[tokio::test]
async fn a_cap_that_is_not_set_is_no_cap() {
    is_no_cap("null", 0).await;
}

async fn is_no_cap(cap: &str, printed: usize) {
    let fixture = LanesFixture::with(&PROFILES).await;
    fixture.tasks("alpha", 3).await;
    let (policy, warnings) = fixture.configured(&format!("  max_in_progress_per_profile: {cap}\n"));
    assert_eq!(warnings.len(), printed, "{warnings:?}");
    let plan = fixture.dry(&policy).await;
    assert!(plan.result.skipped_per_profile_capped.is_empty());
    assert_eq!(plan.result.spawned.count, 3);
}

#[tokio::test]
async fn a_number_in_quotes_is_a_cap_and_stops_no_dispatch() {
    let fixture = LanesFixture::with(&PROFILES).await;
    fixture.tasks("alpha", 6).await;
    let (policy, printed) = fixture.configured("  max_spawn: '4'\n");
    assert_eq!(printed, [""; 0]);
    assert_eq!(fixture.dispatch(&policy).await.result.spawned.count, 4);
}

#[tokio::test]
async fn what_a_cap_held_back_is_started_when_there_is_room() {
    let fixture = LanesFixture::with(&PROFILES).await;
    fixture.tasks("alpha", 3).await;
    let (policy, _) = fixture.configured("  max_in_progress_per_profile: 1\n");
    let first = fixture.dispatch(&policy).await;
    assert_eq!(first.result.spawned.count, 1);
    assert_eq!(first.result.skipped_per_profile_capped.count, 2);
    let done = &first.starts[0].task;
    // Its worker finishes it, and ends.
    let run = fixture.get(done).await.current_run.unwrap();
    fixture.place.complete(&person(), done, TaskCompletion::default()).await.unwrap();
    fixture.worker(run, Liveness::Gone { code: Some(0) });
    let second = fixture.dispatch(&policy).await;
    assert_eq!(second.result.spawned.count, 1);
    assert_eq!(second.result.skipped_per_profile_capped.count, 1);
    assert_ne!(second.starts[0].task, *done);
}

#[test]
fn a_result_has_a_bucket_of_triples_for_profiles_at_their_cap() {
    let result = DispatchResult::default();
    assert_eq!(result.skipped_per_profile_capped.entries, [] as [(TaskId, String, u64); 0]);
    let json = serde_json::to_value(&result).unwrap();
    assert_eq!(json["skipped_per_profile_capped"], serde_json::json!([]));
}

#[tokio::test]
async fn two_caps_of_which_one_is_nearer_leave_what_the_nearer_leaves() {
    let fixture = LanesFixture::with(&PROFILES).await;
    fixture.tasks("alpha", 4).await;
    let (all, _) = fixture.configured("  max_spawn: 10\n  max_in_progress: 6\n");
    assert_eq!(fixture.dispatch(&all).await.starts.len(), 4);
    fixture.tasks("alpha", 9).await;
    let plan = fixture.dispatch(&all).await;
    assert_eq!(plan.result.spawned.count, 2);
    assert_eq!(plan.result.skipped_capped.count, 7);
    let entry = &plan.result.skipped_capped.entries[0];
    assert_eq!((entry.by, entry.current), (CappedBy::Global, 6));
}

#[tokio::test]
async fn a_worker_that_outlives_its_run_counts_until_it_is_gone() {
    let fixture = LanesFixture::with(&PROFILES).await;
    fixture.tasks("alpha", 2).await;
    let (policy, _) = fixture.configured("  max_spawn: 1\n");
    let first = fixture.dispatch(&policy).await.starts[0].task.clone();
    let run = fixture.get(&first).await.current_run.unwrap();
    fixture.place.archive(&person(), &first).await.unwrap();
    let plan = fixture.dry(&policy).await;
    assert!(plan.starts.is_empty(), "its worker is still there");
    assert_eq!(plan.repairs.len(), 1);
    fixture.worker(run, Liveness::Gone { code: None });
    assert_eq!(fixture.dispatch(&policy).await.starts.len(), 1);
}

#[tokio::test]
async fn a_low_priority_of_an_idle_profile_runs_while_others_keep_coming() {
    let fixture = LanesFixture::with(&PROFILES).await;
    let low = fixture.task_with("beta", |new| new.priority = -100).await;
    let (policy, _) = fixture.configured("  max_spawn: 1\n");
    let mut rounds = 0;
    loop {
        for _ in 0..3 {
            fixture.task_with("alpha", |new| new.priority = 10).await;
        }
        let plan = fixture.dispatch(&policy).await;
        if plan.starts.iter().any(|start| start.task == low) {
            break;
        }
        for start in &plan.starts {
            let run = fixture.get(&start.task).await.current_run.unwrap();
            fixture
                .place
                .complete(&person(), &start.task, TaskCompletion::default())
                .await
                .unwrap();
            fixture.worker(run, Liveness::Gone { code: Some(0) });
        }
        fixture.place.clock().advance(std::time::Duration::from_hours(1));
        rounds += 1;
        assert!(rounds < 100, "110 points of priority are worth 18 hours, and no more");
    }
}
