//! A dry run changes nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use vestal_board::Status;
use vestal_dispatcher::Mode;

use crate::stage::{Stage, is_alive};

/// Returns what is in every file below a directory. What readers of the
/// database share about where they are is no content.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.insert(path.clone(), Vec::new());
            found.extend(contents(&path));
        } else if !path.to_string_lossy().ends_with("-shm") {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_changes_no_byte_and_signals_nobody() {
    let stage = Stage::new().await;
    let doomed =
        stage.task_with(&["hang"], |new| new.max_runtime = Some(Duration::from_secs(1))).await;
    let (dispatcher, heard) = stage.dispatcher(|options| {
        options.policy.default_assignee = Some(vestal_config::ProfileName::new("ada").unwrap());
        options.policy.lease = Duration::from_millis(1);
    });
    let all = [stage.board.clone()];
    dispatcher.tick(&stage.board, &all, Mode::Real).await.unwrap();
    let run = stage.until_running(&doomed).await;
    let waiting = stage.task(&["complete"]).await;
    let nobodys = stage.task_with(&["complete"], |new| new.assignee = None).await;
    // It is to be stopped, by its lease and soon by its time.
    while stage.board.read().await.unwrap().now() <= run.started_at.after(Duration::from_secs(1)) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (before, said) = (contents(&stage.root()), heard.all().len());

    let dry = dispatcher.tick(&stage.board, &all, Mode::DryRun).await.unwrap();
    assert_eq!(dry.timed_out.entries, [doomed.clone()]);
    assert_eq!(dry.spawned.count, 2);
    assert_eq!(dry.auto_assigned_default.entries, [nobodys.clone()]);
    assert_eq!(contents(&stage.root()), before);
    assert!(is_alive(&run), "a dry run ended a worker");
    assert_eq!(heard.all().len(), said);
    assert_eq!(stage.get(&waiting).await.status, Status::Ready);
    assert_eq!(stage.get(&nobodys).await.assignee, None);

    // And it said what a real one does.
    let real = dispatcher.tick(&stage.board, &all, Mode::Real).await.unwrap();
    let tasks = |result: &vestal_board::dispatch::DispatchResult| {
        let spawned = result.spawned.entries.iter().map(|one| one.task_id.clone());
        (
            spawned.collect::<Vec<_>>(),
            result.timed_out.clone(),
            result.auto_assigned_default.clone(),
        )
    };
    assert_eq!(tasks(&real), tasks(&dry));
    assert!(!is_alive(&run));
}
