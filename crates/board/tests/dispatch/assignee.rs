//! Who gets tasks that nobody is assigned to.

use std::slice::from_ref;

use vestal_board::dispatch::DispatchResult;
use vestal_board::{Event, TaskId};

use crate::stage::{Stage, started};

#[tokio::test]
async fn a_task_of_nobody_is_skipped_and_left_alone_without_a_default_assignee() {
    let stage = Stage::with(&["default"]).await;
    let task = stage.task("").await;
    let plan = stage.dispatch(&stage.policy()).await;
    assert_eq!(plan.result.skipped_unassigned.entries, from_ref(&task));
    assert!(plan.result.auto_assigned_default.is_empty());
    assert!(plan.result.spawned.is_empty());
    assert_eq!(stage.get(&task).await.assignee, None);
}

#[tokio::test]
async fn a_task_of_nobody_is_given_to_the_default_assignee_and_started_at_once() {
    let stage = Stage::with(&["default"]).await;
    let task = stage.task("").await;
    let (policy, said) = stage.configured("  default_assignee: default\n");
    assert_eq!(said, [""; 0]);
    let plan = stage.dispatch(&policy).await;
    assert_eq!(plan.result.auto_assigned_default.entries, from_ref(&task));
    assert!(plan.result.skipped_unassigned.is_empty());
    let spawned = &plan.result.spawned.entries;
    assert_eq!(spawned.len(), 1);
    assert_eq!((&spawned[0].task_id, spawned[0].assignee.as_str()), (&task, "default"));
    assert_eq!(stage.get(&task).await.assignee.unwrap().as_str(), "default");
    let assigned = assigned(&stage, &task).await;
    assert_eq!(assigned.len(), 1);
    assert_eq!(assigned[0].payload["assignee"], "default");
    assert_eq!(assigned[0].payload["source"], "kanban.default_assignee");
}

async fn assigned(stage: &Stage, task: &TaskId) -> Vec<Event> {
    let mut read = stage.place.read().await.unwrap();
    let events = read.events(task, 100).await.unwrap();
    events.into_iter().filter(|event| event.kind == "assigned").collect()
}

#[tokio::test]
async fn a_dry_run_shows_who_would_get_a_task_and_gives_it_to_nobody() {
    let stage = Stage::with(&["default"]).await;
    let task = stage.task("").await;
    let (policy, _) = stage.configured("  default_assignee: default\n");
    let plan = stage.dry(&policy).await;
    assert_eq!(plan.result.auto_assigned_default.entries, from_ref(&task));
    assert_eq!(plan.result.spawned.count, 1);
    assert_eq!(stage.get(&task).await.assignee, None);
    assert!(assigned(&stage, &task).await.is_empty());
}

#[tokio::test]
async fn blanks_name_no_default_assignee() {
    let stage = Stage::with(&["default"]).await;
    let task = stage.task("").await;
    for blank in ["'   '", "''", "null"] {
        let (policy, said) = stage.configured(&format!("  default_assignee: {blank}\n"));
        assert_eq!((policy.default_assignee.clone(), said), (None, Vec::new()), "{blank}");
        let plan = stage.dispatch(&policy).await;
        assert_eq!(plan.result.skipped_unassigned.entries, from_ref(&task));
        assert!(plan.result.auto_assigned_default.is_empty());
    }
}

#[tokio::test]
async fn a_task_of_somebody_is_not_given_to_the_default_assignee() {
    let stage = Stage::with(&["default", "someother"]).await;
    let task = stage.task("default").await;
    let (policy, _) = stage.configured("  default_assignee: someother\n");
    let plan = stage.dispatch(&policy).await;
    assert!(plan.result.auto_assigned_default.is_empty());
    assert_eq!(plan.starts[0].task, task);
    assert_eq!(started(&plan), ["default"]);
    assert_eq!(stage.get(&task).await.assignee.unwrap().as_str(), "default");
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
    let stage = Stage::with(&["alpha"]).await;
    stage.task("Alpha").await;
    stage.task("").await;
    let (policy, _) =
        stage.configured("  default_assignee: ' ALPHA '\n  max_in_progress_per_profile: 1\n");
    let plan = stage.dispatch(&policy).await;
    assert_eq!(started(&plan), ["alpha"], "one profile with one cap");
    assert_eq!(plan.result.skipped_per_profile_capped.count, 1);
    assert_eq!(stage.dispatch(&policy).await.starts, []);
    let lanes = stage.place.read().await.unwrap().lanes().await.unwrap();
    assert!(lanes.iter().all(|lane| lane.key.profile == "alpha"), "{lanes:?}");
}

#[tokio::test]
async fn a_default_assignee_that_does_not_exist_is_named_and_gets_nothing() {
    let stage = Stage::with(&["alpha"]).await;
    let task = stage.task("").await;
    let (policy, _) = stage.configured("  default_assignee: alhpa\n");
    let plan = stage.dispatch(&policy).await;
    assert_eq!(plan.unknown_profiles, ["alhpa"]);
    assert_eq!(plan.result.skipped_unassigned.entries, from_ref(&task));
    assert_eq!(stage.get(&task).await.assignee, None);
}

#[tokio::test]
async fn a_default_assignee_that_is_no_name_stops_no_dispatch() {
    let stage = Stage::with(&["alpha"]).await;
    stage.task("alpha").await;
    for value in ["[1, 2]", "'a/b'", "{a: b}"] {
        let (policy, said) = stage.configured(&format!("  default_assignee: {value}\n"));
        assert_eq!((policy.default_assignee.clone(), said.len()), (None, 1), "{value}");
        assert_eq!(stage.dry(&policy).await.result.spawned.count, 1);
    }
}
