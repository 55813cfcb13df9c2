//! A dry run changes nothing at all.

use std::time::Duration;

use vestal_board::dispatch::Life;
use vestal_board::{Initial, NewTask};

use crate::stage::Stage;

/// Everything that a dispatch could do something about, at once.
async fn busy_board() -> Stage {
    let stage = Stage::with(&["alpha", "beta"]).await;
    let policy = stage.policy();
    let overdue =
        stage.task_with("alpha", |new| new.max_runtime = Some(Duration::from_secs(1))).await;
    let crashed = stage.task("alpha").await;
    let expired = stage.task("alpha").await;
    stage.dispatch(&policy).await;
    stage.worker_of_ended(&crashed, 70).await;
    let run = stage.get(&expired).await.current_run.unwrap();
    stage.worker(run, Life::Foreign);
    let at = stage.place.clock().now().after(Duration::from_secs(5));
    let later = |new: &mut NewTask| new.initial = Initial::At(at);
    stage.task_with("beta", later).await;
    stage.place.clock().advance(Duration::from_hours(1));
    stage.task("").await;
    stage.tasks("beta", 20).await;
    assert_eq!(stage.get(&overdue).await.status, vestal_board::Status::Running);
    stage
}

/// Returns every byte of the board. Another process reads them: whoever closes a
/// file loses all locks of its process on it.
fn bytes(stage: &Stage) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    let mut dirs = vec![stage.place.dir().to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.display().to_string();
            if path.is_dir() {
                dirs.push(path);
            } else if !name.ends_with("-shm") {
                // The shared memory beside it holds who is reading just now.
                let read = std::process::Command::new("cat").arg(path).output().unwrap();
                assert!(read.status.success());
                files.push((name, read.stdout));
            }
        }
    }
    files.sort();
    files
}

#[tokio::test]
async fn a_dry_run_changes_no_byte_though_there_is_everything_to_do() {
    let stage = busy_board().await;
    let (mut policy, _) = stage.configured("  default_assignee: beta\n  max_spawn: 8\n");
    policy.stale_after = Some(Duration::from_mins(1));
    let before = bytes(&stage);
    let plan = stage.dry(&policy).await;
    assert_eq!(bytes(&stage), before);

    assert_eq!((plan.result.reclaimed, plan.result.promoted), (1, 1));
    assert_eq!((plan.result.crashed.count, plan.result.timed_out.count), (1, 1));
    assert_eq!(plan.result.auto_assigned_default.count, 1);
    assert!(!plan.starts.is_empty());
}

#[tokio::test]
async fn a_dry_run_keeps_to_all_caps() {
    let stage = Stage::with(&["alpha"]).await;
    stage.tasks("alpha", 500).await;
    let (policy, _) = stage.configured("  max_spawn: 8\n  max_in_progress: 9\n");
    let plan = stage.dry(&policy).await;
    assert_eq!((plan.result.spawned.count, plan.starts.len()), (8, 8));
    assert_eq!(
        (plan.result.skipped_capped.count, plan.result.skipped_capped.entries.len()),
        (492, 100)
    );
}

#[tokio::test]
async fn a_dispatch_does_what_the_dry_run_before_it_showed() {
    let stage = busy_board().await;
    let (policy, _) = stage.configured("  default_assignee: beta\n  max_spawn: 8\n");
    let dry = stage.dry(&policy).await;
    let done = stage.dispatch(&policy).await;
    assert_eq!(done, dry);
}
