//! Workers that must not continue.

use std::time::Duration;

use vestal_board::verbs::{Block, TaskCompletion};
use vestal_board::{Fence, Outcome, RunId, RunProcess, Status};
use vestal_dispatcher::{DispatchMode, STOP_TIMEOUTS, Stopped, stop_worker};
use vestal_process::{EndTimeouts, ProcessId, start_time};

use crate::fixture::{DispatcherFixture, is_alive, kill, person, until_file};

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_takes_too_long_is_killed_with_its_children() {
    let fixture = DispatcherFixture::new().await;
    let pids = fixture.path("pids");
    let child = format!("child {}", pids.display());
    let task = fixture
        .task_with(&["ignore-term", &child, &child, "hang"], |new| {
            new.max_runtime = Some(Duration::from_secs(1));
        })
        .await;
    let _watch = fixture.watch(|_| {});
    let run = fixture.until_ended(&task, Outcome::TimedOut).await;
    assert!(!is_alive(&run));
    let children = until_file(&pids).await;
    assert_eq!(children.lines().count(), 2);
    for pid in children.lines() {
        assert_eq!(start_time(pid.parse().unwrap()), None, "child {pid} is left");
    }
    // What it left in its sandbox is cleaned up by a process of its own.
    assert_eq!(until_file(&fixture.path("swept")).await, format!("{task} {}\n", run.id));
}

#[tokio::test(flavor = "multi_thread")]
async fn children_of_a_worker_that_crashed_are_ended_before_its_task_is_tried_again() {
    let fixture = DispatcherFixture::new().await;
    let pids = fixture.path("pids");
    let child = format!("child {}", pids.display());
    let task = fixture.task(&[&child, "kill-self"]).await;
    let _watch = fixture.watch(|_| {});
    let run = fixture.until_ended(&task, Outcome::Crashed).await;
    let pid = until_file(&pids).await.trim().parse().unwrap();
    assert_eq!(start_time(pid), None, "its child is left");
    assert_eq!(until_file(&fixture.path("swept")).await, format!("{task} {}\n", run.id));
}

#[tokio::test(flavor = "multi_thread")]
async fn taking_a_task_away_stops_its_worker() {
    let fixture = DispatcherFixture::new().await;
    let _watch = fixture.watch(|_| {});
    for verb in ["archive", "block", "schedule", "complete", "reclaim"] {
        let task = fixture.task(&["ignore-term", "hang"]).await;
        let run = fixture.until_running(&task).await;
        let (by, board) = (person(), &fixture.board);
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
        fixture.until(&task, "gone", gone).await;
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
    let fixture = DispatcherFixture::new().await;
    let pids = fixture.path("pids");
    let task = fixture.task(&[&format!("child {}", pids.display()), "hang"]).await;
    let (dispatcher, _) = fixture.dispatcher(|_| {});
    dispatcher.tick(&fixture.board, &[fixture.board.clone()], DispatchMode::Real).await.unwrap();
    fixture.until_running(&task).await;
    let child = until_file(&pids).await.trim().parse().unwrap();
    let ended = fixture.board.archive(&person(), &task).await.unwrap().ended.unwrap();
    assert!(!ended.gone);
    let launcher = fixture.launcher();
    let stopped =
        stop_worker(&fixture.board, &ended, Some(&launcher), STOP_TIMEOUTS).await.unwrap();
    assert_eq!(stopped, Stopped::Gone);
    assert!(!is_alive(&ended));
    assert_eq!(start_time(child), None);
    assert!(fixture.runs(&task).await[0].gone);
    assert_eq!(until_file(&fixture.path("swept")).await, format!("{task} {}\n", ended.id));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_has_a_workers_number_is_not_signalled() {
    let fixture = DispatcherFixture::new().await;
    let mut other = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let real = ProcessId::of_child(other.id()).unwrap().unwrap();
    let task = fixture.task(&["hang"]).await;
    // A worker of that number was there once.
    let claim = vestal_board::verbs::Claim {
        lease: Duration::from_mins(1),
        profile: Some(vestal_config::ProfileName::new("ada").unwrap()),
        role: vestal_board::Role::Work,
        host: Some(fixture.board.host().clone()),
    };
    let by = vestal_board::Authority::Dispatcher(fixture.board.host().name.clone());
    let run = fixture.board.claim(&by, &task, claim).await.unwrap();
    let fence = Fence { task: task.clone(), run: run.id, profile: run.profile.clone().unwrap() };
    let process =
        RunProcess { host: fixture.board.host().clone(), pid: real.pid, start: real.start - 1 };
    fixture.board.started(&fence, process, "scratch").await.unwrap();

    let (dispatcher, _) = fixture.dispatcher(|options| {
        options.policy.caps.board = Some(1);
    });
    let all = [fixture.board.clone()];
    let result = dispatcher.tick(&fixture.board, &all, DispatchMode::Real).await.unwrap();
    assert_eq!(result.crashed.entries, [task.clone()], "a dead worker was taken for alive");
    fixture.until_ended(&task, Outcome::Crashed).await;

    let ended = fixture.runs(&task).await.remove(0);
    let stopped = stop_worker(&fixture.board, &ended, None, STOP_TIMEOUTS).await.unwrap();
    assert_eq!(stopped, Stopped::Gone);
    assert!(real.is_alive(), "an unrelated process was ended");
    other.kill().unwrap();
    other.wait().unwrap();
}

/// Order of events, not time: the stubborn one is still being stopped when the
/// other is started.
#[tokio::test(flavor = "multi_thread")]
async fn a_stubborn_worker_does_not_delay_the_start_of_others() {
    let fixture = DispatcherFixture::new().await;
    let stubborn = fixture
        .task_with(&["ignore-term", "hang"], |new| new.max_runtime = Some(Duration::from_secs(1)))
        .await;
    let watch = fixture.watch(|options| {
        options.timeouts = EndTimeouts { grace: Duration::from_mins(5), kill: STOP_TIMEOUTS.kill };
    });
    let being_stopped = |_: &_, runs: &[vestal_board::Run]| {
        runs.last().is_some_and(|run| run.stopping == Some(Outcome::TimedOut))
    };
    fixture.until(&stubborn, "being stopped", being_stopped).await;
    let other = fixture.task(&["complete"]).await;
    fixture.until_ended(&other, Outcome::Completed).await;
    assert_eq!(fixture.get(&stubborn).await.status, Status::Running);
    // One with less patience finishes what this one began.
    watch.end().await;
    let _watch = fixture.watch(|_| {});
    let run = fixture.until_ended(&stubborn, Outcome::TimedOut).await;
    assert!(!is_alive(&run));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_does_not_renew_its_lease_is_extended_once_and_then_stopped() {
    let fixture = DispatcherFixture::new().await;
    let task = fixture.task(&["ignore-term", "hang"]).await;
    let _watch = fixture.watch(|options| options.policy.lease = Duration::from_secs(1));
    let run = fixture.until_ended(&task, Outcome::Stale).await;
    assert!(!is_alive(&run));
    let events = fixture.events(&task).await;
    let extended = events.iter().filter(|kind| *kind == "claim_extended").count();
    assert_eq!(extended, 1, "{events:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_renews_its_lease_is_left_alone() {
    let fixture = DispatcherFixture::new().await;
    let task = fixture.task(&["beat-for-ever 600"]).await;
    let _watch = fixture.watch(|options| {
        options.policy.lease = Duration::from_millis(600);
        options.interval = Duration::from_millis(50);
    });
    let run = fixture.until_running(&task).await;
    let renewed = |_: &_, runs: &[vestal_board::Run]| {
        let (first, now) = (run.expires_at, runs[0].expires_at);
        first.until(now) > Duration::from_secs(3)
    };
    fixture.until(&task, "renewed often", renewed).await;
    assert!(is_alive(&run));
    assert_eq!(fixture.runs(&task).await.len(), 1);
    kill(&run);
    fixture.until_ended(&task, Outcome::Crashed).await;
}

/// A worker that is started for a run which was ended meanwhile is not left.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_task_was_taken_while_it_was_started_is_stopped() {
    let fixture = DispatcherFixture::new().await;
    let pids = fixture.path("pids");
    let task = fixture.task(&[&format!("child {}", pids.display()), "hang"]).await;
    let meddling = Meddling { inner: fixture.launcher(), board: fixture.board.clone() };
    let (dispatcher, _) =
        fixture.dispatcher(|options| options.launcher = std::sync::Arc::new(meddling));
    let all = [fixture.board.clone()];
    let result = dispatcher.tick(&fixture.board, &all, DispatchMode::Real).await.unwrap();
    assert!(result.spawned.is_empty());
    assert_eq!(fixture.get(&task).await.status, Status::Archived);
    let runs = fixture.runs(&task).await;
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
async fn a_worker_that_does_not_go_keeps_its_task_and_that_is_reported_once() {
    let fixture = DispatcherFixture::new().await;
    let task = fixture
        .task_with(&["ignore-term", "hang"], |new| new.max_runtime = Some(Duration::from_secs(1)))
        .await;
    let watch = fixture.watch(|options| {
        options.timeouts = EndTimeouts { grace: Duration::from_millis(10), kill: Duration::ZERO };
    });
    let deferred = |_: &_, runs: &[vestal_board::Run]| {
        runs.last().is_some_and(|run| run.stopping.is_some() && run.error.is_some())
    };
    fixture.until(&task, "left with its worker", deferred).await;
    for _ in 0..3 {
        let other = fixture.task(&["complete"]).await;
        fixture.until_ended(&other, Outcome::Completed).await;
    }
    let (now, runs) = (fixture.get(&task).await, fixture.runs(&task).await);
    assert_eq!((now.status, runs.len()), (Status::Running, 1), "it was given away");
    assert!(runs[0].is_open() && is_alive(&runs[0]));
    let reported = fixture.events(&task).await;
    assert_eq!(
        reported.iter().filter(|kind| *kind == "reclaim_deferred").count(),
        1,
        "{reported:?}"
    );
    watch.end().await;
    // A dispatcher with more patience finishes it.
    let _watch = fixture.watch(|_| {});
    fixture.until_ended(&task, Outcome::TimedOut).await;
    assert!(!is_alive(&runs[0]));
}
