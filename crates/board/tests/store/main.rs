//! What the store promises, within one process: rows in and out.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod changes;
mod history;
mod queues;
mod reads;
mod rows;
mod transactions;

use std::path::PathBuf;
use std::time::Duration;

use vestal_board::store::{SqliteOptions, SqliteStore};
use vestal_board::testing::{TestBoard, profile};
use vestal_board::{BlockKind, Board, HostName, RunId, Status, Task, TaskId, TaskWorkspace, Time};

/// Returns a board in a directory that goes with it.
async fn place() -> TestBoard {
    TestBoard::new(tempfile::tempdir().unwrap()).await.unwrap()
}

/// Adds a task.
async fn add(board: &Board, task: &Task) {
    add_all(board, std::slice::from_ref(task)).await;
}

/// Adds tasks, in one transaction.
async fn add_all(board: &Board, tasks: &[Task]) {
    let mut write = board.write().await.unwrap();
    write.insert_tasks(tasks).await.unwrap();
    write.commit().await.unwrap();
}

/// Changes a task that was `before`.
async fn change(board: &Board, before: &Task, after: &Task) {
    let mut write = board.write().await.unwrap();
    write.update_task(before, after).await.unwrap();
    write.commit().await.unwrap();
}

/// Returns a task as the board has it.
async fn get(board: &Board, id: &TaskId) -> Option<Task> {
    board.read().await.unwrap().task(id).await.unwrap()
}

/// Returns a task with something in every column.
fn full(title: &str) -> Task {
    Task {
        body: "the body, with ünïcode and 'quotes'\n".repeat(3),
        assignee: Some(profile("ada")),
        status: Status::Running,
        priority: -7,
        tenant: Some("acme".to_owned()),
        created_by: "grace".to_owned(),
        created_by_run: Some(RunId::new(17)),
        depth: 2,
        session_id: Some("talk".to_owned()),
        updated_at: Time::from_millis(1_600_000_000_001),
        started_at: Some(Time::from_millis(2)),
        completed_at: Some(Time::from_millis(3)),
        queued_at: Some(Time::from_millis(-4)),
        workspace: TaskWorkspace::Worktree {
            path: PathBuf::from("/srv/repository"),
            branch: Some("wt/x".to_owned()),
        },
        workspace_host: Some(HostName::new("Here")),
        max_runtime: Some(Duration::from_millis(90_001)),
        max_retries: Some(0),
        skills: vec!["sewing".to_owned(), "\"quoting\"".to_owned()],
        model: Some("large".to_owned()),
        result: Some("it is done".to_owned()),
        idempotency_key: Some(format!("key of {title}")),
        current_run: Some(RunId::new(18)),
        running_as: Some(profile("grace")),
        block_kind: Some(BlockKind::Transient),
        block_reason: Some("the network".to_owned()),
        block_recurrences: 3,
        gate: true,
        attention: Some("look".to_owned()),
        wake_at: Some(Time::from_millis(5)),
        guard: Some("backoff".to_owned()),
        needs_review: true,
        reviewer: Some(profile("linus")),
        pending_parents: 4,
        ..vestal_board::testing::task(title)
    }
}

/// Opens a file as anybody would.
async fn open(path: &std::path::Path) -> vestal_board::Result<SqliteStore> {
    SqliteStore::open(path, SqliteOptions::default()).await
}
