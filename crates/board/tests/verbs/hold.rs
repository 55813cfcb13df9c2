//! Taking tasks, holding them, and losing them.

use std::path::PathBuf;
use std::time::Duration;

use vestal_board::testing::profile;
use vestal_board::verbs::steps;
use vestal_board::{
    Authority, BoardRefusal, Claim, Error, Fence, Heartbeat, NewTask, Outcome, Role, Status,
    TaskWorkspace,
};

use crate::support::{
    LEASE, add, ann, claim, dispatcher, done, ended, get, kinds, place, process, ready, reported,
    running, status, take, titled,
};

fn beat(note: Option<&str>) -> Heartbeat {
    Heartbeat { lease: LEASE, activity: true, note: note.map(str::to_owned) }
}

#[tokio::test]
async fn a_task_is_held_by_one_run_at_a_time() {
    let place = place().await;
    let id = ready(&place).await;
    let run = place.claim(&dispatcher(), &id, claim(&place, Role::Work)).await.unwrap();
    let task = get(&place, &id).await;
    assert_eq!((task.status, task.current_run), (Status::Running, Some(run.id)));
    assert_eq!(task.running_as, Some(profile("alpha")));
    assert_eq!(run.expires_at, run.started_at.after(LEASE));
    assert_eq!(reported(&place, &id, "claimed").await["run_id"], run.id.get());

    let error = place.claim(&ann(), &id, claim(&place, Role::Work)).await.unwrap_err();
    let Error::Refused(BoardRefusal::Held { run: held, owner, .. }) = &error else {
        panic!("{error}")
    };
    assert_eq!((*held, owner.as_str()), (run.id, "dispatcher on here"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_that_claim_at_once_one_gets_the_task() {
    let place = std::sync::Arc::new(place().await);
    let id = ready(&place).await;
    let mut asking = tokio::task::JoinSet::new();
    for number in 0..8 {
        let (place, id) = (std::sync::Arc::clone(&place), id.clone());
        asking.spawn(async move {
            let board = place.from_host(&format!("host{number}")).await.unwrap();
            let by = Authority::Dispatcher(board.host().name.clone());
            let host = Some(board.host().clone());
            board.claim(&by, &id, Claim { host, ..claim(&place, Role::Work) }).await
        });
    }
    let claimed = asking.join_all().await;
    let (got, refused): (Vec<_>, Vec<_>) = claimed.into_iter().partition(Result::is_ok);
    assert_eq!(got.len(), 1);
    for error in refused {
        assert!(matches!(error, Err(Error::Refused(BoardRefusal::Held { .. }))), "{error:?}");
    }
    assert_eq!(place.show(&id).await.unwrap().runs.len(), 1);
}

#[tokio::test]
async fn numbers_of_runs_grow_from_claim_to_claim() {
    let place = place().await;
    let (id, first) = running(&place).await;
    place.reclaim(&ann(), &id, "mine").await.unwrap();
    let second = take(&place, &id).await;
    assert!(second.run > first.run);
}

#[tokio::test]
async fn a_lease_is_renewed_without_an_event() {
    let place = place().await;
    let (id, fence) = running(&place).await;
    let before = kinds(&place, &id).await;
    place.advance(Duration::from_mins(5));
    let until = place.heartbeat(&fence, beat(Some("half way"))).await.unwrap();
    let run = place.show(&id).await.unwrap().runs.pop().unwrap();
    assert_eq!(run.expires_at, until);
    assert_eq!(run.heartbeat_at, run.activity_at);
    assert_eq!(until, run.heartbeat_at.unwrap().after(LEASE));
    assert_eq!(run.note.as_deref(), Some("half way"));
    assert_eq!(kinds(&place, &id).await, before);
}

#[tokio::test]
async fn a_holder_whose_lease_ran_out_may_write_until_another_takes_the_task() {
    let place = place().await;
    let (id, fence) = running(&place).await;
    place.advance(Duration::from_hours(5));
    place.heartbeat(&fence, beat(None)).await.unwrap();
    place.advance(Duration::from_hours(5));
    place.complete(&Authority::Worker(fence), &id, done("late")).await.unwrap();
    assert_eq!(status(&place, &id).await, Status::Done);
}

#[tokio::test]
async fn a_worker_that_was_started_is_written_down_with_its_host() {
    let place = place().await;
    let (id, fence) = running(&place).await;
    place.started(&fence, process(place.host()), "/srv/w").await.unwrap();
    let run = place.show(&id).await.unwrap().runs.pop().unwrap();
    assert_eq!(run.process, Some(process(place.host())));
    assert_eq!((run.workspace.as_deref(), run.gone), (Some("/srv/w"), false));
    let event = reported(&place, &id, "spawned").await;
    assert_eq!((&event["pid"], &event["host"]), (&4_194_303.into(), &"here".into()));
}

#[tokio::test]
async fn a_worker_that_was_started_too_late_is_refused_and_watched_to_its_end() {
    let place = place().await;
    let (id, fence) = running(&place).await;
    let moved = place.archive(&ann(), &id).await.unwrap();
    assert!(moved.ended.unwrap().gone, "nothing was started yet");
    let error = place.started(&fence, process(place.host()), "").await.unwrap_err();
    assert!(matches!(error, Error::Fenced { .. }), "{error}");
    let live = place.read().await.unwrap().live_runs().await.unwrap();
    assert_eq!(live.iter().map(|run| run.id).collect::<Vec<_>>(), [fence.run]);
    place.run_gone(fence.run).await.unwrap();
    assert_eq!(place.read().await.unwrap().live_runs().await.unwrap(), []);
}

#[tokio::test]
async fn a_task_taken_from_its_worker_leaves_the_worker_on_record() {
    let place = place().await;
    for verb in ["archive", "block", "schedule", "complete", "reclaim"] {
        let (id, fence) = running(&place).await;
        place.started(&fence, process(place.host()), "").await.unwrap();
        let ann = ann();
        let block = vestal_board::Block { reason: "stop".to_owned(), kind: None };
        let moved = match verb {
            "archive" => place.archive(&ann, &id).await,
            "block" => place.block(&ann, &id, block).await,
            "schedule" => place.schedule(&ann, &id, "later", None).await,
            "complete" => place.complete(&ann, &id, done("by hand")).await,
            _ => place.reclaim(&ann, &id, "mine").await,
        }
        .unwrap();
        let run = moved.ended.unwrap_or_else(|| panic!("{verb} ended no run"));
        assert_eq!((run.id, run.gone), (fence.run, false), "{verb}");
        assert!(run.ended_at.is_some() && run.process.is_some(), "{verb}");
        assert_eq!(moved.task.current_run, None, "{verb}");
        let live = place.read().await.unwrap().live_runs().await.unwrap();
        assert_eq!(live.len(), 1, "{verb}: its worker is accounted for");
        let error = place.heartbeat(&fence, beat(None)).await.unwrap_err();
        assert!(matches!(error, Error::Fenced { .. }), "{verb}: the worker learns of it");
        place.run_gone(fence.run).await.unwrap();
    }
}

#[tokio::test]
async fn a_task_is_kept_while_a_worker_of_it_may_live() {
    let place = place().await;
    let (id, fence) = running(&place).await;
    place.started(&fence, process(place.host()), "").await.unwrap();
    place.archive(&ann(), &id).await.unwrap();
    let error = place.delete(&ann(), &id).await.unwrap_err();
    assert!(matches!(error, Error::Refused(BoardRefusal::Held { .. })), "{error}");
    place.run_gone(fence.run).await.unwrap();
    place.delete(&ann(), &id).await.unwrap();
    assert!(matches!(place.get(&id).await, Err(Error::NotFound { .. })));
}

#[tokio::test]
async fn a_task_is_not_started_again_beside_a_worker_of_the_same_host() {
    let place = place().await;
    let (id, fence) = running(&place).await;
    place.started(&fence, process(place.host()), "").await.unwrap();
    place.reclaim(&ann(), &id, "stuck").await.unwrap();
    let again = place.claim(&dispatcher(), &id, claim(&place, Role::Work)).await;
    assert!(matches!(again, Err(Error::Refused(BoardRefusal::Held { .. }))), "{again:?}");
    place.run_gone(fence.run).await.unwrap();
    place.claim(&dispatcher(), &id, claim(&place, Role::Work)).await.unwrap();
}

#[tokio::test]
async fn a_directory_is_worked_in_by_one_task_at_a_time() {
    let place = place().await;
    let shared = || NewTask {
        workspace: TaskWorkspace::Dir { path: PathBuf::from("/srv/shared") },
        ..titled("t")
    };
    let (first, second) = (add(&place, shared()).await, add(&place, shared()).await);
    let fence = take(&place, &first).await;
    let error = place.claim(&dispatcher(), &second, claim(&place, Role::Work)).await.unwrap_err();
    let Error::Refused(BoardRefusal::WorkspaceBusy { by, .. }) = &error else { panic!("{error}") };
    assert_eq!(*by, first);
    place.complete(&Authority::Worker(fence), &first, done("done")).await.unwrap();
    take(&place, &second).await;
}

#[tokio::test]
async fn a_directory_is_worked_in_by_the_host_that_has_it() {
    let place = place().await;
    let workspace = TaskWorkspace::Dir { path: PathBuf::from("/srv/here") };
    let id = add(&place, NewTask { workspace, ..titled("t") }).await;
    let there = place.from_host("there").await.unwrap();
    let claim = Claim { host: Some(there.host().clone()), ..claim(&place, Role::Work) };
    let error = there.claim(&dispatcher(), &id, claim).await.unwrap_err();
    assert!(matches!(error, Error::Refused(BoardRefusal::OtherHost { .. })), "{error}");
}

#[tokio::test]
async fn a_person_claims_without_a_worker() {
    let place = place().await;
    let id = ready(&place).await;
    let by_hand = Claim { lease: LEASE, profile: None, role: Role::Work, host: None };
    let run = place.claim(&ann(), &id, by_hand).await.unwrap();
    assert_eq!((run.owner.as_str(), run.gone, run.profile), ("ann", true, None));
    let moved = place.complete(&ann(), &id, done("by hand")).await.unwrap();
    assert_eq!(moved.ended.map(|run| (run.id, run.gone)), Some((run.id, true)));
}

#[tokio::test]
async fn a_lease_that_ran_out_is_extended_once_between_two_renewals() {
    let place = place().await;
    let (id, fence) = running(&place).await;
    let extend = async || {
        let mut tx = place.write().await.unwrap();
        let extended = steps::extend_in(&mut *tx, fence.run, LEASE).await.unwrap();
        tx.commit().await.unwrap();
        extended
    };
    assert!(!extend().await, "it has not run out");
    place.advance(Duration::from_mins(16));
    assert!(extend().await);
    place.advance(Duration::from_mins(16));
    assert!(!extend().await, "it had its grace");
    place.heartbeat(&fence, beat(None)).await.unwrap();
    place.advance(Duration::from_mins(16));
    assert!(extend().await);
    let extended = kinds(&place, &id).await.iter().filter(|kind| *kind == "claim_extended").count();
    assert_eq!(extended, 2);
}

#[tokio::test]
async fn a_worker_that_cannot_be_stopped_keeps_its_task_and_is_reported_once() {
    let place = place().await;
    let (id, fence) = running(&place).await;
    for _ in 0..3 {
        let mut tx = place.write().await.unwrap();
        assert!(steps::stop_in(&mut *tx, fence.run, Outcome::TimedOut, "too long").await.unwrap());
        steps::defer_in(&mut *tx, fence.run, LEASE).await.unwrap();
        tx.commit().await.unwrap();
    }
    assert_eq!(status(&place, &id).await, Status::Running);
    let reported = kinds(&place, &id).await;
    assert_eq!(reported.iter().filter(|kind| *kind == "reclaim_deferred").count(), 1);
}

#[tokio::test]
async fn the_default_assignee_gets_only_ready_tasks_of_nobody() {
    let place = place().await;
    let nobody = add(&place, NewTask { assignee: None, ..titled("t") }).await;
    let somebody = ready(&place).await;
    let mut tx = place.write().await.unwrap();
    let by = dispatcher();
    let beta = profile("beta");
    let given = steps::assign_default_in(&mut *tx, &by, &nobody, &beta).await.unwrap();
    assert_eq!(given.unwrap().assignee, Some(beta.clone()));
    assert!(steps::assign_default_in(&mut *tx, &by, &somebody, &beta).await.unwrap().is_none());
    tx.commit().await.unwrap();
    let event = reported(&place, &nobody, "assigned").await;
    assert_eq!(event["source"], "kanban.default_assignee");
    assert_eq!(event["assignee"], "beta");
    assert_eq!(get(&place, &somebody).await.assignee, Some(profile("alpha")));
}

#[tokio::test]
async fn a_worker_of_another_profile_does_not_hold_the_task() {
    let place = place().await;
    let (id, fence) = running(&place).await;
    let forged = Fence { profile: profile("beta"), ..fence };
    let error = place.complete(&Authority::Worker(forged), &id, done("x")).await.unwrap_err();
    assert!(matches!(error, Error::Fenced { .. }), "{error}");
}

#[tokio::test]
async fn diagnostics_name_a_task_whose_worker_is_gone_and_that_nobody_takes_back() {
    let place = place().await;
    let (id, _) = running(&place).await;
    let thresholds = vestal_board::verbs::Thresholds::default();
    place.advance(LEASE);
    assert_eq!(place.diagnostics(&thresholds).await.unwrap(), []);
    place.advance(Duration::from_mins(2));
    let found = place.diagnostics(&thresholds).await.unwrap();
    let kinds: Vec<_> = found.iter().map(|found| (found.kind, found.task_id.clone())).collect();
    assert_eq!(kinds, [(vestal_board::verbs::Rule::LeaseRanOut, id)]);
}

/// The process that started it may not have recorded that yet.
#[tokio::test]
async fn a_worker_that_reports_is_not_gone_before_that_is_proven() {
    let place = place().await;
    let (id, fence) = running(&place).await;
    place.complete(&Authority::Worker(fence.clone()), &id, done("done")).await.unwrap();
    let live = place.read().await.unwrap().live_runs().await.unwrap();
    assert_eq!(live.iter().map(|run| run.id).collect::<Vec<_>>(), [fence.run]);
}

#[tokio::test]
async fn a_run_ends_once() {
    let place = place().await;
    let (id, fence) = running(&place).await;
    place.complete(&Authority::Worker(fence.clone()), &id, done("done")).await.unwrap();
    let policy = vestal_board::dispatch::FailurePolicy::default();
    let moved = place.end_run(fence.run, ended(Outcome::Crashed), &policy).await.unwrap();
    assert_eq!((moved.task.status, moved.ended), (Status::Done, None));
    assert_eq!(place.show(&id).await.unwrap().runs[0].outcome, Some(Outcome::Completed));
    let wrong = place.end_run(fence.run, ended(Outcome::Completed), &policy).await;
    assert!(matches!(wrong, Err(Error::Invalid { .. })));
}

#[tokio::test]
async fn only_what_a_person_claimed_is_renewed_by_hand() {
    let place = place().await;
    let (id, fence) = running(&place).await;
    let held = place.renew(&ann(), &id, beat(None)).await;
    assert!(
        matches!(&held, Err(Error::Refused(BoardRefusal::Held { run, .. })) if *run == fence.run),
        "{held:?}"
    );
    let id = ready(&place).await;
    let free = place.renew(&ann(), &id, beat(None)).await;
    assert!(matches!(free, Err(Error::Refused(BoardRefusal::Status { .. }))), "{free:?}");
    let by_hand = Claim { lease: LEASE, profile: None, role: Role::Work, host: None };
    let run = place.claim(&ann(), &id, by_hand).await.unwrap();
    let worker = Authority::Worker(fence);
    let other = place.renew(&worker, &id, beat(None)).await;
    assert!(matches!(other, Err(Error::Refused(BoardRefusal::NotYours { .. }))), "{other:?}");
    let (renewed, until) = place.renew(&ann(), &id, beat(Some("half"))).await.unwrap();
    let runs = place.show(&id).await.unwrap().runs;
    let last = runs.last().unwrap();
    assert_eq!((renewed, until, last.note.as_deref()), (run.id, last.expires_at, Some("half")));
}
