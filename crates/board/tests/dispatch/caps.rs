//! How much is worked on at the same time.

use vestal_board::dispatch::{CappedBy, DispatchResult, Life};
use vestal_board::{Completion, TaskId};

use crate::stage::{Stage, at_their_cap, count, person, started};

const PROFILES: [&str; 3] = ["alpha", "beta", "default"];

#[tokio::test]
async fn without_a_cap_every_ready_task_is_started() {
    let stage = Stage::with(&PROFILES).await;
    stage.tasks("alpha", 5).await;
    stage.tasks("beta", 3).await;
    let plan = stage.dry(&stage.policy()).await;
    assert_eq!(plan.result.spawned.count, 8);
    assert!(plan.result.skipped_per_profile_capped.is_empty());
}

#[tokio::test]
async fn a_cap_of_two_lets_each_profile_have_two() {
    let stage = Stage::with(&PROFILES).await;
    stage.tasks("alpha", 5).await;
    stage.tasks("beta", 3).await;
    let (policy, _) = stage.configured("  max_in_progress_per_profile: 2\n");
    let plan = stage.dry(&policy).await;
    let (started, held) = (started(&plan), at_their_cap(&plan));
    assert_eq!((count(&started, "alpha"), count(&started, "beta")), (2, 2));
    assert_eq!((count(&held, "alpha"), count(&held, "beta")), (3, 1));
}

#[tokio::test]
async fn what_is_running_already_counts_and_others_are_not_held_back_by_it() {
    let stage = Stage::with(&PROFILES).await;
    let (policy, _) = stage.configured("  max_in_progress_per_profile: 1\n");
    stage.task("alpha").await;
    assert_eq!(started(&stage.dispatch(&policy).await), ["alpha"]);
    stage.tasks("alpha", 2).await;
    stage.tasks("beta", 2).await;
    let plan = stage.dry(&policy).await;
    let (started, held) = (started(&plan), at_their_cap(&plan));
    assert_eq!((count(&started, "alpha"), count(&started, "beta")), (0, 1));
    assert_eq!((count(&held, "alpha"), count(&held, "beta")), (2, 1));
}

#[tokio::test]
async fn a_cap_of_zero_is_no_cap_and_said() {
    is_no_cap("0", 1).await;
}

#[tokio::test]
async fn a_cap_below_zero_is_no_cap_and_said() {
    is_no_cap("-1", 1).await;
}

#[tokio::test]
async fn a_cap_that_is_no_number_is_no_cap_and_said() {
    is_no_cap("abc", 1).await;
}

#[tokio::test]
async fn a_cap_that_is_not_set_is_no_cap() {
    is_no_cap("null", 0).await;
}

async fn is_no_cap(cap: &str, said: usize) {
    let stage = Stage::with(&PROFILES).await;
    stage.tasks("alpha", 3).await;
    let (policy, warnings) = stage.configured(&format!("  max_in_progress_per_profile: {cap}\n"));
    assert_eq!(warnings.len(), said, "{warnings:?}");
    let plan = stage.dry(&policy).await;
    assert!(plan.result.skipped_per_profile_capped.is_empty());
    assert_eq!(plan.result.spawned.count, 3);
}

#[tokio::test]
async fn a_number_in_quotes_is_a_cap_and_stops_no_dispatch() {
    let stage = Stage::with(&PROFILES).await;
    stage.tasks("alpha", 6).await;
    let (policy, said) = stage.configured("  max_spawn: '4'\n");
    assert_eq!(said, [""; 0]);
    assert_eq!(stage.dispatch(&policy).await.result.spawned.count, 4);
}

#[tokio::test]
async fn what_a_cap_held_back_is_started_when_there_is_room() {
    let stage = Stage::with(&PROFILES).await;
    stage.tasks("alpha", 3).await;
    let (policy, _) = stage.configured("  max_in_progress_per_profile: 1\n");
    let first = stage.dispatch(&policy).await;
    assert_eq!(first.result.spawned.count, 1);
    assert_eq!(first.result.skipped_per_profile_capped.count, 2);
    let done = &first.starts[0].task;
    // Its worker finishes it, and ends.
    let run = stage.get(done).await.current_run.unwrap();
    stage.place.complete(&person(), done, Completion::default()).await.unwrap();
    stage.worker(run, Life::Gone { code: Some(0) });
    let second = stage.dispatch(&policy).await;
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
    let stage = Stage::with(&PROFILES).await;
    stage.tasks("alpha", 4).await;
    let (all, _) = stage.configured("  max_spawn: 10\n  max_in_progress: 6\n");
    assert_eq!(stage.dispatch(&all).await.starts.len(), 4);
    stage.tasks("alpha", 9).await;
    let plan = stage.dispatch(&all).await;
    assert_eq!(plan.result.spawned.count, 2);
    assert_eq!(plan.result.skipped_capped.count, 7);
    let entry = &plan.result.skipped_capped.entries[0];
    assert_eq!((entry.by, entry.current), (CappedBy::Global, 6));
}

#[tokio::test]
async fn a_worker_that_outlives_its_run_counts_until_it_is_gone() {
    let stage = Stage::with(&PROFILES).await;
    stage.tasks("alpha", 2).await;
    let (policy, _) = stage.configured("  max_spawn: 1\n");
    let first = stage.dispatch(&policy).await.starts[0].task.clone();
    let run = stage.get(&first).await.current_run.unwrap();
    stage.place.archive(&person(), &first).await.unwrap();
    let plan = stage.dry(&policy).await;
    assert!(plan.starts.is_empty(), "its worker is still there");
    assert_eq!(plan.repairs.len(), 1);
    stage.worker(run, Life::Gone { code: None });
    assert_eq!(stage.dispatch(&policy).await.starts.len(), 1);
}

#[tokio::test]
async fn a_low_priority_of_an_idle_profile_runs_while_others_keep_coming() {
    let stage = Stage::with(&PROFILES).await;
    let low = stage.task_with("beta", |new| new.priority = -100).await;
    let (policy, _) = stage.configured("  max_spawn: 1\n");
    let mut rounds = 0;
    loop {
        for _ in 0..3 {
            stage.task_with("alpha", |new| new.priority = 10).await;
        }
        let plan = stage.dispatch(&policy).await;
        if plan.starts.iter().any(|start| start.task == low) {
            break;
        }
        for start in &plan.starts {
            let run = stage.get(&start.task).await.current_run.unwrap();
            stage.place.complete(&person(), &start.task, Completion::default()).await.unwrap();
            stage.worker(run, Life::Gone { code: Some(0) });
        }
        stage.place.clock().advance(std::time::Duration::from_hours(1));
        rounds += 1;
        assert!(rounds < 100, "110 points of priority are worth 18 hours, and no more");
    }
}
