//! Dispatchers that die at every step, and the next one.

use std::time::Duration;

use vestal_board::{Outcome, Status};
use vestal_dispatcher::DispatchMode;

use crate::fixture::{DispatcherFixture, is_alive, until_file};

/// The dispatcher that comes after: it tries again at once.
fn next(fixture: &DispatcherFixture) -> crate::fixture::Watching {
    fixture.watch(|options| {
        options.policy.lease = Duration::from_secs(1);
        options.policy.failures.backoff.first = Duration::ZERO;
        options.policy.failures.backoff.most = Duration::ZERO;
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dispatcher_that_dies_before_it_starts_a_worker_loses_no_task() {
    for failpoint in ["dispatch.claimed", "dispatch.workspace-made"] {
        let fixture = DispatcherFixture::new().await;
        let ran = fixture.path("ran");
        let task = fixture.task(&[&format!("touch {}", ran.display()), "complete"]).await;
        let mut dying = fixture.process(&["--lease", "1000"], Some(failpoint));
        assert!(!dying.wait().success());
        let held = fixture.get(&task).await;
        assert_eq!(held.status, Status::Running, "{failpoint}");
        let first = fixture.runs(&task).await.remove(0);
        assert!(first.process.is_none());

        let _watch = next(&fixture);
        fixture.until_ended(&task, Outcome::Completed).await;
        let runs = fixture.runs(&task).await;
        assert_eq!(runs[0].outcome, Some(Outcome::Reclaimed), "{failpoint}");
        assert!(runs[1].started_at >= first.expires_at, "it was taken under a valid lease");
        assert_eq!(until_file(&ran).await, format!("{}\n", runs[1].id), "it ran twice");
        assert!(fixture.board.show(&task).await.unwrap().failures.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_dispatcher_died_before_it_noted_the_start_notes_it_itself() {
    let fixture = DispatcherFixture::new().await;
    let (ran, go) = (fixture.path("ran"), fixture.path("go"));
    let touch = format!("touch {}", ran.display());
    let wait = format!("wait-for {}", go.display());
    let task = fixture.task(&["note-started", &touch, &wait, "complete"]).await;
    let mut dying = fixture.process(&[], Some("dispatch.launched"));
    assert!(!dying.wait().success());
    let run = fixture.until_running(&task).await;
    assert!(is_alive(&run));
    let _watch = next(&fixture);
    std::fs::write(&go, "").unwrap();
    fixture.until_ended(&task, Outcome::Completed).await;
    assert_eq!(fixture.runs(&task).await.len(), 1);
    assert_eq!(until_file(&ran).await.lines().count(), 1);
}

/// A worker that nobody noted writes nothing once its task is another's.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_nobody_noted_can_write_nothing_once_its_lease_ran_out() {
    let fixture = DispatcherFixture::new().await;
    let (go, first) = (fixture.path("go"), fixture.path("first"));
    let touch = format!("touch {}", first.display());
    let wait = format!("wait-for {}", go.display());
    let task = fixture.task(&[&touch, &wait, "complete"]).await;
    let mut dying = fixture.process(&["--lease", "500"], Some("dispatch.launched"));
    assert!(!dying.wait().success());
    until_file(&first).await;

    let _watch = next(&fixture);
    let second = fixture
        .until(&task, "taken again", |_, runs| runs.len() == 2 && runs[1].process.is_some())
        .await
        .1
        .remove(1);
    std::fs::write(&go, "").unwrap();
    let done = fixture.until_ended(&task, Outcome::Completed).await;
    assert_eq!(done.id, second.id, "the stale worker completed the task");
    assert_eq!(fixture.runs(&task).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dispatcher_was_about_to_stop_is_stopped_by_the_next() {
    for failpoint in ["dispatch.stop-intended", "dispatch.stopped"] {
        let fixture = DispatcherFixture::new().await;
        let task = fixture
            .task_with(&["ignore-term", "hang"], |new| {
                new.max_runtime = Some(Duration::from_secs(1));
                new.max_retries = Some(1);
            })
            .await;
        let mut dying = fixture.process(&["--watch"], Some(failpoint));
        assert!(!dying.wait().success());
        let run = fixture.runs(&task).await.remove(0);
        assert_eq!(run.stopping, Some(Outcome::TimedOut), "{failpoint}");
        assert!(run.is_open());
        assert_eq!(is_alive(&run), failpoint == "dispatch.stop-intended");

        let _watch = next(&fixture);
        let ended = fixture.until_ended(&task, Outcome::TimedOut).await;
        assert_eq!(ended.id, run.id);
        assert!(!is_alive(&run));
        assert_eq!(fixture.get(&task).await.status, Status::Blocked);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_at_any_step_strands_no_task() {
    let fixture = DispatcherFixture::new().await;
    let scripts: [&[&str]; 5] = [
        &["kill-self"],
        &["note-started", "kill-self"],
        &["beat 60000", "kill-self"],
        &["complete", "kill-self"],
        &["block no", "kill-self"],
    ];
    let expected = [
        Outcome::Crashed,
        Outcome::Crashed,
        Outcome::Crashed,
        Outcome::Completed,
        Outcome::Blocked,
    ];
    let mut tasks = Vec::new();
    for script in scripts {
        tasks.push(fixture.task_with(script, |new| new.max_retries = Some(1)).await);
    }
    let _watch = next(&fixture);
    for (task, outcome) in tasks.iter().zip(expected) {
        fixture.until_ended(task, outcome).await;
        assert_ne!(fixture.get(task).await.status, Status::Running);
    }
}

/// Many dispatchers, killed at random: in the end every task is done, and no two
/// runs of a task held it at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn dispatchers_that_are_killed_again_and_again_lose_nothing() {
    let fixture = DispatcherFixture::new().await;
    let ran = fixture.path("ran");
    let touch = format!("touch {}", ran.display());
    let mut tasks = Vec::new();
    for _ in 0..12 {
        tasks.push(fixture.task(&["note-started", &touch, "complete"]).await);
    }
    for round in 0..8 {
        let mut dying = fixture.process(&["--watch", "--lease", "1000"], None);
        tokio::time::sleep(Duration::from_millis(5 * (round + 1))).await;
        dying.kill();
    }
    let _watch = next(&fixture);
    for task in &tasks {
        fixture.until_ended(task, Outcome::Completed).await;
        let runs = fixture.runs(task).await;
        for pair in runs.windows(2) {
            assert!(pair[0].ended_at.unwrap() <= pair[1].started_at, "{runs:?}");
        }
        let completed = runs.iter().filter(|run| run.outcome == Some(Outcome::Completed)).count();
        assert_eq!(completed, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_one_shot_says_so_when_another_dispatcher_decides() {
    let fixture = DispatcherFixture::new().await;
    fixture.task(&["complete"]).await;
    let (dispatcher, _) = fixture.dispatcher(|_| {});
    let lock = std::fs::File::create(fixture.path("kanban/dispatch.lock")).unwrap();
    lock.lock().unwrap();
    let all = [fixture.board.clone()];
    let result = dispatcher.tick(&fixture.board, &all, DispatchMode::Real).await.unwrap();
    assert!(result.skipped_locked && result.spawned.is_empty());
    // A dry run decides nothing, so it waits for nobody.
    let result = dispatcher.tick(&fixture.board, &all, DispatchMode::DryRun).await.unwrap();
    assert!(!result.skipped_locked);
    assert_eq!(result.spawned.count, 1);
    drop(lock);
    let result = dispatcher.tick(&fixture.board, &all, DispatchMode::Real).await.unwrap();
    assert_eq!(result.spawned.count, 1);
}
