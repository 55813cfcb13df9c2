use super::super::testing::{LEASE, NOW, PlanInput, host, policy};
use super::super::{DispatchPlan, Shown, plan};
use super::*;
use crate::id::TaskId;
use crate::task::{FailureCount, Status};

fn earlier(duration: Duration) -> Time {
    Time::from_millis(NOW.millis() - i64::try_from(duration.as_millis()).unwrap())
}

/// Plans for a board on which one run continues.
fn planned(life: Liveness, with: impl FnOnce(&mut Run)) -> (DispatchPlan, RunId, TaskId) {
    let mut input = PlanInput::of(&["ada"]);
    let run = input.running_with("ada", life, |run, _| with(run));
    let task = input.runs[0].run.task_id.clone();
    (plan(&input.snapshot(), &policy()), run, task)
}

fn expired(run: &mut Run) {
    run.expires_at = NOW;
}

fn ended(run: &mut Run) {
    run.ended_at = Some(NOW);
    run.outcome = Some(Outcome::Blocked);
}

#[test]
fn a_run_that_goes_on_well_is_left_alone() {
    for life in [Liveness::Alive, Liveness::Foreign, Liveness::Person, Liveness::Unknown] {
        let (plan, ..) = planned(life, |_| {});
        assert_eq!(plan.repairs, [], "{life:?}");
    }
}

#[test]
fn the_exit_code_says_how_a_run_ended_that_did_not_say_itself() {
    let cases = [
        (Some(0), Outcome::NoReport),
        (Some(124), Outcome::TimedOut),
        (Some(10), Outcome::NoReport),
        (Some(76), Outcome::NoReport),
        (Some(75), Outcome::RateLimited),
        (Some(143), Outcome::Terminated),
        (Some(130), Outcome::Terminated),
        (Some(70), Outcome::Crashed),
        (Some(77), Outcome::Crashed),
        (Some(137), Outcome::Crashed),
        (None, Outcome::Crashed),
    ];
    for (code, expected) in cases {
        let (plan, id, _) = planned(Liveness::Gone { code }, |_| {});
        let [Repair::End { run, outcome, reason }] = plan.repairs.as_slice() else {
            panic!("{code:?}: {:?}", plan.repairs);
        };
        assert_eq!((*run, *outcome), (id, expected), "{code:?}");
        assert!(!reason.is_empty());
    }
}

#[test]
fn a_lease_that_ran_out_is_extended_once_while_its_worker_lives() {
    let (plan, run, _) = planned(Liveness::Alive, expired);
    assert_eq!(plan.repairs, [Repair::Extend { run }]);
    let (plan, id, task) = planned(Liveness::Alive, |run| {
        expired(run);
        run.graced = true;
    });
    let [Repair::Stop { run, outcome: Outcome::Stale, .. }] = plan.repairs.as_slice() else {
        panic!("{:?}", plan.repairs);
    };
    assert_eq!(*run, id);
    assert_eq!(plan.result.stale.entries, [task]);
}

#[test]
fn an_expired_lease_that_nobody_here_can_prove_is_taken_back() {
    for life in [Liveness::Foreign, Liveness::Person, Liveness::Unknown] {
        let (plan, id, task) = planned(life, expired);
        let worked = life == Liveness::Foreign;
        let [Repair::End { run, outcome: Outcome::Reclaimed, .. }] = plan.repairs.as_slice() else {
            panic!("{life:?}: {:?}", plan.repairs);
        };
        assert_eq!((*run, plan.result.reclaimed), (id, 1));
        // Where no worker failed the task is free for the same plan.
        let starts: Vec<_> = plan.starts.iter().map(|start| &start.task).collect();
        assert_eq!(starts, if worked { vec![] } else { vec![&task] }, "{life:?}");
    }
}

#[test]
fn a_run_that_takes_too_long_is_stopped_and_only_then_ended() {
    let limit = Duration::from_mins(1);
    let (plan, id, task) = planned(Liveness::Alive, |run| run.max_runtime = Some(limit));
    let [Repair::Stop { run, outcome: Outcome::TimedOut, .. }] = plan.repairs.as_slice() else {
        panic!("{:?}", plan.repairs);
    };
    assert_eq!(*run, id);
    assert_eq!(plan.result.timed_out.entries, [task]);
    assert!(plan.starts.is_empty(), "its worker is not gone yet");
}

#[test]
fn the_time_of_a_run_is_its_own_and_not_that_of_its_task() {
    let mut input = PlanInput::of(&["ada"]);
    input.running_with("ada", Liveness::Alive, |run, task| {
        task.started_at = Some(earlier(Duration::from_hours(100)));
        run.max_runtime = Some(Duration::from_mins(2));
    });
    assert_eq!(plan(&input.snapshot(), &policy()).repairs, []);
}

#[test]
fn a_worker_that_gets_nothing_done_is_stopped_though_it_renews_its_lease() {
    let (plan, id, task) = planned(Liveness::Alive, |run| {
        run.started_at = earlier(Duration::from_hours(5));
        run.activity_at = Some(earlier(Duration::from_hours(4)));
    });
    let [Repair::Stop { run, outcome: Outcome::Stale, .. }] = plan.repairs.as_slice() else {
        panic!("{:?}", plan.repairs);
    };
    assert_eq!((*run, plan.result.stale.entries), (id, vec![task]));
    // One that never got anything done is measured from its start.
    let (plan, ..) = planned(Liveness::Alive, |run| {
        run.started_at = earlier(Duration::from_hours(5));
        run.activity_at = None;
    });
    assert_eq!(plan.result.stale.count, 1);
}

#[test]
fn a_worker_whose_run_has_ended_is_stopped_and_then_forgotten() {
    let taken = |run: &mut Run| {
        ended(run);
        expired(run);
    };
    let (plan, id, _) = planned(Liveness::Alive, taken);
    let [Repair::Stop { run, outcome: Outcome::Blocked, .. }] = plan.repairs.as_slice() else {
        panic!("{:?}", plan.repairs);
    };
    assert_eq!(*run, id);
    let (plan, run, _) = planned(Liveness::Gone { code: Some(0) }, ended);
    assert_eq!(plan.repairs, [Repair::Gone { run }]);
    assert!(plan.result.no_report.is_empty(), "its run ended as it should");
}

#[test]
fn a_worker_that_has_reported_is_given_time_to_leave() {
    let (plan, ..) = planned(Liveness::Alive, ended);
    assert_eq!(plan.repairs, []);
}

#[test]
fn a_worker_that_is_being_stopped_ends_as_was_decided() {
    let stopping = |run: &mut Run| run.stopping = Some(Outcome::TimedOut);
    let (plan, id, _) = planned(Liveness::Gone { code: Some(143) }, stopping);
    let [Repair::End { run, outcome: Outcome::TimedOut, .. }] = plan.repairs.as_slice() else {
        panic!("{:?}", plan.repairs);
    };
    assert_eq!((*run, plan.result.timed_out.count), (id, 1));
    let (plan, ..) = planned(Liveness::Alive, stopping);
    assert!(matches!(plan.repairs.as_slice(), [Repair::Stop { outcome: Outcome::TimedOut, .. }]));
    assert!(plan.result.timed_out.is_empty(), "that it took too long was reported before");
}

#[test]
fn a_worker_that_is_not_proven_gone_keeps_its_slot() {
    let mut input = PlanInput::of(&["ada"]);
    input.running_with("ada", Liveness::Alive, |run, task| {
        ended(run);
        task.status = Status::Blocked;
        task.current_run = None;
    });
    let waiting = input.ready("ada");
    let caps = super::super::Caps { profile: Some(1), ..Default::default() };
    let capped = super::super::testing::capped(caps);
    let plan_of = |input: &PlanInput| plan(&input.snapshot(), &capped);
    assert!(plan_of(&input).starts.is_empty());
    let capped_entries = plan_of(&input).result.skipped_per_profile_capped.entries;
    assert_eq!(capped_entries, [(waiting.clone(), "ada".to_owned(), 1)]);
    input.runs[0].life = Liveness::Gone { code: None };
    assert_eq!(plan_of(&input).starts[0].task, waiting);
}

#[test]
fn a_host_that_never_comes_back_holds_no_slot_for_ever() {
    let mut input = PlanInput::of(&["ada"]);
    input.running_with("ada", Liveness::Foreign, |run, _| {
        ended(run);
        run.expires_at = earlier(Duration::from_secs(1));
    });
    input.ready("ada");
    let policy =
        super::super::testing::capped(super::super::Caps { global: Some(1), ..Default::default() });
    assert!(plan(&input.snapshot(), &policy).starts.is_empty(), "its worker may not know yet");
    input.runs[0].run.expires_at = earlier(LEASE);
    assert_eq!(plan(&input.snapshot(), &policy).starts.len(), 1);
    assert_eq!(plan(&input.snapshot(), &policy).repairs, [], "only its host can prove it");
}

#[test]
fn the_budget_of_a_cause_decides_when_a_task_is_given_up() {
    let mut input = PlanInput::of(&["ada"]);
    input.running_with("ada", Liveness::Gone { code: Some(70) }, |_, _| {});
    let failed =
        |count| FailureCount { cause: Outcome::Crashed, count, error: String::new(), at: NOW };
    let task = input.runs[0].run.task_id.clone();
    let mut policy = policy();
    for (budget, before, given_up) in [(1, 0, true), (2, 0, false), (2, 1, true), (10, 5, false)] {
        policy.failures.budgets.crashed = budget;
        input.runs[0].failures = vec![failed(before)];
        let result = plan(&input.snapshot(), &policy).result;
        assert_eq!(result.crashed.entries, std::slice::from_ref(&task));
        assert_eq!(result.auto_blocked.count, u64::from(given_up), "{budget} {before}");
    }
    // Other failures have a budget of their own.
    policy.failures.budgets.crashed = 2;
    input.runs[0].failures = vec![FailureCount { cause: Outcome::TimedOut, ..failed(5) }];
    assert!(plan(&input.snapshot(), &policy).result.auto_blocked.is_empty());
}

#[test]
fn a_task_that_failed_waits_before_it_is_tried_again() {
    for code in [Some(70), Some(0), Some(75), Some(143), None] {
        let (plan, ..) = planned(Liveness::Gone { code }, |_| {});
        assert!(plan.starts.is_empty(), "{code:?}");
    }
}

#[test]
fn a_review_that_was_never_begun_is_tried_again_as_a_review() {
    let mut input = PlanInput::of(&["ada", "grace"]);
    input.running_with("grace", Liveness::Unknown, |run, task| {
        expired(run);
        run.role = crate::run::Role::Review;
        task.assignee = Some(super::super::testing::name("ada"));
        task.reviewer = Some(super::super::testing::name("grace"));
    });
    let plan = plan(&input.snapshot(), &policy());
    assert_eq!(plan.starts.len(), 1);
    assert_eq!(plan.starts[0].role, crate::run::Role::Review);
    assert_eq!(plan.starts[0].profile.as_str(), "grace");
}

#[test]
fn a_run_on_this_host_before_it_booted_anew_is_ended_when_it_is_seen_to_be_gone() {
    let mut input = PlanInput::of(&["ada"]);
    input.running_with("ada", Liveness::Gone { code: None }, |run, _| {
        let mut before = host("here");
        before.boot = "another boot".to_owned();
        run.host = Some(before);
    });
    let mut policy = policy();
    policy.shown = Shown::All;
    assert_eq!(plan(&input.snapshot(), &policy).result.crashed.count, 1);
}
