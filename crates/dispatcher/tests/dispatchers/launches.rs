//! What a worker is started with.

use std::os::unix::fs::PermissionsExt as _;

use vestal_board::{Outcome, Status, log_path};
use vestal_dispatcher::Mode;

use crate::stage::{Stage, is_alive};

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_gets_its_task_and_none_of_the_dispatchers_secrets() {
    let stage = Stage::new().await;
    let task = stage
        .task_with(&["environment", "complete"], |new| new.tenant = Some("acme".to_owned()))
        .await;
    let _watch = stage.watch(|_| {});
    let run = stage.until_ended(&task, Outcome::Completed).await;
    let log = stage.log(&task);
    let root = stage.root();
    for line in [
        "env CHOSEN=passed on".to_owned(),
        format!("env VESTAL_KANBAN_TASK={task}"),
        format!("env VESTAL_KANBAN_RUN={}", run.id),
        "env VESTAL_KANBAN_BOARD=default".to_owned(),
        "env VESTAL_KANBAN_HOST=one".to_owned(),
        "env VESTAL_PROFILE=ada".to_owned(),
        "env VESTAL_TENANT=acme".to_owned(),
        format!("env VESTAL_HOME={}", root.display()),
        format!("cwd {}", root.display()),
        "stdin /dev/null".to_owned(),
        "leads true".to_owned(),
    ] {
        assert!(log.lines().any(|said| said == line), "{line} is not in\n{log}");
    }
    assert!(!log.contains("the-dispatchers-secret"), "{log}");
    assert!(!log.contains("env VESTAL_KANBAN_WORKSPACE"), "{log}");
    let mode = std::fs::metadata(log_path(stage.board.dir(), &task)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_goes_on_when_its_dispatcher_ends() {
    let stage = Stage::new().await;
    let go = stage.path("go");
    let wait = format!("wait-for {}", go.display());
    let task = stage.task(&[&wait, "complete"]).await;
    let watch = stage.watch(|_| {});
    let run = stage.until_running(&task).await;
    watch.end().await;
    assert!(is_alive(&run));
    assert_eq!(stage.get(&task).await.status, Status::Running);
    std::fs::write(&go, "").unwrap();
    stage.until_status(&task, Status::Done).await;
    let _watch = stage.watch(|_| {});
    stage.until_ended(&task, Outcome::Completed).await;
    assert_eq!(stage.runs(&task).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_goes_on_when_the_process_that_started_it_has_ended() {
    let stage = Stage::new().await;
    let task = stage.task(&["hang"]).await;
    // It dispatches once, and ends.
    assert!(stage.process(&[], None).wait().success());
    let run = stage.until_running(&task).await;
    assert!(is_alive(&run));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_cannot_be_started_is_a_failure_that_says_why() {
    let stage = Stage::new().await;
    let task = stage.task(&[]).await;
    let (dispatcher, _) = stage.dispatcher(|options| {
        let mut launcher = stage.launcher();
        launcher.program = stage.path("no-such-program");
        options.launcher = std::sync::Arc::new(launcher);
        options.policy.failures.backoff.first = std::time::Duration::ZERO;
        options.policy.failures.backoff.most = std::time::Duration::ZERO;
    });
    let all = [stage.board.clone()];
    let result = dispatcher.tick(&stage.board, &all, Mode::Real).await.unwrap();
    assert!(result.spawned.is_empty());
    let run = stage.until_ended(&task, Outcome::SpawnFailed).await;
    let said = run.error.unwrap();
    assert!(said.contains("no-such-program") && said.contains("No such file"), "{said}");
    assert_eq!(stage.get(&task).await.status, Status::Ready);
    // At the budget it waits for a person.
    dispatcher.tick(&stage.board, &all, Mode::Real).await.unwrap();
    let task = stage.until_status(&task, Status::Blocked).await;
    assert!(task.gate);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_profile_is_said_once() {
    let stage = Stage::new().await;
    let ghost = vestal_config::ProfileName::new("ghost").unwrap();
    let task = stage.task_with(&[], |new| new.assignee = Some(ghost)).await;
    let (dispatcher, heard) = stage.dispatcher(|_| {});
    let all = [stage.board.clone()];
    for _ in 0..3 {
        let result = dispatcher.tick(&stage.board, &all, Mode::Real).await.unwrap();
        assert_eq!(result.skipped_nonspawnable.entries, [task.clone()]);
    }
    assert_eq!(heard.all().len(), 1, "{:?}", heard.all());
    assert_eq!(stage.events(&task).await, ["created"]);
}
