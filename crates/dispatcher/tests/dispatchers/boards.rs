//! Boards that share the slots of a host.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use vestal_board::boards::{NewBoard, Slug};
use vestal_board::{Board, NewTask, Status, TaskId};
use vestal_config::ProfileName;
use vestal_dispatcher::Mode;

use crate::stage::{Stage, hold_lock, kill, person};

async fn board(stage: &Stage, name: &str) -> Board {
    let slug = Slug::new(name).unwrap();
    stage.boards.create(&slug, NewBoard::default()).await.unwrap();
    stage.boards.open_any(&slug).await.unwrap()
}

async fn task(board: &Board, body: &str) -> TaskId {
    let new = NewTask {
        title: "a task".to_owned(),
        body: body.to_owned(),
        assignee: Some(ProfileName::new("ada").unwrap()),
        ..NewTask::default()
    };
    board.create(&person(), new).await.unwrap().task.id
}

async fn running(board: &Board) -> usize {
    board.read().await.unwrap().live_runs().await.unwrap().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_worker_of_a_board_that_nobody_dispatches_holds_no_slot() {
    let stage = Stage::new().await;
    let other = board(&stage, "other").await;
    let all = [stage.board.clone(), other.clone()];
    let (dispatcher, _) = stage.dispatcher(|options| options.policy.caps.host = Some(1));
    let first = stage.task(&["hang"]).await;
    dispatcher.tick(&stage.board, &all, Mode::Real).await.unwrap();
    let run = stage.until_running(&first).await;
    let second = task(&other, "hang").await;
    let held = dispatcher.tick(&other, &all, Mode::Real).await.unwrap();
    assert_eq!((held.spawned.count, held.skipped_capped.count), (0, 1), "its worker lives");
    kill(&run);
    // From now on nobody looks after the first board.
    let free = async {
        loop {
            let free = dispatcher.tick(&other, &all, Mode::Real).await.unwrap();
            if let Some(spawned) = free.spawned.entries.first() {
                return spawned.task_id.clone();
            }
            // The system takes a moment to end a process.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert_eq!(tokio::time::timeout(Duration::from_mins(1), free).await.unwrap(), second);
    assert_eq!(stage.get(&first).await.status, Status::Running, "only its own books say so");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_boards_with_a_backlog_get_as_many_slots_each() {
    let stage = Stage::new().await;
    let other = board(&stage, "other").await;
    for _ in 0..5 {
        stage.task(&["hang"]).await;
        task(&other, "hang").await;
    }
    let _watch = stage.watch(|options| options.policy.caps.host = Some(4));
    let mut changes = [stage.board.changes().unwrap(), other.changes().unwrap()];
    let full = async {
        while running(&stage.board).await + running(&other).await < 4 {
            let [one, two] = &mut changes;
            tokio::select! {
                changed = one.next() => changed.unwrap(),
                changed = two.next() => changed.unwrap(),
            }
        }
    };
    tokio::time::timeout(Duration::from_mins(1), full).await.unwrap();
    assert_eq!([running(&stage.board).await, running(&other).await], [2, 2]);
}

/// Both have counted before either claims, as happens where the lock is in the
/// hands of a process that is stopped.
#[tokio::test(flavor = "multi_thread")]
async fn dispatchers_that_decide_at_the_same_moment_keep_the_cap_of_the_host() {
    let stage = Stage::new().await;
    let other = board(&stage, "other").await;
    let (first, second) = (stage.task(&["hang"]).await, task(&other, "hang").await);
    let all = [stage.board.clone(), other.clone()];
    let (counted, has_counted) = mpsc::channel();
    let (go, gone) = mpsc::channel();
    let gone = Mutex::new(gone);
    let (slow, _) = stage.dispatcher(|options| {
        options.policy.caps.host = Some(1);
        options.lock = stage.path("kanban/another.lock");
        let profiles = Arc::clone(&options.profiles);
        // It is asked for the profiles when the other boards have been counted.
        options.profiles = Arc::new(move || {
            counted.send(()).unwrap();
            gone.lock().unwrap().recv().unwrap();
            profiles()
        });
    });
    let (fast, _) = stage.dispatcher(|options| options.policy.caps.host = Some(1));
    let boards = all.clone();
    let slow = tokio::spawn(async move { slow.tick(&boards[0], &boards, Mode::Real).await });
    tokio::task::spawn_blocking(move || has_counted.recv().unwrap()).await.unwrap();
    let faster = fast.tick(&other, &all, Mode::Real).await.unwrap();
    assert_eq!(faster.spawned.entries[0].task_id, second);
    go.send(()).unwrap();
    let slower = slow.await.unwrap().unwrap();
    assert_eq!(slower.spawned.count, 0);
    assert_eq!(stage.get(&first).await.status, Status::Ready, "its claim was given back");
    assert_eq!(stage.runs(&first).await.last().unwrap().process, None, "a worker was started");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dispatcher_that_is_stopped_while_it_decides_keeps_no_other_from_it() {
    let stage = Stage::new().await;
    let _stopped = hold_lock(&stage.path("kanban/dispatch.lock"));
    let (dispatcher, _) = stage.dispatcher(|_| {});
    let task = stage.task(&["complete"]).await;
    let all = [stage.board.clone()];
    let result = dispatcher.tick(&stage.board, &all, Mode::Real).await.unwrap();
    assert!(!result.skipped_locked);
    assert_eq!(result.spawned.entries[0].task_id, task);
    let _watch = stage.watch(|_| {});
    let next = stage.task(&["complete"]).await;
    stage.until_status(&next, Status::Done).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_workers_are_started_as_the_host_has_room_for() {
    let stage = Stage::new().await;
    for _ in 0..5 {
        stage.task(&["hang"]).await;
    }
    let all = [stage.board.clone()];
    for (room, spawned) in [(Some(0), 2), (Some(0), 0), (Some(1), 1), (None, 2)] {
        let (dispatcher, _) =
            stage.dispatcher(|options| options.room = Some(Arc::new(move || room)));
        let result = dispatcher.tick(&stage.board, &all, Mode::Real).await.unwrap();
        assert_eq!(result.spawned.count, spawned, "room for {room:?}");
    }
}
