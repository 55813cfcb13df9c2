//! Several hosts and several boards.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use rustix::process::Signal;
use vestal_board::boards::{NewBoard, Slug};
use vestal_board::{Board, NewTask, Outcome, Status, TaskId};
use vestal_config::ProfileName;
use vestal_dispatcher::DispatchMode;

use crate::fixture::{DispatcherFixture, hold_lock, is_alive, kill, person, until_file};

const LEASE: &str = "3000";

fn host<'a>(name: &'a str, lock: &'a str) -> [&'a str; 9] {
    ["--watch", "--host", name, "--lock", lock, "--lease", LEASE, "--interval", "100"]
}

/// The dispatcher and the worker of one host freeze past the lease. The other
/// host takes the task; when the first wakes up, it can write nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_host_loses_its_task_and_writes_nothing_when_it_wakes() {
    let fixture = DispatcherFixture::new().await;
    let (go, ran) = (fixture.path("go"), fixture.path("ran"));
    let touch = format!("touch {}", ran.display());
    let wait = format!("wait-for {}", go.display());
    let beat = format!("beat {LEASE}");
    let task = fixture.task(&[&touch, &wait, &beat, "complete"]).await;

    let frozen = fixture.process(&host("one", "one.lock"), None);
    let first = fixture.until_running(&task).await;
    assert_eq!(first.host_name().unwrap().as_str(), "one");
    until_file(&ran).await;
    frozen.signal(Signal::STOP);
    let pid = i32::try_from(first.process.as_ref().unwrap().pid).unwrap();
    let worker = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(worker, Signal::STOP).unwrap();

    let _other = fixture.process(&host("two", "two.lock"), None);
    let second = fixture
        .until(&task, "taken by the other host", |_, runs| {
            runs.len() == 2 && runs[1].process.is_some()
        })
        .await
        .1;
    assert_eq!(second[0].outcome, Some(Outcome::Reclaimed));
    assert_eq!(second[1].host_name().unwrap().as_str(), "two");
    // The lease had run out before anybody else had it.
    assert!(second[1].started_at >= first.expires_at, "it was taken under a valid lease");
    let before = fixture.events(&task).await.len();

    // The first host wakes up, and its worker continues: it wants to renew its
    // lease and to complete the task.
    std::fs::write(&go, "").unwrap();
    rustix::process::kill_process(worker, Signal::CONT).unwrap();
    frozen.signal(Signal::CONT);
    let done = fixture.until_ended(&task, Outcome::Completed).await;
    assert_eq!(done.id, second[1].id, "the stale worker completed the task");

    // Its own host proves that the stale worker is gone.
    let gone = |_: &_, runs: &[vestal_board::Run]| runs.iter().all(|run| run.gone);
    let runs = fixture.until(&task, "all gone", gone).await.1;
    assert!(!is_alive(&first));
    assert_eq!(runs.len(), 2, "it was run again");
    assert_eq!(runs[0].outcome, Some(Outcome::Reclaimed));
    assert_eq!(runs[0].heartbeat_at, first.heartbeat_at);
    let after = fixture.events(&task).await;
    assert_eq!(after[before..], ["completed"], "the stale host wrote something");
    assert_eq!(until_file(&ran).await.lines().count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hosts_share_the_work_and_run_nothing_twice() {
    let fixture = DispatcherFixture::new().await;
    let ran = fixture.path("ran");
    let touch = format!("touch {}", ran.display());
    let mut tasks = Vec::new();
    for _ in 0..20 {
        tasks.push(fixture.task(&[&touch, "complete"]).await);
    }
    let _one = fixture.process(&host("one", "one.lock"), None);
    let _two = fixture.process(&host("two", "two.lock"), None);
    for task in &tasks {
        fixture.until_ended(task, Outcome::Completed).await;
        assert_eq!(fixture.runs(task).await.len(), 1);
    }
    let text = until_file(&ran).await;
    let runs: BTreeSet<&str> = text.lines().collect();
    assert_eq!(runs.len(), tasks.len());
    assert_eq!(text.lines().count(), tasks.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn another_hosts_worker_is_neither_taken_for_dead_nor_signalled_before_its_lease_ends() {
    let fixture = DispatcherFixture::new().await;
    let task = fixture.task(&["beat-for-ever 60000"]).await;
    let mut one = fixture.process(&["--watch", "--host", "one", "--lock", "one.lock"], None);
    let run = fixture.until_running(&task).await;
    one.kill();
    let there = vestal_board::HostId::this(vestal_board::HostName::new("two")).unwrap();
    let boards = vestal_board::boards::Boards::at(
        fixture.path("kanban"),
        there.clone(),
        vestal_board::store::Durability::Normal,
    );
    let board = boards.open_any(&vestal_board::boards::Slug::default_board()).await.unwrap();
    let (dispatcher, _) = fixture.dispatcher(|options| {
        options.policy.host = there;
        options.timeouts.grace = Duration::ZERO;
    });
    for _ in 0..3 {
        let mode = vestal_dispatcher::DispatchMode::Real;
        let result = dispatcher.tick(&board, &[board.clone()], mode).await.unwrap();
        assert_eq!(result, vestal_board::dispatch::DispatchResult::default());
    }
    assert!(is_alive(&run));
    assert_eq!(fixture.get(&task).await.status, Status::Running);
}

async fn board(fixture: &DispatcherFixture, name: &str) -> Board {
    let slug = Slug::new(name).unwrap();
    fixture.boards.create(&slug, NewBoard::default()).await.unwrap();
    fixture.boards.open_any(&slug).await.unwrap()
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
    let fixture = DispatcherFixture::new().await;
    let other = board(&fixture, "other").await;
    let all = [fixture.board.clone(), other.clone()];
    let (dispatcher, _) = fixture.dispatcher(|options| options.policy.caps.host = Some(1));
    let first = fixture.task(&["hang"]).await;
    dispatcher.tick(&fixture.board, &all, DispatchMode::Real).await.unwrap();
    let run = fixture.until_running(&first).await;
    let second = task(&other, "hang").await;
    let held = dispatcher.tick(&other, &all, DispatchMode::Real).await.unwrap();
    assert_eq!((held.spawned.count, held.skipped_capped.count), (0, 1), "its worker lives");
    kill(&run);
    // From now on nobody looks after the first board.
    let free = async {
        loop {
            let free = dispatcher.tick(&other, &all, DispatchMode::Real).await.unwrap();
            if let Some(spawned) = free.spawned.entries.first() {
                return spawned.task_id.clone();
            }
            // The system takes a moment to end a process.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert_eq!(tokio::time::timeout(Duration::from_mins(1), free).await.unwrap(), second);
    assert_eq!(fixture.get(&first).await.status, Status::Running, "only its own books say so");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_boards_with_a_backlog_get_as_many_slots_each() {
    let fixture = DispatcherFixture::new().await;
    let other = board(&fixture, "other").await;
    for _ in 0..5 {
        fixture.task(&["hang"]).await;
        task(&other, "hang").await;
    }
    let _watch = fixture.watch(|options| options.policy.caps.host = Some(4));
    let mut changes = [fixture.board.changes().unwrap(), other.changes().unwrap()];
    let full = async {
        while running(&fixture.board).await + running(&other).await < 4 {
            let [one, two] = &mut changes;
            tokio::select! {
                changed = one.next() => changed.unwrap(),
                changed = two.next() => changed.unwrap(),
            }
        }
    };
    tokio::time::timeout(Duration::from_mins(1), full).await.unwrap();
    assert_eq!([running(&fixture.board).await, running(&other).await], [2, 2]);
}

/// Both have counted before either claims, as happens where the lock is in the
/// hands of a process that is stopped.
#[tokio::test(flavor = "multi_thread")]
async fn dispatchers_that_decide_at_the_same_moment_keep_the_cap_of_the_host() {
    let fixture = DispatcherFixture::new().await;
    let other = board(&fixture, "other").await;
    let (first, second) = (fixture.task(&["hang"]).await, task(&other, "hang").await);
    let all = [fixture.board.clone(), other.clone()];
    let (counted, has_counted) = mpsc::channel();
    let (go, gone) = mpsc::channel();
    let gone = Mutex::new(gone);
    let (slow, _) = fixture.dispatcher(|options| {
        options.policy.caps.host = Some(1);
        options.lock = fixture.path("kanban/another.lock");
        let profiles = Arc::clone(&options.profiles);
        // It is asked for the profiles when the other boards have been counted.
        options.profiles = Arc::new(move || {
            counted.send(()).unwrap();
            gone.lock().unwrap().recv().unwrap();
            profiles()
        });
    });
    let (fast, _) = fixture.dispatcher(|options| options.policy.caps.host = Some(1));
    let boards = all.clone();
    let slow =
        tokio::spawn(async move { slow.tick(&boards[0], &boards, DispatchMode::Real).await });
    tokio::task::spawn_blocking(move || has_counted.recv().unwrap()).await.unwrap();
    let faster = fast.tick(&other, &all, DispatchMode::Real).await.unwrap();
    assert_eq!(faster.spawned.entries[0].task_id, second);
    go.send(()).unwrap();
    let slower = slow.await.unwrap().unwrap();
    assert_eq!(slower.spawned.count, 0);
    assert_eq!(fixture.get(&first).await.status, Status::Ready, "its claim was given back");
    assert_eq!(fixture.runs(&first).await.last().unwrap().process, None, "a worker was started");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dispatcher_that_is_stopped_while_it_decides_keeps_no_other_from_it() {
    let fixture = DispatcherFixture::new().await;
    let _stopped = hold_lock(&fixture.path("kanban/dispatch.lock"));
    let (dispatcher, _) = fixture.dispatcher(|_| {});
    let task = fixture.task(&["complete"]).await;
    let all = [fixture.board.clone()];
    let result = dispatcher.tick(&fixture.board, &all, DispatchMode::Real).await.unwrap();
    assert!(!result.skipped_locked);
    assert_eq!(result.spawned.entries[0].task_id, task);
    let _watch = fixture.watch(|_| {});
    let next = fixture.task(&["complete"]).await;
    fixture.until_status(&next, Status::Done).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_workers_are_started_as_the_host_has_room_for() {
    let fixture = DispatcherFixture::new().await;
    for _ in 0..5 {
        fixture.task(&["hang"]).await;
    }
    let all = [fixture.board.clone()];
    for (room, spawned) in [(Some(0), 2), (Some(0), 0), (Some(1), 1), (None, 2)] {
        let (dispatcher, _) =
            fixture.dispatcher(|options| options.room = Some(Arc::new(move || room)));
        let result = dispatcher.tick(&fixture.board, &all, DispatchMode::Real).await.unwrap();
        assert_eq!(result.spawned.count, spawned, "room for {room:?}");
    }
}
