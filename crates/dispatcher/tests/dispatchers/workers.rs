//! Starting workers, and how they end.

use std::os::unix::fs::PermissionsExt as _;

use vestal_board::{Outcome, Status, log_path};
use vestal_dispatcher::DispatchMode;

use crate::fixture::{DispatcherFixture, is_alive, kill};

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_gets_its_task_and_none_of_the_dispatchers_secrets() {
    let fixture = DispatcherFixture::new().await;
    let task = fixture
        .task_with(&["environment", "complete"], |new| new.tenant = Some("acme".to_owned()))
        .await;
    let _watch = fixture.watch(|_| {});
    let run = fixture.until_ended(&task, Outcome::Completed).await;
    let log = fixture.log(&task);
    let root = fixture.root();
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
        assert!(log.lines().any(|printed| printed == line), "{line} is not in\n{log}");
    }
    assert!(!log.contains("the-dispatchers-secret"), "{log}");
    assert!(!log.contains("env VESTAL_KANBAN_WORKSPACE"), "{log}");
    let mode =
        std::fs::metadata(log_path(fixture.board.dir(), &task)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_goes_on_when_its_dispatcher_ends() {
    let fixture = DispatcherFixture::new().await;
    let go = fixture.path("go");
    let wait = format!("wait-for {}", go.display());
    let task = fixture.task(&[&wait, "complete"]).await;
    let watch = fixture.watch(|_| {});
    let run = fixture.until_running(&task).await;
    watch.end().await;
    assert!(is_alive(&run));
    assert_eq!(fixture.get(&task).await.status, Status::Running);
    std::fs::write(&go, "").unwrap();
    fixture.until_status(&task, Status::Done).await;
    let _watch = fixture.watch(|_| {});
    fixture.until_ended(&task, Outcome::Completed).await;
    assert_eq!(fixture.runs(&task).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_goes_on_when_the_process_that_started_it_has_ended() {
    let fixture = DispatcherFixture::new().await;
    let task = fixture.task(&["hang"]).await;
    // It dispatches once, and ends.
    assert!(fixture.process(&[], None).wait().success());
    let run = fixture.until_running(&task).await;
    assert!(is_alive(&run));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_cannot_be_started_is_a_failure_that_says_why() {
    let fixture = DispatcherFixture::new().await;
    let task = fixture.task(&[]).await;
    let (dispatcher, _) = fixture.dispatcher(|options| {
        let mut launcher = fixture.launcher();
        launcher.program = fixture.path("no-such-program");
        options.launcher = std::sync::Arc::new(launcher);
        options.policy.failures.backoff.first = std::time::Duration::ZERO;
        options.policy.failures.backoff.most = std::time::Duration::ZERO;
    });
    let all = [fixture.board.clone()];
    let result = dispatcher.tick(&fixture.board, &all, DispatchMode::Real).await.unwrap();
    assert!(result.spawned.is_empty());
    let run = fixture.until_ended(&task, Outcome::SpawnFailed).await;
    let printed = run.error.unwrap();
    assert!(printed.contains("no-such-program") && printed.contains("No such file"), "{printed}");
    assert_eq!(fixture.get(&task).await.status, Status::Ready);
    // At the budget it waits for a person.
    dispatcher.tick(&fixture.board, &all, DispatchMode::Real).await.unwrap();
    let task = fixture.until_status(&task, Status::Blocked).await;
    assert!(task.gate);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_profile_is_reported_once() {
    let fixture = DispatcherFixture::new().await;
    let ghost = vestal_config::ProfileName::new("ghost").unwrap();
    let task = fixture.task_with(&[], |new| new.assignee = Some(ghost)).await;
    let (dispatcher, heard) = fixture.dispatcher(|_| {});
    let all = [fixture.board.clone()];
    for _ in 0..3 {
        let result = dispatcher.tick(&fixture.board, &all, DispatchMode::Real).await.unwrap();
        assert_eq!(result.skipped_nonspawnable.entries, [task.clone()]);
    }
    assert_eq!(heard.all().len(), 1, "{:?}", heard.all());
    assert_eq!(fixture.events(&task).await, ["created"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_exit_code_has_its_outcome() {
    let fixture = DispatcherFixture::new().await;
    let cases = [
        (&["exit 0"][..], Outcome::NoReport, 0),
        (&["exit 10"], Outcome::NoReport, 10),
        (&["exit 70"], Outcome::Crashed, 70),
        (&["exit 75"], Outcome::RateLimited, 75),
        (&["exit 76"], Outcome::NoReport, 76),
        (&["term-self", "hang"], Outcome::Terminated, 143),
        (&["kill-self"], Outcome::Crashed, 137),
    ];
    let mut tasks = Vec::new();
    for (script, outcome, code) in cases {
        tasks.push((fixture.task(script).await, outcome, code));
    }
    let _watch = fixture.watch(|_| {});
    for (task, outcome, code) in tasks {
        fixture.until_ended(&task, outcome).await;
        let reported = fixture.board.read().await.unwrap().events(&task, 100).await.unwrap();
        let ended = reported.iter().find(|event| event.payload.get("exit_code").is_some());
        let reported_code = ended.and_then(|event| event.payload["exit_code"].as_i64());
        assert_eq!(reported_code, Some(code), "{outcome}: {reported:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_is_no_failure_and_a_worker_that_was_stopped_is_not_back_at_once() {
    let fixture = DispatcherFixture::new().await;
    let quota = fixture.task(&["exit 75"]).await;
    let reported = fixture.task(&["term-self", "hang"]).await;
    let _watch = fixture.watch(|options| {
        options.policy.failures.rate_limit_cooldown = std::time::Duration::from_hours(1);
    });
    fixture.until_ended(&quota, Outcome::RateLimited).await;
    let task = fixture.get(&quota).await;
    assert_eq!(task.status, Status::Ready);
    assert_eq!(task.guard.as_deref(), Some("rate_limit_cooldown"));
    fixture.until_ended(&reported, Outcome::Terminated).await;
    assert_eq!(fixture.get(&reported).await.guard.as_deref(), Some("backoff"));
    let failures = fixture.board.show(&reported).await.unwrap().failures;
    let counted: Vec<_> = failures.iter().map(|failure| (failure.cause, failure.count)).collect();
    assert_eq!(counted, [(Outcome::Terminated, 1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_reports_is_believed_whatever_its_exit_code() {
    let fixture = DispatcherFixture::new().await;
    let done = fixture.task(&["complete", "exit 70"]).await;
    let blocked = fixture.task(&["block need input", "kill-self"]).await;
    let _watch = fixture.watch(|_| {});
    fixture.until_ended(&done, Outcome::Completed).await;
    fixture.until_ended(&blocked, Outcome::Blocked).await;
    assert_eq!(fixture.get(&done).await.status, Status::Done);
    assert_eq!(fixture.get(&blocked).await.status, Status::Blocked);
    for task in [&done, &blocked] {
        assert_eq!(fixture.runs(task).await.len(), 1);
        let events = fixture.events(task).await;
        assert!(!events.iter().any(|kind| kind == "crashed"), "{events:?}");
    }
}

/// Two dispatchers of a host: the one that is not the parent must not lose what
/// the parent knows.
#[tokio::test(flavor = "multi_thread")]
async fn a_dispatcher_waits_for_its_own_children_one_by_one() {
    let fixture = DispatcherFixture::new().await;
    let task = fixture.task(&["exit 75"]).await;
    let (dispatcher, _) = fixture.dispatcher(|_| {});
    let all = [fixture.board.clone()];
    let result = dispatcher.tick(&fixture.board, &all, DispatchMode::Real).await.unwrap();
    assert_eq!(result.spawned.entries[0].task_id, task);
    // Children of others in this process keep their exit codes.
    for code in 1..20 {
        let script = format!("exit {code}");
        let status = tokio::process::Command::new("sh").args(["-c", &script]).status().await;
        assert_eq!(status.unwrap().code(), Some(code));
    }
    loop {
        let result = dispatcher.tick(&fixture.board, &all, DispatchMode::Real).await.unwrap();
        if result.rate_limited.count == 1 {
            break;
        }
        assert!(result.crashed.is_empty() && result.no_report.is_empty());
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    fixture.until_ended(&task, Outcome::RateLimited).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_killed_is_a_crash_and_its_task_is_tried_again() {
    let fixture = DispatcherFixture::new().await;
    let task = fixture.task(&["hang"]).await;
    let _watch = fixture.watch(|options| {
        options.policy.failures.backoff.first = std::time::Duration::ZERO;
        options.policy.failures.backoff.most = std::time::Duration::ZERO;
    });
    let first = fixture.until_running(&task).await;
    kill(&first);
    let again = fixture
        .until(&task, "tried again", |_, runs| runs.len() == 2 && runs[1].process.is_some())
        .await;
    assert_eq!(again.1[0].outcome, Some(Outcome::Crashed));
    assert!(again.1[0].gone);
    kill(&again.1[1]);
    // The budget is two.
    let given_up = fixture.until_status(&task, Status::Blocked).await;
    assert!(given_up.gate && given_up.attention.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_has_reported_gets_the_time_to_end() {
    let fixture = DispatcherFixture::new().await;
    let (go, ended) = (fixture.path("go"), fixture.path("ended"));
    let wait = format!("wait-for {}", go.display());
    let touch = format!("touch {}", ended.display());
    let task = fixture.task(&["complete", &wait, &touch, "exit 0"]).await;
    let watch = fixture.watch(|_| {});
    fixture.until_status(&task, Status::Done).await;
    // Another task goes its way meanwhile, so the first was looked at.
    let other = fixture.task(&["complete"]).await;
    fixture.until_ended(&other, Outcome::Completed).await;
    std::fs::write(&go, "").unwrap();
    fixture.until_ended(&task, Outcome::Completed).await;
    assert!(ended.exists(), "it was ended before it had put everything in order");
    assert!(!fixture.path("swept").exists(), "what is in order was cleaned up");
    let stopped = |printed: &vestal_dispatcher::DispatchEvent| {
        matches!(printed, vestal_dispatcher::DispatchEvent::Stopped { .. })
    };
    assert!(!watch.heard.all().iter().any(stopped));
}
