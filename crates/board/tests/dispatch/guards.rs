//! Tasks that wait before they are tried again.

use std::slice::from_ref;
use std::time::Duration;

use vestal_board::{Authority, Completion, Promotion, Status};

use crate::stage::{Stage, person, started};

#[tokio::test]
async fn words_in_an_error_never_hold_a_task_back() {
    let stage = Stage::with(&["alpha"]).await;
    let task = stage.task("alpha").await;
    let (policy, _) = stage.configured("  failure_limit: 3\n  claim_ttl_seconds: 86400\n");
    for attempt in 1..=3 {
        assert_eq!(started(&stage.dispatch(&policy).await), ["alpha"], "attempt {attempt}");
        let run = stage.get(&task).await.current_run.unwrap();
        let end = vestal_board::RunEnd {
            outcome: vestal_board::Outcome::Crashed,
            error: "the author's quota: authentication failed".to_owned(),
            exit_code: Some(70),
        };
        stage.place.end_run(run, end, &policy.failures).await.unwrap();
        stage.place.run_gone(run).await.unwrap();
        stage.place.clock().advance(Duration::from_mins(20));
    }
    assert_eq!(stage.get(&task).await.status, Status::Blocked, "its budget ends it");
}

#[tokio::test]
async fn a_guard_is_told_once_and_not_by_every_dispatch() {
    let stage = Stage::with(&["alpha"]).await;
    let task = stage.task("alpha").await;
    let (policy, _) = stage.configured("  claim_ttl_seconds: 86400\n");
    stage.dispatch(&policy).await;
    stage.worker_of_ended(&task, 75).await;
    let plan = stage.dispatch(&policy).await;
    assert_eq!(plan.result.rate_limited.entries, from_ref(&task));
    for _ in 0..10 {
        let plan = stage.dispatch(&policy).await;
        assert_eq!(plan.result.respawn_guarded.entries[0].reason, "rate_limit_cooldown");
        assert!(plan.starts.is_empty());
        stage.place.clock().advance(Duration::from_secs(10));
    }
    let events = stage.events(&task).await;
    assert_eq!(events.iter().filter(|kind| *kind == "respawn_guarded").count(), 1, "{events:?}");
    stage.place.clock().advance(Duration::from_mins(5));
    assert_eq!(started(&stage.dispatch(&policy).await), ["alpha"], "time lifts it");
}

#[tokio::test]
async fn a_comment_with_an_address_holds_no_task_back() {
    let stage = Stage::with(&["alpha"]).await;
    let task = stage.task("alpha").await;
    let comment = "see https://github.com/acme/site/pull/17";
    stage.place.comment(&person(), &task, comment).await.unwrap();
    assert_eq!(stage.dispatch(&stage.policy()).await.starts.len(), 1);
}

#[tokio::test]
async fn whoever_takes_a_task_up_anew_has_it_started_whatever_was_before() {
    let stage = Stage::with(&["alpha"]).await;
    let task = stage.task("alpha").await;
    let policy = stage.policy();
    stage.dispatch(&policy).await;
    // It is done a moment ago, with a pull request; somebody wants it changed.
    let run = stage.get(&task).await.current_run.unwrap();
    let done = Completion {
        summary: Some("https://github.com/acme/site/pull/17".to_owned()),
        ..Completion::default()
    };
    stage.place.complete(&person(), &task, done).await.unwrap();
    stage.worker(run, vestal_board::dispatch::Life::Gone { code: Some(0) });
    stage.place.reopen(&person(), &task, "the colour is wrong").await.unwrap();
    assert_eq!(stage.dispatch(&policy).await.starts.len(), 1);
}

#[tokio::test]
async fn an_explicit_requeue_beats_a_guard() {
    let stage = Stage::with(&["alpha", "beta"]).await;
    let policy = stage.policy();
    for way in ["unblock", "promote", "assign"] {
        let task = stage.task("alpha").await;
        stage.dispatch(&policy).await;
        stage.worker_of_ended(&task, 70).await;
        stage.dispatch(&policy).await;
        assert!(stage.get(&task).await.guard.is_some());
        assert!(stage.dispatch(&policy).await.starts.is_empty());
        let by: &Authority = &person();
        match way {
            "unblock" => drop(stage.place.unblock(by, &task, None).await.unwrap()),
            "promote" => {
                let now = Promotion { reason: "now".to_owned(), force: false, dry_run: false };
                drop(stage.place.promote(by, &task, now).await.unwrap());
            }
            _ => {
                let to = Some(crate::stage::profile("beta"));
                drop(stage.place.assign(by, &task, to).await.unwrap());
            }
        }
        let plan = stage.dispatch(&policy).await;
        assert_eq!(plan.starts[0].task, task, "{way}");
        let run = stage.get(&task).await.current_run.unwrap();
        stage.place.complete(by, &task, Completion::default()).await.unwrap();
        stage.place.run_gone(run).await.unwrap();
    }
}
