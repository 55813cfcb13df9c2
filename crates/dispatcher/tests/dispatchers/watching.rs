//! Watching boards, and dry runs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use vestal_board::boards::{NewBoard, Slug};
use vestal_board::{Initial, NewTask, Outcome, Status};
use vestal_config::ProfileName;
use vestal_dispatcher::{DispatchEvent, DispatchMode};
use vestal_testkit::until;

use crate::fixture::{DispatcherFixture, is_alive, person};

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
    let fixture = DispatcherFixture::new().await;
    let doomed =
        fixture.task_with(&["hang"], |new| new.max_runtime = Some(Duration::from_secs(1))).await;
    let (dispatcher, heard) = fixture.dispatcher(|options| {
        options.policy.default_assignee = Some(vestal_config::ProfileName::new("ada").unwrap());
        options.policy.lease = Duration::from_millis(1);
    });
    let all = [fixture.board.clone()];
    dispatcher.tick(&fixture.board, &all, DispatchMode::Real).await.unwrap();
    let run = fixture.until_running(&doomed).await;
    let waiting = fixture.task(&["complete"]).await;
    let nobodys = fixture.task_with(&["complete"], |new| new.assignee = None).await;
    // It is to be stopped, by its lease and soon by its time.
    while fixture.board.read().await.unwrap().now() <= run.started_at.after(Duration::from_secs(1))
    {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (before, printed) = (contents(&fixture.root()), heard.all().len());

    let dry = dispatcher.tick(&fixture.board, &all, DispatchMode::DryRun).await.unwrap();
    assert_eq!(dry.timed_out.entries, [doomed.clone()]);
    assert_eq!(dry.spawned.count, 2);
    assert_eq!(dry.auto_assigned_default.entries, [nobodys.clone()]);
    assert_eq!(contents(&fixture.root()), before);
    assert!(is_alive(&run), "a dry run ended a worker");
    assert_eq!(heard.all().len(), printed);
    assert_eq!(fixture.get(&waiting).await.status, Status::Ready);
    assert_eq!(fixture.get(&nobodys).await.assignee, None);

    // And it said what a real one does.
    let real = dispatcher.tick(&fixture.board, &all, DispatchMode::Real).await.unwrap();
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

#[tokio::test(flavor = "multi_thread")]
async fn a_child_is_started_at_once_when_its_parent_is_done() {
    let fixture = DispatcherFixture::new().await;
    // Nothing but the change itself can wake it.
    let _watch = fixture.watch(|options| options.interval = Duration::from_hours(1));
    let go = fixture.path("go");
    let parent = fixture.task(&[&format!("wait-for {}", go.display()), "complete"]).await;
    let child = fixture.task_with(&["complete"], |new| new.parents = vec![parent.clone()]).await;
    fixture.until_running(&parent).await;
    assert_eq!(fixture.get(&child).await.status, Status::Todo);
    std::fs::write(&go, "").unwrap();
    fixture.until_ended(&child, Outcome::Completed).await;
    let done = fixture.get(&parent).await.completed_at.unwrap();
    let started = fixture.runs(&child).await[0].started_at;
    let waited = done.until(started);
    // The bar is 200 ms; this is a slow machine's.
    assert!(waited < Duration::from_secs(5), "{waited:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moment_that_comes_wakes_it() {
    let fixture = DispatcherFixture::new().await;
    let _watch = fixture.watch(|options| options.interval = Duration::from_hours(1));
    let now = fixture.board.read().await.unwrap().now();
    let task = fixture
        .task_with(&["complete"], |new| {
            new.initial = Initial::At(now.after(Duration::from_millis(700)));
        })
        .await;
    assert_eq!(fixture.get(&task).await.status, Status::Scheduled);
    let run = fixture.until_ended(&task, Outcome::Completed).await;
    assert!(run.started_at >= now.after(Duration::from_millis(700)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_goes_on_when_the_other_dispatcher_dies() {
    let fixture = DispatcherFixture::new().await;
    let mut first = fixture.process(&["--watch"], None);
    let _standby = fixture.process(&["--watch"], None);
    let before = fixture.task(&["complete"]).await;
    fixture.until_ended(&before, Outcome::Completed).await;
    first.kill();
    let after = fixture.task(&["complete"]).await;
    fixture.until_ended(&after, Outcome::Completed).await;
    for task in [before, after] {
        assert_eq!(fixture.runs(&task).await.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn boards_that_come_are_dispatched_and_archived_ones_are_not() {
    let fixture = DispatcherFixture::new().await;
    let _watch = fixture.watch(|options| options.interval = Duration::from_hours(1));
    let first = fixture.task(&["complete"]).await;
    fixture.until_ended(&first, Outcome::Completed).await;

    let slug = Slug::new("later").unwrap();
    fixture.boards.create(&slug, NewBoard::default()).await.unwrap();
    let board = fixture.boards.open_any(&slug).await.unwrap();
    let new = || NewTask {
        title: "a task".to_owned(),
        body: "complete".to_owned(),
        assignee: Some(ProfileName::new("ada").unwrap()),
        ..NewTask::default()
    };
    let mut changes = board.changes().unwrap();
    let task = board.create(&person(), new()).await.unwrap().task.id;
    let done = async {
        loop {
            let runs = board.read().await.unwrap().runs(&task, 1).await.unwrap();
            if runs.last().is_some_and(|run| run.gone && !run.is_open()) {
                break;
            }
            changes.next().await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_mins(1), done).await.unwrap();
    assert_eq!(board.get(&task).await.unwrap().status, Status::Done);

    fixture.boards.remove(&slug).await.unwrap();
    let idle = board.create(&person(), new()).await.unwrap().task.id;
    // Whatever else is done, this is not.
    for _ in 0..3 {
        let other = fixture.task(&["complete"]).await;
        fixture.until_ended(&other, Outcome::Completed).await;
    }
    assert_eq!(board.get(&idle).await.unwrap().status, Status::Ready);
}

#[tokio::test(flavor = "multi_thread")]
async fn caps_hold_over_several_boards() {
    let fixture = DispatcherFixture::new().await;
    let slug = Slug::new("other").unwrap();
    fixture.boards.create(&slug, NewBoard::default()).await.unwrap();
    let other = fixture.boards.open_any(&slug).await.unwrap();
    let go = fixture.path("go");
    let wait = format!("wait-for {}", go.display());
    let (mut here, mut there) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        here.push(fixture.task(&[&wait, "complete"]).await);
        let new = NewTask {
            title: "a task".to_owned(),
            body: format!("{wait}\ncomplete"),
            assignee: Some(ProfileName::new("ada").unwrap()),
            ..NewTask::default()
        };
        there.push(other.create(&person(), new).await.unwrap().task.id);
    }
    let watch = fixture.watch(|options| options.policy.caps.host = Some(2));
    let started = |heard: &[DispatchEvent]| {
        heard.iter().filter(|printed| matches!(printed, DispatchEvent::Started { .. })).count()
    };
    until("two have started", || started(&watch.heard.all()) >= 2).await;
    let live = async || {
        let mut count = 0;
        for board in [&fixture.board, &other] {
            count += board.read().await.unwrap().live_runs().await.unwrap().len();
        }
        count
    };
    assert_eq!(live().await, 2);
    std::fs::write(&go, "").unwrap();
    let mut changes = other.changes().unwrap();
    for task in &here {
        fixture.until_ended(task, Outcome::Completed).await;
        assert!(live().await <= 2);
    }
    for task in &there {
        while other.get(task).await.unwrap().status != Status::Done {
            tokio::time::timeout(Duration::from_mins(1), changes.next()).await.unwrap().unwrap();
            assert!(live().await <= 2);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_board_that_cannot_be_read_keeps_no_other_from_going_on() {
    let fixture = DispatcherFixture::new().await;
    let dir = fixture.path("kanban/boards/broken");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("kanban.db"), "this is not a database".repeat(500)).unwrap();
    let watch = fixture.watch(|options| options.interval = Duration::from_millis(50));
    for _ in 0..3 {
        let task = fixture.task(&["complete"]).await;
        fixture.until_ended(&task, Outcome::Completed).await;
    }
    let about = |printed: &DispatchEvent| matches!(printed, DispatchEvent::Problem { board: Some(board), .. } if board == "broken");
    let heard = watch.heard.all();
    assert_eq!(heard.iter().filter(|printed| about(printed)).count(), 1, "{heard:?}");
}
