//! Workers that must not go on.

use std::time::Duration;

use vestal_board::verbs::{Block, TaskCompletion};
use vestal_board::{Fence, Outcome, RunId, RunProcess, Status};
use vestal_dispatcher::{DispatchMode, PATIENCE, Stopped, stop_worker};
use vestal_process::{EndPatience, ProcessId, start_time};

use crate::stage::{Stage, is_alive, kill, person, until_file};

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_takes_too_long_is_killed_with_its_children() {
    let stage = Stage::new().await;
    let pids = stage.path("pids");
    let child = format!("child {}", pids.display());
    let task = stage
        .task_with(&["ignore-term", &child, &child, "hang"], |new| {
            new.max_runtime = Some(Duration::from_secs(1));
        })
        .await;
    let _watch = stage.watch(|_| {});
    let run = stage.until_ended(&task, Outcome::TimedOut).await;
    assert!(!is_alive(&run));
    let children = until_file(&pids).await;
    assert_eq!(children.lines().count(), 2);
    for pid in children.lines() {
        assert_eq!(start_time(pid.parse().unwrap()), None, "child {pid} is left");
    }
    // What it left in its sandbox is cleaned up by a process of its own.
    assert_eq!(until_file(&stage.path("swept")).await, format!("{task} {}\n", run.id));
}

#[tokio::test(flavor = "multi_thread")]
async fn children_of_a_worker_that_crashed_are_ended_before_its_task_is_tried_again() {
    let stage = Stage::new().await;
    let pids = stage.path("pids");
    let child = format!("child {}", pids.display());
    let task = stage.task(&[&child, "kill-self"]).await;
    let _watch = stage.watch(|_| {});
    let run = stage.until_ended(&task, Outcome::Crashed).await;
    let pid = until_file(&pids).await.trim().parse().unwrap();
    assert_eq!(start_time(pid), None, "its child is left");
    assert_eq!(until_file(&stage.path("swept")).await, format!("{task} {}\n", run.id));
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_takes_a_task_away_stops_its_worker() {
    let stage = Stage::new().await;
    let _watch = stage.watch(|_| {});
    for verb in ["archive", "block", "schedule", "complete", "reclaim"] {
        let task = stage.task(&["ignore-term", "hang"]).await;
        let run = stage.until_running(&task).await;
        let (by, board) = (person(), &stage.board);
        match verb {
            "archive" => board.archive(&by, &task).await,
            "block" => {
                let block = Block { reason: "wait".to_owned(), kind: None };
                board.block(&by, &task, block).await
            }
            "schedule" => board.schedule(&by, &task, "later", None).await,
            "complete" => board.complete(&by, &task, TaskCompletion::default()).await,
            _ => board.reclaim(&by, &task, "mine").await,
        }
        .unwrap();
        let gone = |_: &_, runs: &[vestal_board::Run]| runs[0].gone;
        stage.until(&task, "gone", gone).await;
        assert!(!is_alive(&run), "{verb} left the worker running");
        if verb == "archive" {
            board.delete(&by, &task).await.unwrap();
        } else {
            board.archive(&by, &task).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verb_on_the_same_host_stops_the_worker_itself() {
    let stage = Stage::new().await;
    let pids = stage.path("pids");
    let task = stage.task(&[&format!("child {}", pids.display()), "hang"]).await;
    let (dispatcher, _) = stage.dispatcher(|_| {});
    dispatcher.tick(&stage.board, &[stage.board.clone()], DispatchMode::Real).await.unwrap();
    stage.until_running(&task).await;
    let child = until_file(&pids).await.trim().parse().unwrap();
    let ended = stage.board.archive(&person(), &task).await.unwrap().ended.unwrap();
    assert!(!ended.gone);
    let launcher = stage.launcher();
    let stopped = stop_worker(&stage.board, &ended, Some(&launcher), PATIENCE).await.unwrap();
    assert_eq!(stopped, Stopped::Gone);
    assert!(!is_alive(&ended));
    assert_eq!(start_time(child), None);
    assert!(stage.runs(&task).await[0].gone);
    assert_eq!(until_file(&stage.path("swept")).await, format!("{task} {}\n", ended.id));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_has_a_workers_number_is_not_signalled() {
    let stage = Stage::new().await;
    let mut other = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let real = ProcessId::of_child(other.id()).unwrap().unwrap();
    let task = stage.task(&["hang"]).await;
    // A worker of that number was there once.
    let claim = vestal_board::verbs::Claim {
        lease: Duration::from_mins(1),
        profile: Some(vestal_config::ProfileName::new("ada").unwrap()),
        role: vestal_board::Role::Work,
        host: Some(stage.board.host().clone()),
    };
    let by = vestal_board::Authority::Dispatcher(stage.board.host().name.clone());
    let run = stage.board.claim(&by, &task, claim).await.unwrap();
    let fence = Fence { task: task.clone(), run: run.id, profile: run.profile.clone().unwrap() };
    let process =
        RunProcess { host: stage.board.host().clone(), pid: real.pid, start: real.start - 1 };
    stage.board.started(&fence, process, "scratch").await.unwrap();

    let (dispatcher, _) = stage.dispatcher(|options| {
        options.policy.caps.board = Some(1);
    });
    let all = [stage.board.clone()];
    let result = dispatcher.tick(&stage.board, &all, DispatchMode::Real).await.unwrap();
    assert_eq!(result.crashed.entries, [task.clone()], "a dead worker was taken for alive");
    stage.until_ended(&task, Outcome::Crashed).await;

    let ended = stage.runs(&task).await.remove(0);
    let stopped = stop_worker(&stage.board, &ended, None, PATIENCE).await.unwrap();
    assert_eq!(stopped, Stopped::Gone);
    assert!(real.is_alive(), "an unrelated process was ended");
    other.kill().unwrap();
    other.wait().unwrap();
}

/// Order of events, not time: the stubborn one is still being stopped when the
/// other is started.
#[tokio::test(flavor = "multi_thread")]
async fn a_stubborn_worker_does_not_delay_the_start_of_others() {
    let stage = Stage::new().await;
    let stubborn = stage
        .task_with(&["ignore-term", "hang"], |new| new.max_runtime = Some(Duration::from_secs(1)))
        .await;
    let watch = stage.watch(|options| {
        options.patience = EndPatience { grace: Duration::from_mins(5), kill: PATIENCE.kill };
    });
    let being_stopped = |_: &_, runs: &[vestal_board::Run]| {
        runs.last().is_some_and(|run| run.stopping == Some(Outcome::TimedOut))
    };
    stage.until(&stubborn, "being stopped", being_stopped).await;
    let other = stage.task(&["complete"]).await;
    stage.until_ended(&other, Outcome::Completed).await;
    assert_eq!(stage.get(&stubborn).await.status, Status::Running);
    // One with less patience finishes what this one began.
    watch.end().await;
    let _watch = stage.watch(|_| {});
    let run = stage.until_ended(&stubborn, Outcome::TimedOut).await;
    assert!(!is_alive(&run));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_does_not_renew_its_lease_is_extended_once_and_then_stopped() {
    let stage = Stage::new().await;
    let task = stage.task(&["ignore-term", "hang"]).await;
    let _watch = stage.watch(|options| options.policy.lease = Duration::from_secs(1));
    let run = stage.until_ended(&task, Outcome::Stale).await;
    assert!(!is_alive(&run));
    let events = stage.events(&task).await;
    let extended = events.iter().filter(|kind| *kind == "claim_extended").count();
    assert_eq!(extended, 1, "{events:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_renews_its_lease_is_left_alone() {
    let stage = Stage::new().await;
    let task = stage.task(&["beat-for-ever 600"]).await;
    let _watch = stage.watch(|options| {
        options.policy.lease = Duration::from_millis(600);
        options.interval = Duration::from_millis(50);
    });
    let run = stage.until_running(&task).await;
    let renewed = |_: &_, runs: &[vestal_board::Run]| {
        let (first, now) = (run.expires_at, runs[0].expires_at);
        first.until(now) > Duration::from_secs(3)
    };
    stage.until(&task, "renewed often", renewed).await;
    assert!(is_alive(&run));
    assert_eq!(stage.runs(&task).await.len(), 1);
    kill(&run);
    stage.until_ended(&task, Outcome::Crashed).await;
}

/// A worker that is started for a run which was ended meanwhile is not left.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_task_was_taken_while_it_was_started_is_stopped() {
    let stage = Stage::new().await;
    let pids = stage.path("pids");
    let task = stage.task(&[&format!("child {}", pids.display()), "hang"]).await;
    let meddling = Meddling { inner: stage.launcher(), board: stage.board.clone() };
    let (dispatcher, _) =
        stage.dispatcher(|options| options.launcher = std::sync::Arc::new(meddling));
    let all = [stage.board.clone()];
    let result = dispatcher.tick(&stage.board, &all, DispatchMode::Real).await.unwrap();
    assert!(result.spawned.is_empty());
    assert_eq!(stage.get(&task).await.status, Status::Archived);
    let runs = stage.runs(&task).await;
    assert!(runs[0].gone && !is_alive(&runs[0]), "{runs:?}");
    assert_eq!(runs[0].id, RunId::new(1));
}

/// Starts workers, and has their task archived in the same moment.
struct Meddling {
    inner: vestal_dispatcher::ProgramLauncher,
    board: vestal_board::Board,
}

#[async_trait::async_trait]
impl vestal_dispatcher::Launcher for Meddling {
    async fn launch(
        &self,
        order: &vestal_dispatcher::LaunchSpec,
    ) -> Result<vestal_dispatcher::Launched, vestal_dispatcher::LaunchError> {
        let launched = self.inner.launch(order).await?;
        self.board.archive(&person(), &order.task).await.unwrap();
        Ok(launched)
    }

    async fn sweep(
        &self,
        order: &vestal_dispatcher::LaunchSpec,
    ) -> Result<tokio::process::Child, vestal_dispatcher::LaunchError> {
        self.inner.sweep(order).await
    }
}

/// No time to kill it makes any worker one that does not go.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_does_not_go_keeps_its_task_and_that_is_told_once() {
    let stage = Stage::new().await;
    let task = stage
        .task_with(&["ignore-term", "hang"], |new| new.max_runtime = Some(Duration::from_secs(1)))
        .await;
    let watch = stage.watch(|options| {
        options.patience = EndPatience { grace: Duration::from_millis(10), kill: Duration::ZERO };
    });
    let deferred = |_: &_, runs: &[vestal_board::Run]| {
        runs.last().is_some_and(|run| run.stopping.is_some() && run.error.is_some())
    };
    stage.until(&task, "left with its worker", deferred).await;
    for _ in 0..3 {
        let other = stage.task(&["complete"]).await;
        stage.until_ended(&other, Outcome::Completed).await;
    }
    let (now, runs) = (stage.get(&task).await, stage.runs(&task).await);
    assert_eq!((now.status, runs.len()), (Status::Running, 1), "it was given away");
    assert!(runs[0].is_open() && is_alive(&runs[0]));
    let told = stage.events(&task).await;
    assert_eq!(told.iter().filter(|kind| *kind == "reclaim_deferred").count(), 1, "{told:?}");
    watch.end().await;
    // A dispatcher with more patience finishes it.
    let _watch = stage.watch(|_| {});
    stage.until_ended(&task, Outcome::TimedOut).await;
    assert!(!is_alive(&runs[0]));
}
