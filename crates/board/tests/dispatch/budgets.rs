//! When a task is given up.

use std::time::Duration;

use vestal_board::{Status, TaskId};

use crate::stage::Stage;

/// Has a task started and its worker end with an exit code, until it is not
/// started any more. Returns how often it was.
async fn attempts(stage: &Stage, task: &TaskId, code: i32, kanban: &str) -> u32 {
    let (policy, _) = stage.configured(kanban);
    let mut attempts = 0;
    loop {
        let plan = stage.dispatch(&policy).await;
        if plan.starts.is_empty() {
            if stage.get(task).await.status == Status::Blocked {
                return attempts;
            }
            // It waits before it is tried again.
            assert_eq!(stage.get(task).await.status, Status::Ready);
        } else {
            attempts += 1;
            assert!(attempts < 50, "nothing ends this");
            stage.worker_of_ended(task, code).await;
        }
        stage.place.clock().advance(Duration::from_mins(20));
    }
}

#[tokio::test]
async fn the_limit_of_the_settings_counts_for_crashes_and_a_task_is_given_up_once() {
    for limit in [1, 2, 10] {
        let stage = Stage::with(&["alpha"]).await;
        let task = stage.task("alpha").await;
        // Each attempt is under its lease, which ends after the worker.
        let kanban = format!("  failure_limit: {limit}\n  claim_ttl_seconds: 86400\n");
        assert_eq!(attempts(&stage, &task, 70, &kanban).await, limit);
        let events = stage.events(&task).await;
        let given_up = events.iter().filter(|kind| *kind == "gave_up").count();
        assert_eq!(given_up, 1, "{events:?}");
        // And nothing but a person takes it up again.
        let (policy, _) = stage.configured(&kanban);
        stage.place.clock().advance(Duration::from_hours(100));
        assert!(stage.dispatch(&policy).await.starts.is_empty());
    }
}

#[tokio::test]
async fn the_limit_of_the_settings_counts_for_timeouts() {
    let stage = Stage::with(&["alpha"]).await;
    let limit = |new: &mut vestal_board::NewTask| new.max_runtime = Some(Duration::from_mins(1));
    let task = stage.task_with("alpha", limit).await;
    let (policy, _) = stage.configured("  failure_limit: 3\n  claim_ttl_seconds: 86400\n");
    let mut timed_out = 0;
    while stage.get(&task).await.status != Status::Blocked {
        let plan = stage.dispatch(&policy).await;
        timed_out += plan.result.timed_out.count;
        assert_eq!(plan.result.auto_blocked.count, u64::from(timed_out == 3));
        stage.place.clock().advance(Duration::from_mins(20));
        assert!(timed_out <= 3);
    }
    assert_eq!(timed_out, 3);
}

#[tokio::test]
async fn workers_without_a_report_have_a_budget_of_their_own() {
    let stage = Stage::with(&["alpha"]).await;
    let task = stage.task("alpha").await;
    let kanban = "  failure_limit: 1\n  no_report_limit: 4\n  claim_ttl_seconds: 86400\n";
    assert_eq!(attempts(&stage, &task, 0, kanban).await, 4);
}

#[tokio::test]
async fn a_tasks_own_limit_takes_the_place_of_the_settings() {
    let stage = Stage::with(&["alpha"]).await;
    let task = stage.task_with("alpha", |new| new.max_retries = Some(5)).await;
    let kanban = "  failure_limit: 1\n  claim_ttl_seconds: 86400\n";
    assert_eq!(attempts(&stage, &task, 70, kanban).await, 5);
}

#[tokio::test]
async fn many_crashes_at_once_are_each_tasks_own() {
    let stage = Stage::with(&["alpha"]).await;
    let tasks = stage.tasks("alpha", 5).await;
    let (policy, _) = stage.configured("  failure_limit: 2\n");
    stage.dispatch(&policy).await;
    for task in &tasks {
        stage.worker_of_ended(task, 70).await;
    }
    let plan = stage.dispatch(&policy).await;
    assert_eq!((plan.result.crashed.count, plan.result.auto_blocked.count), (5, 0));
    for task in &tasks {
        assert_eq!(stage.get(task).await.status, Status::Ready);
    }
}
