//! Runs that fail: back-off, budgets, giving up.

use std::time::Duration;

use serde_json::json;
use vestal_board::dispatch::FailurePolicy;
use vestal_board::testing::TestBoard;
use vestal_board::verbs::steps;
use vestal_board::{BlockKind, Claim, NewTask, Outcome, Role, RunEnd, Status, Task, TaskId};

use crate::support::{
    add, after, ann, claim, dispatcher, ended, get, kinds, place, ready, reported, status, take,
    titled,
};

/// Has a task taken and its run end so, whatever guard it waits for.
async fn fail(place: &TestBoard, id: &TaskId, outcome: Outcome) -> Task {
    place.advance(Duration::from_hours(1));
    let mut tx = place.write().await.unwrap();
    steps::wake_in(&mut *tx, &dispatcher(), id).await.unwrap();
    tx.commit().await.unwrap();
    let fence = take(place, id).await;
    let policy = FailurePolicy::default();
    let moved = place.end_run(fence.run, ended(outcome), &policy).await.unwrap();
    assert_eq!(moved.ended.unwrap().outcome, Some(outcome));
    moved.task
}

#[tokio::test]
async fn each_cause_has_its_budget_and_at_its_end_a_person_is_asked() {
    let place = place().await;
    let budgets = FailurePolicy::default().budgets;
    let causes = [
        Outcome::Crashed,
        Outcome::TimedOut,
        Outcome::SpawnFailed,
        Outcome::NoReport,
        Outcome::Stale,
        Outcome::RateLimited,
        Outcome::Terminated,
    ];
    for cause in causes {
        let id = ready(&place).await;
        let budget = budgets.of(cause).unwrap();
        for number in 1..budget {
            let task = fail(&place, &id, cause).await;
            assert_eq!(task.status, Status::Ready, "{cause} {number}");
        }
        let task = fail(&place, &id, cause).await;
        assert_eq!((task.status, task.gate), (Status::Blocked, true), "{cause}");
        assert_eq!(task.block_kind, Some(BlockKind::GaveUp), "{cause}");
        assert!(task.attention.is_some(), "{cause}");
        let event = reported(&place, &id, "gave_up").await;
        assert_eq!(
            event,
            json!({
                "failures": budget, "effective_limit": budget, "limit_source": "policy",
                "error": "it went wrong", "trigger_outcome": cause,
            })
        );
        let reported = kinds(&place, &id).await;
        assert_eq!(reported.iter().filter(|kind| *kind == "gave_up").count(), 1, "{cause}");
    }
}

#[tokio::test]
async fn one_cause_does_not_eat_the_budget_of_another() {
    let place = place().await;
    let id = ready(&place).await;
    for cause in [Outcome::Crashed, Outcome::TimedOut, Outcome::Stale, Outcome::NoReport] {
        assert_eq!(fail(&place, &id, cause).await.status, Status::Ready, "{cause}");
    }
    assert_eq!(fail(&place, &id, Outcome::Crashed).await.status, Status::Blocked);
}

#[tokio::test]
async fn a_tasks_own_limit_beats_the_settings_for_every_failure() {
    let place = place().await;
    for (own, cause) in [(1, Outcome::Crashed), (1, Outcome::TimedOut), (4, Outcome::Crashed)] {
        let id = add(&place, NewTask { max_retries: Some(own), ..titled("t") }).await;
        for _ in 1..own {
            assert_eq!(fail(&place, &id, cause).await.status, Status::Ready);
        }
        assert_eq!(fail(&place, &id, cause).await.status, Status::Blocked, "{own} {cause}");
        assert_eq!(reported(&place, &id, "gave_up").await["limit_source"], "task");
    }
}

#[tokio::test]
async fn a_rate_limit_of_a_provider_is_not_a_failed_attempt() {
    let place = place().await;
    let id = add(&place, NewTask { max_retries: Some(1), ..titled("t") }).await;
    let task = fail(&place, &id, Outcome::RateLimited).await;
    assert_eq!(task.status, Status::Ready);
    assert_eq!(task.guard.as_deref(), Some("rate_limit_cooldown"));
}

#[tokio::test]
async fn a_persons_claim_that_runs_out_and_a_claim_that_is_given_back_count_as_nothing() {
    let place = place().await;
    let id = ready(&place).await;
    for _ in 0..10 {
        let by_hand = Claim { host: None, ..claim(&place, Role::Work) };
        let run = place.claim(&ann(), &id, by_hand).await.unwrap();
        let policy = FailurePolicy::default();
        let moved = place.end_run(run.id, ended(Outcome::Reclaimed), &policy).await.unwrap();
        assert_eq!((moved.task.status, moved.task.wake_at), (Status::Ready, None));
        let fence = take(&place, &id).await;
        let mut tx = place.write().await.unwrap();
        let moved = steps::give_back_in(&mut *tx, fence.run, "no slot").await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!((moved.task.status, moved.task.wake_at), (Status::Ready, None));
    }
    assert_eq!(place.show(&id).await.unwrap().failures, []);
}

#[tokio::test]
async fn a_worker_that_was_there_and_is_heard_of_no_more_is_a_failure() {
    let place = place().await;
    let id = ready(&place).await;
    let fence = take(&place, &id).await;
    place.started(&fence, crate::support::process(place.host()), "").await.unwrap();
    let policy = FailurePolicy::default();
    let moved = place.end_run(fence.run, ended(Outcome::Reclaimed), &policy).await.unwrap();
    assert_eq!(moved.task.guard.as_deref(), Some("backoff"));
    let failures = place.show(&id).await.unwrap().failures;
    let counted: Vec<_> = failures.iter().map(|failure| (failure.cause, failure.count)).collect();
    assert_eq!(counted, [(Outcome::Reclaimed, 1)]);
}

/// The worker hears of it by a signal, and may be the first to write it down.
#[tokio::test]
async fn a_stopped_worker_ended_for_the_reason_it_was_stopped_for() {
    let place = place().await;
    let id = ready(&place).await;
    let fence = take(&place, &id).await;
    let mut tx = place.write().await.unwrap();
    let reason = "it got nothing done for 5 s";
    steps::stop_in(&mut *tx, fence.run, Outcome::Stale, reason).await.unwrap();
    tx.commit().await.unwrap();
    let asked_to_end = RunEnd {
        outcome: Outcome::Terminated,
        error: "a signal asked the worker to end".to_owned(),
        exit_code: Some(143),
    };
    let policy = FailurePolicy::default();
    let moved = place.end_run(fence.run, asked_to_end, &policy).await.unwrap();
    let run = moved.ended.unwrap();
    assert_eq!((run.outcome, run.error.as_deref()), (Some(Outcome::Stale), Some(reason)));
    assert_eq!(moved.task.guard.as_deref(), Some("backoff"));
    let failures = place.show(&id).await.unwrap().failures;
    let counted: Vec<_> = failures.iter().map(|failure| (failure.cause, failure.count)).collect();
    assert_eq!(counted, [(Outcome::Stale, 1)]);
}

#[tokio::test]
async fn a_task_that_failed_waits_longer_each_time_and_says_so_once() {
    let place = place().await;
    let id = add(&place, NewTask { max_retries: Some(9), ..titled("t") }).await;
    let queued = get(&place, &id).await.queued_at;
    for wait in [10, 20, 40, 80] {
        let task = fail(&place, &id, Outcome::Crashed).await;
        assert_eq!(task.wake_at, Some(task.updated_at.after(Duration::from_secs(wait))));
        assert_eq!(task.guard.as_deref(), Some("backoff"));
        assert_eq!(task.queued_at, queued, "it keeps its place");
        assert_eq!(task.queue_as(), None);
    }
    let reported = kinds(&place, &id).await;
    assert_eq!(reported.iter().filter(|kind| *kind == "respawn_guarded").count(), 4);
}

#[tokio::test]
async fn a_dispatcher_does_not_take_what_is_guarded_and_a_person_may() {
    let place = place().await;
    let id = ready(&place).await;
    fail(&place, &id, Outcome::Crashed).await;
    let work = || claim(&place, Role::Work);
    assert!(place.claim(&dispatcher(), &id, work()).await.is_err());
    place.claim(&ann(), &id, work()).await.unwrap();
    assert_eq!(get(&place, &id).await.guard, None);
}

#[tokio::test]
async fn a_person_who_sets_a_task_on_its_way_forgives_it() {
    let place = place().await;
    let id = ready(&place).await;
    for _ in 0..2 {
        fail(&place, &id, Outcome::Crashed).await;
    }
    assert_eq!(status(&place, &id).await, Status::Blocked);
    place.unblock(&ann(), &id, Some("fixed")).await.unwrap();
    assert_eq!(place.show(&id).await.unwrap().failures, []);
    assert_eq!(fail(&place, &id, Outcome::Crashed).await.status, Status::Ready);
}

#[tokio::test]
async fn success_forgives_too() {
    let place = place().await;
    let id = ready(&place).await;
    fail(&place, &id, Outcome::Crashed).await;
    place.complete(&ann(), &id, crate::support::done("done")).await.unwrap();
    assert_eq!(place.show(&id).await.unwrap().failures, []);
}

#[tokio::test]
async fn a_failure_is_reported_with_all_that_is_known_of_it() {
    let place = place().await;
    let id = ready(&place).await;
    let fence = take(&place, &id).await;
    let process = crate::support::process(place.host());
    place.started(&fence, process, "").await.unwrap();
    let end = RunEnd { outcome: Outcome::NoReport, error: "x".repeat(2000), exit_code: Some(76) };
    place.end_run(fence.run, end, &FailurePolicy::default()).await.unwrap();
    let event = reported(&place, &id, "protocol_violation").await;
    assert_eq!(event["exit_code"], 76);
    assert_eq!((&event["pid"], &event["host"]), (&4_194_303.into(), &"here".into()));
    assert_eq!(event["error"].as_str().map(str::len), Some(500));
    let run = place.show(&id).await.unwrap().runs.pop().unwrap();
    assert!(!run.gone, "who says that it ended does not say that it is gone");
}

#[tokio::test]
async fn a_failed_task_whose_parent_was_taken_up_again_waits_for_it() {
    let place = place().await;
    let parent = ready(&place).await;
    place.complete(&ann(), &parent, crate::support::done("done")).await.unwrap();
    let id = add(&place, after(&[&parent])).await;
    let fence = take(&place, &id).await;
    place.reopen(&ann(), &parent, "not yet").await.unwrap();
    assert_eq!(status(&place, &id).await, Status::Running, "what is going on is left alone");
    let policy = FailurePolicy::default();
    let moved = place.end_run(fence.run, ended(Outcome::Crashed), &policy).await.unwrap();
    assert_eq!((moved.task.status, moved.task.wake_at), (Status::Todo, None));
}
