//! Work that has to be looked at.

use std::time::Duration;

use vestal_board::{Authority, Completion, Fence, Role, Status, TaskId};

use crate::stage::{Stage, at_their_cap, profile};

/// Makes a task whose work is done and waits for `grace` to look at it.
async fn to_be_looked_at(stage: &Stage) -> TaskId {
    let task = stage
        .task_with("ada", |new| {
            new.needs_review = true;
            new.reviewer = Some(profile("grace"));
            new.skills = vec!["a-skill".to_owned()];
        })
        .await;
    let plan = stage.dispatch(&stage.policy()).await;
    assert_eq!((&plan.starts[0].task, plan.starts[0].role), (&task, Role::Work));
    let run = stage.get(&task).await.current_run.unwrap();
    let fence = Fence { task: task.clone(), run, profile: profile("ada") };
    let worker = Authority::Worker(fence);
    let done = Completion { summary: Some("done".to_owned()), ..Completion::default() };
    stage.place.complete(&worker, &task, done).await.unwrap();
    stage.place.run_gone(run).await.unwrap();
    assert_eq!(stage.get(&task).await.status, Status::Review);
    task
}

#[tokio::test]
async fn a_review_is_started_within_the_caps_and_keeps_the_tasks_skills() {
    let stage = Stage::with(&["ada", "grace"]).await;
    let task = to_be_looked_at(&stage).await;
    let (policy, _) = stage.configured("  max_in_progress_per_profile: 1\n");
    stage.task("grace").await;
    stage.task("grace").await;
    let plan = stage.dispatch(&policy).await;
    assert_eq!(plan.starts.len(), 1, "reviews and other work share the cap");
    assert_eq!(at_their_cap(&plan), ["grace", "grace"]);
    let (policy, _) = stage.configured("  max_in_progress: 1\n");
    assert!(stage.dry(&policy).await.starts.is_empty(), "and the one of all boards");
    assert_eq!(stage.get(&task).await.skills, ["a-skill"]);
}

#[tokio::test]
async fn a_review_that_crashed_goes_back_to_be_looked_at() {
    let stage = Stage::with(&["ada", "grace"]).await;
    let task = to_be_looked_at(&stage).await;
    let (policy, _) = stage.configured("  claim_ttl_seconds: 86400\n");
    for _ in 0..2 {
        let plan = stage.dispatch(&policy).await;
        let start = &plan.starts[0];
        assert_eq!(
            (&start.task, start.role, start.profile.as_str()),
            (&task, Role::Review, "grace")
        );
        if stage.events(&task).await.contains(&"crashed".to_owned()) {
            return;
        }
        stage.worker_of_ended(&task, 70).await;
        stage.dispatch(&policy).await;
        assert_eq!(stage.get(&task).await.status, Status::Review);
        stage.place.clock().advance(Duration::from_mins(20));
    }
}
