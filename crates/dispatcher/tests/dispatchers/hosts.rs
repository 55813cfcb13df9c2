//! Two hosts that share a board.

use std::collections::BTreeSet;
use std::time::Duration;

use rustix::process::Signal;
use vestal_board::{Outcome, Status};

use crate::stage::{Stage, is_alive, until_file};

const LEASE: &str = "3000";

fn host<'a>(name: &'a str, lock: &'a str) -> [&'a str; 9] {
    ["--watch", "--host", name, "--lock", lock, "--lease", LEASE, "--interval", "100"]
}

/// The dispatcher and the worker of one host freeze past the lease. The other
/// host takes the task; when the first wakes up, it can write nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_host_loses_its_task_and_writes_nothing_when_it_wakes() {
    let stage = Stage::new().await;
    let (go, ran) = (stage.path("go"), stage.path("ran"));
    let touch = format!("touch {}", ran.display());
    let wait = format!("wait-for {}", go.display());
    let beat = format!("beat {LEASE}");
    let task = stage.task(&[&touch, &wait, &beat, "complete"]).await;

    let frozen = stage.process(&host("one", "one.lock"), None);
    let first = stage.until_running(&task).await;
    assert_eq!(first.host_name().unwrap().as_str(), "one");
    until_file(&ran).await;
    frozen.signal(Signal::STOP);
    let pid = i32::try_from(first.process.as_ref().unwrap().pid).unwrap();
    let worker = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(worker, Signal::STOP).unwrap();

    let _other = stage.process(&host("two", "two.lock"), None);
    let second = stage
        .until(&task, "taken by the other host", |_, runs| {
            runs.len() == 2 && runs[1].process.is_some()
        })
        .await
        .1;
    assert_eq!(second[0].outcome, Some(Outcome::Reclaimed));
    assert_eq!(second[1].host_name().unwrap().as_str(), "two");
    // The lease had run out before anybody else had it.
    assert!(second[1].started_at >= first.expires_at, "it was taken under a valid lease");
    let before = stage.events(&task).await.len();

    // The first host wakes up, and its worker goes on: it wants to renew its
    // lease and to complete the task.
    std::fs::write(&go, "").unwrap();
    rustix::process::kill_process(worker, Signal::CONT).unwrap();
    frozen.signal(Signal::CONT);
    let done = stage.until_ended(&task, Outcome::Completed).await;
    assert_eq!(done.id, second[1].id, "the stale worker completed the task");

    // Its own host proves that the stale worker is gone.
    let gone = |_: &_, runs: &[vestal_board::Run]| runs.iter().all(|run| run.gone);
    let runs = stage.until(&task, "all gone", gone).await.1;
    assert!(!is_alive(&first));
    assert_eq!(runs.len(), 2, "it was run again");
    assert_eq!(runs[0].outcome, Some(Outcome::Reclaimed));
    assert_eq!(runs[0].heartbeat_at, first.heartbeat_at);
    let after = stage.events(&task).await;
    assert_eq!(after[before..], ["completed"], "the stale host wrote something");
    assert_eq!(until_file(&ran).await.lines().count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hosts_share_the_work_and_run_nothing_twice() {
    let stage = Stage::new().await;
    let ran = stage.path("ran");
    let touch = format!("touch {}", ran.display());
    let mut tasks = Vec::new();
    for _ in 0..20 {
        tasks.push(stage.task(&[&touch, "complete"]).await);
    }
    let _one = stage.process(&host("one", "one.lock"), None);
    let _two = stage.process(&host("two", "two.lock"), None);
    for task in &tasks {
        stage.until_ended(task, Outcome::Completed).await;
        assert_eq!(stage.runs(task).await.len(), 1);
    }
    let text = until_file(&ran).await;
    let runs: BTreeSet<&str> = text.lines().collect();
    assert_eq!(runs.len(), tasks.len());
    assert_eq!(text.lines().count(), tasks.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn another_hosts_worker_is_neither_taken_for_dead_nor_signalled_before_its_lease_ends() {
    let stage = Stage::new().await;
    let task = stage.task(&["beat-for-ever 60000"]).await;
    let mut one = stage.process(&["--watch", "--host", "one", "--lock", "one.lock"], None);
    let run = stage.until_running(&task).await;
    one.kill();
    let there = vestal_board::Host::this(vestal_board::HostName::new("two")).unwrap();
    let boards = vestal_board::boards::Boards::at(
        stage.path("kanban"),
        there.clone(),
        vestal_board::store::Durability::Normal,
    );
    let board = boards.open_any(&vestal_board::boards::Slug::default_board()).await.unwrap();
    let (dispatcher, _) = stage.dispatcher(|options| {
        options.policy.host = there;
        options.patience.grace = Duration::ZERO;
    });
    for _ in 0..3 {
        let mode = vestal_dispatcher::Mode::Real;
        let result = dispatcher.tick(&board, &[board.clone()], mode).await.unwrap();
        assert_eq!(result, vestal_board::dispatch::DispatchResult::default());
    }
    assert!(is_alive(&run));
    assert_eq!(stage.get(&task).await.status, Status::Running);
}
