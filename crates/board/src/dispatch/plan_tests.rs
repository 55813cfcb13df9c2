use std::time::Duration;

use super::*;
use crate::dispatch::testing::{NOW, PlanInput, capped, dir, name, policy};
use crate::dispatch::{Caps, Liveness, OutsideLoad, Shown};
use crate::id::HostName;
use crate::task::BlockKind;
use crate::time::Time;

fn started(plan: &DispatchPlan) -> Vec<TaskId> {
    plan.starts.iter().map(|start| start.task.clone()).collect()
}

fn planned(input: &PlanInput, policy: &DispatchPolicy) -> DispatchPlan {
    plan(&input.snapshot(), policy)
}

fn profiles(plan: &DispatchPlan) -> Vec<&str> {
    plan.starts.iter().map(|start| start.profile.as_str()).collect()
}

#[test]
fn caps_are_not_held_against_each_other() {
    let mut input = PlanInput::of(&["ada"]);
    for _ in 0..4 {
        input.running("ada");
    }
    for _ in 0..9 {
        input.ready("ada");
    }
    let caps = Caps { board: Some(10), global: Some(6), ..Caps::default() };
    assert_eq!(planned(&input, &capped(caps)).starts.len(), 2);
    let caps = Caps { board: Some(6), global: Some(10), ..Caps::default() };
    assert_eq!(planned(&input, &capped(caps)).starts.len(), 2);
    let caps = Caps { board: Some(6), global: Some(6), host: Some(6), ..Caps::default() };
    assert_eq!(planned(&input, &capped(caps)).starts.len(), 2);
}

#[test]
fn a_task_that_is_held_back_names_the_first_cap_in_its_way() {
    let mut input = PlanInput::of(&["ada"]);
    input.outside = OutsideLoad { running: 5, running_here: 3 };
    input.running_with("ada", Liveness::Alive, |_, task| task.tenant = Some("acme".to_owned()));
    let waiting = input.ready_with("ada", |task| task.tenant = Some("acme".to_owned()));
    let all =
        Caps { global: Some(6), host: Some(4), board: Some(1), profile: Some(1), tenant: Some(1) };
    let result = planned(&input, &capped(all)).result;
    assert_eq!(result.skipped_per_profile_capped.entries, [(waiting.clone(), "ada".to_owned(), 1)]);
    let reported = |caps: Caps| {
        let result = planned(&input, &capped(caps)).result;
        assert!(result.spawned.is_empty() && result.skipped_per_profile_capped.is_empty());
        assert_eq!(result.skipped_capped.count, 1);
        let entry = result.skipped_capped.entries[0].clone();
        assert_eq!((entry.task_id, entry.assignee.as_str()), (waiting.clone(), "ada"));
        (entry.by, entry.current)
    };
    let caps = Caps { profile: None, ..all };
    assert_eq!(reported(caps), (CappedBy::Tenant, 1));
    let caps = Caps { tenant: None, ..caps };
    assert_eq!(reported(caps), (CappedBy::Board, 1));
    let caps = Caps { board: None, ..caps };
    assert_eq!(reported(caps), (CappedBy::Global, 6));
    let caps = Caps { global: None, ..caps };
    assert_eq!(reported(caps), (CappedBy::Host, 4));
}

#[test]
fn what_other_hosts_do_counts_for_all_boards_and_not_for_this_host() {
    let mut input = PlanInput::of(&["ada"]);
    input.running_with("ada", Liveness::Foreign, |_, _| {});
    input.ready("ada");
    let here = Caps { host: Some(1), ..Caps::default() };
    assert_eq!(planned(&input, &capped(here)).starts.len(), 1);
    let global = Caps { global: Some(1), ..Caps::default() };
    assert_eq!(planned(&input, &capped(global)).starts.len(), 0);
}

#[test]
fn tasks_of_no_tenant_share_no_cap() {
    let mut input = PlanInput::of(&["ada"]);
    for _ in 0..3 {
        input.ready("ada");
        input.ready_with("ada", |task| task.tenant = Some("acme".to_owned()));
    }
    let caps = Caps { tenant: Some(1), ..Caps::default() };
    let plan = planned(&input, &capped(caps));
    assert_eq!(plan.starts.len(), 4);
    assert_eq!(plan.result.skipped_capped.count, 2);
}

#[test]
fn a_slot_goes_to_the_profile_with_the_fewest_workers() {
    let mut input = PlanInput::of(&["ada", "grace", "joan"]);
    input.running("ada");
    for _ in 0..5 {
        input.ready("ada");
    }
    input.ready("grace");
    input.ready("grace");
    input.ready("joan");
    let caps = Caps { board: Some(5), ..Caps::default() };
    // All have one worker after two slots, and then age decides.
    assert_eq!(profiles(&planned(&input, &capped(caps))), ["grace", "joan", "ada", "grace"]);
}

#[test]
fn an_idle_profile_gets_its_turn_whatever_the_priority_of_others() {
    let mut input = PlanInput::of(&["ada", "grace"]);
    for _ in 0..50 {
        input.ready_with("ada", |task| task.priority = 1_000);
    }
    let low = input.ready_with("grace", |task| task.priority = -1_000);
    let caps = Caps { board: Some(2), ..Caps::default() };
    assert!(started(&planned(&input, &capped(caps))).contains(&low));
}

#[test]
fn what_a_person_claimed_takes_nobodys_turn() {
    let mut input = PlanInput::of(&["ada", "grace"]);
    input.running_with("ada", Liveness::Person, |_, _| {});
    input.ready("ada");
    input.ready("grace");
    let caps = Caps { board: Some(2), ..Caps::default() };
    assert_eq!(profiles(&planned(&input, &capped(caps))), ["ada"], "the older of two");
}

#[test]
fn what_a_person_claimed_without_a_name_counts_for_the_profile_it_waited_for() {
    let mut input = PlanInput::of(&["ada"]);
    input.running_with("ada", Liveness::Person, |run, _| run.profile = None);
    let waiting = input.ready("ada");
    let caps = Caps { profile: Some(1), ..Caps::default() };
    let result = planned(&input, &capped(caps)).result;
    assert_eq!(result.skipped_per_profile_capped.entries, [(waiting, "ada".to_owned(), 1)]);
}

#[test]
fn boards_take_turns_whatever_the_backlog_of_one() {
    let boards = || {
        let mut boards =
            [PlanInput::of(&["ada"]), PlanInput::of(&["ada"]), PlanInput::of(&["ada"])];
        for board in &mut boards[..2] {
            (0..40).for_each(|_| drop(board.ready_with("ada", |task| task.priority = 9)));
        }
        boards[2].ready("ada");
        boards
    };
    let shared = |boards: &[PlanInput], slots: u32| -> Vec<usize> {
        let snapshots: Vec<BoardSnapshot> = boards.iter().map(PlanInput::snapshot).collect();
        let caps = Caps { host: Some(slots), ..Caps::default() };
        let plans = plan_together(&snapshots.iter().collect::<Vec<_>>(), &capped(caps));
        plans.iter().map(|plan| plan.starts.len()).collect()
    };
    assert_eq!(shared(&boards(), 7), [3, 3, 1]);
    // What others have no use for is not left idle.
    assert_eq!(shared(&boards(), 100), [40, 40, 1]);
    // Who has workers waits for those who have none.
    let mut uneven = boards();
    for _ in 0..3 {
        uneven[0].running("ada");
    }
    for board in &mut uneven[1..] {
        board.outside = OutsideLoad { running: 3, running_here: 3 };
    }
    assert_eq!(shared(&uneven, 7), [0, 3, 1]);
}

#[test]
fn of_boards_with_as_many_workers_the_one_is_first_whose_task_has_waited_longest() {
    let mut boards = [PlanInput::of(&["ada"]), PlanInput::of(&["ada"])];
    boards[0].ready("ada");
    let aged = |task: &mut crate::Task| {
        task.queued_at = Some(Time::from_millis(NOW.millis() - 3_600_000));
    };
    let old = boards[1].ready_with("ada", aged);
    let snapshots = [boards[0].snapshot(), boards[1].snapshot()];
    let caps = Caps { global: Some(1), ..Caps::default() };
    let plans = plan_together(&[&snapshots[0], &snapshots[1]], &capped(caps));
    assert_eq!([started(&plans[0]), started(&plans[1])], [vec![], vec![old]]);
}

#[test]
fn tenants_of_a_profile_take_turns() {
    let mut input = PlanInput::of(&["ada"]);
    let of = |tenant: &'static str| move |task: &mut crate::Task| task.tenant = Some(tenant.into());
    for _ in 0..9 {
        input.ready_with("ada", of("acme"));
    }
    let other = input.ready_with("ada", of("umbra"));
    let caps = Caps { board: Some(2), ..Caps::default() };
    assert!(started(&planned(&input, &capped(caps))).contains(&other));
}

#[test]
fn a_task_overtakes_older_ones_by_priority_only_for_so_long() {
    let mut input = PlanInput::of(&["ada"]);
    let day = 24 * 60 * 60 * 1000;
    let old = input.ready_with("ada", |task| {
        task.queued_at = Some(Time::from_millis(NOW.millis() - day));
    });
    let fresh = input.ready_with("ada", |task| task.priority = 100);
    let urgent = input.ready_with("ada", |task| task.priority = 200);
    let plan = planned(&input, &policy());
    assert_eq!(started(&plan), [urgent, old, fresh], "100 points are worth 1000 minutes");
}

#[test]
fn tasks_of_the_same_moment_go_in_the_order_they_were_made() {
    let mut input = PlanInput::of(&["ada"]);
    let made: Vec<TaskId> =
        (0..20).map(|_| input.ready_with("ada", |task| task.queued_at = Some(NOW))).collect();
    assert_eq!(started(&planned(&input, &policy())), made);
}

#[test]
fn a_directory_is_given_to_one_task_at_a_time() {
    let mut input = PlanInput::of(&["ada", "grace"]);
    let at = |path: &'static str| move |task: &mut crate::Task| task.workspace = dir(path);
    let first = input.ready_with("ada", at("/srv/site"));
    let same = input.ready_with("grace", at("/srv/site"));
    let below = input.ready_with("ada", at("/srv/site/assets"));
    let above = input.ready_with("ada", at("/srv"));
    let beside = input.ready_with("ada", at("/srv/site-two"));
    let scratch = input.ready("ada");
    let plan = planned(&input, &policy());
    let all: BTreeSet<_> = started(&plan).into_iter().collect();
    assert_eq!(all, BTreeSet::from([first, beside, scratch]));
    assert_eq!(plan.result.skipped_workspace_busy.entries, [same, below, above]);
    assert_eq!(plan.result.skipped_workspace_busy.count, 3);
}

#[test]
fn a_directory_somebody_is_at_work_in_is_busy_until_the_worker_is_gone() {
    let mut input = PlanInput::of(&["ada"]);
    input.running_with("ada", Liveness::Alive, |run, task| {
        task.workspace = dir("/srv/site");
        task.current_run = None;
        task.status = Status::Archived;
        run.ended_at = Some(NOW);
    });
    input.ready_with("ada", |task| task.workspace = dir("/srv/site"));
    assert_eq!(planned(&input, &policy()).result.skipped_workspace_busy.count, 1);
    input.runs[0].life = Liveness::Gone { code: None };
    assert_eq!(planned(&input, &policy()).starts.len(), 1);
}

#[test]
fn a_task_is_not_given_out_while_an_earlier_worker_of_it_lives() {
    let mut input = PlanInput::of(&["ada"]);
    // Somebody took it from its worker, so that it is ready again.
    input.running_with("ada", Liveness::Alive, |run, task| {
        run.ended_at = Some(NOW);
        task.status = Status::Ready;
        task.current_run = None;
    });
    let task = input.runs[0].run.task_id.clone();
    let plan = planned(&input, &policy());
    assert!(plan.starts.is_empty());
    assert_eq!(plan.result.skipped_workspace_busy.entries, std::slice::from_ref(&task));
    input.runs[0].life = Liveness::Gone { code: None };
    assert_eq!(started(&planned(&input, &policy())), [task]);
}

#[test]
fn directories_of_other_boards_tasks_are_busy_too() {
    let mut input = PlanInput::of(&["ada"]);
    input.ready_with("ada", |task| task.workspace = dir("/srv/site"));
    let mut snapshot = input.snapshot();
    snapshot.busy_elsewhere.insert("/srv/site".into());
    assert_eq!(plan(&snapshot, &policy()).result.skipped_workspace_busy.count, 1);
}

#[test]
fn a_task_whose_directory_is_on_another_host_is_left_to_that_host() {
    let mut input = PlanInput::of(&["ada"]);
    let on = |host: &'static str| {
        move |task: &mut crate::Task| task.workspace_host = Some(HostName::new(host))
    };
    let there = input.ready_with("ada", on("there"));
    let here = input.ready_with("ada", on("here"));
    let plan = planned(&input, &policy());
    assert_eq!(started(&plan), [here]);
    assert_eq!(plan.result.skipped_other_host.entries, [there]);
}

#[test]
fn a_task_that_comes_due_competes_at_once() {
    let mut input = PlanInput::of(&["ada"]);
    let later = input.ready("ada");
    let due = |status: Status| {
        move |task: &mut crate::Task| {
            task.status = status;
            task.wake_at = Some(NOW);
            task.priority = 5;
        }
    };
    let scheduled = input.ready_with("ada", due(Status::Scheduled));
    let guarded = input.ready_with("ada", due(Status::Ready));
    let waits = input.ready_with("ada", |task| {
        due(Status::Scheduled)(task);
        task.pending_parents = 1;
    });
    let gated = input.ready_with("ada", |task| {
        due(Status::Blocked)(task);
        task.gate = true;
        task.block_kind = Some(BlockKind::NeedsInput);
    });
    let caps = Caps { board: Some(2), ..Caps::default() };
    let plan = planned(&input, &capped(caps));
    assert_eq!(plan.wakes, [scheduled.clone(), guarded.clone(), waits]);
    assert!(!plan.wakes.contains(&gated));
    assert_eq!(plan.result.promoted, 3);
    assert_eq!(started(&plan), [guarded, scheduled]);
    assert_eq!(plan.result.skipped_capped.entries[0].task_id, later);
    assert!(plan.result.respawn_guarded.is_empty());
}

#[test]
fn a_task_that_waits_after_a_failure_is_shown_with_why_and_until_when() {
    let mut input = PlanInput::of(&["ada"]);
    let until = NOW.after(Duration::from_mins(5));
    let guarded = input.ready_with("ada", |task| {
        task.wake_at = Some(until);
        task.guard = Some("rate_limit_cooldown".to_owned());
    });
    let plan = planned(&input, &policy());
    assert!(plan.starts.is_empty() && plan.wakes.is_empty());
    let expected = Guarded { task_id: guarded, reason: "rate_limit_cooldown".to_owned(), until };
    assert_eq!(plan.result.respawn_guarded, Bucket { count: 1, entries: vec![expected] });
}

#[test]
fn a_profile_that_does_not_exist_starts_nothing_and_is_named() {
    let mut input = PlanInput::of(&["ada"]);
    let lost = input.ready("grcae");
    let plan = planned(&input, &policy());
    assert_eq!(plan.result.skipped_nonspawnable.entries, [lost]);
    assert_eq!(plan.unknown_profiles, ["grcae"]);
    assert!(plan.starts.is_empty());
}

#[test]
fn a_default_assignee_that_does_not_exist_gets_nothing_and_is_named() {
    let mut input = PlanInput::of(&["ada"]);
    let nobodys = input.ready("");
    let policy = DispatchPolicy { default_assignee: Some(name("nobody")), ..policy() };
    let plan = planned(&input, &policy);
    assert_eq!(plan.result.skipped_unassigned.entries, [nobodys]);
    assert!(plan.assigns.is_empty() && plan.starts.is_empty());
    assert_eq!(plan.unknown_profiles, ["nobody"]);
}

#[test]
fn the_default_assignee_gets_the_first_tasks_whether_or_not_they_start_now() {
    let mut input = PlanInput::of(&["ada"]);
    let made: Vec<TaskId> = (0..7).map(|_| input.ready("")).collect();
    let mut policy = DispatchPolicy { default_assignee: Some(name("Ada")), ..policy() };
    policy.caps.profile = Some(2);
    policy.shown = Shown::First(5);
    let plan = planned(&input, &policy);
    assert_eq!(plan.assigns, made[..5]);
    assert_eq!(plan.result.auto_assigned_default.entries, made[..5]);
    assert_eq!(started(&plan), made[..2]);
    let held: Vec<_> = plan
        .result
        .skipped_per_profile_capped
        .entries
        .iter()
        .map(|entry| entry.0.clone())
        .collect();
    assert_eq!(held, made[2..5]);
    assert_eq!(plan.result.skipped_unassigned.entries, made[5..]);
    policy.shown = Shown::All;
    assert_eq!(planned(&input, &policy).assigns, made);
}

#[test]
fn assigned_and_unassigned_tasks_of_one_profile_share_its_cap() {
    let mut input = PlanInput::of(&["ada"]);
    input.running("ada");
    input.ready("ada");
    input.ready("");
    let mut policy = DispatchPolicy { default_assignee: Some(name("ADA")), ..policy() };
    policy.caps.profile = Some(2);
    let plan = planned(&input, &policy);
    assert_eq!((plan.starts.len(), plan.result.skipped_per_profile_capped.count), (1, 1));
}

#[test]
fn reviews_keep_to_the_caps_like_all_other_work() {
    let mut input = PlanInput::of(&["ada", "grace"]);
    input.running("grace");
    let review = input.ready_with("ada", |task| {
        task.status = Status::Review;
        task.reviewer = Some(name("grace"));
    });
    let caps = Caps { profile: Some(1), ..Caps::default() };
    let plan = planned(&input, &capped(caps));
    assert!(plan.starts.is_empty());
    assert_eq!(plan.result.skipped_per_profile_capped.entries, [(review, "grace".to_owned(), 1)]);
    let caps = Caps { global: Some(1), ..Caps::default() };
    assert_eq!(planned(&input, &capped(caps)).result.skipped_capped.count, 1);
    let free = planned(&input, &policy());
    assert_eq!((free.starts[0].role, free.starts[0].profile.as_str()), (Role::Review, "grace"));
}

#[test]
fn counts_are_whole_where_only_the_first_are_shown() {
    let mut input = PlanInput::of(&["ada"]);
    for _ in 0..9 {
        input.ready("ada");
        input.ready("");
        input.ready("nobody");
    }
    let mut snapshot = input.snapshot();
    // The lanes count what nobody read.
    for lane in &mut snapshot.lanes {
        lane.queued += 1_000;
    }
    let mut policy = capped(Caps { board: Some(1), ..Caps::default() });
    policy.shown = Shown::First(3);
    let result = plan(&snapshot, &policy).result;
    assert_eq!((result.skipped_capped.count, result.skipped_capped.entries.len()), (1_008, 3));
    assert_eq!(
        (result.skipped_unassigned.count, result.skipped_unassigned.entries.len()),
        (1_009, 3)
    );
    assert_eq!(result.skipped_nonspawnable.count, 1_009);
}

#[test]
fn the_result_reads_as_json_under_the_names_people_know() {
    let task: TaskId = "t_000000000001".parse().unwrap();
    let mut result = DispatchResult { reclaimed: 1, promoted: 2, ..DispatchResult::default() };
    result.spawned.push(Spawned {
        task_id: task.clone(),
        assignee: "ada".to_owned(),
        workspace: String::new(),
    });
    result.skipped_per_profile_capped.push((task.clone(), "ada".to_owned(), 2));
    result.skipped_per_profile_capped.count = 9;
    result.respawn_guarded.push(Guarded {
        task_id: task.clone(),
        reason: "backoff".to_owned(),
        until: Time::from_millis(5_000),
    });
    result.skipped_capped.push(Capped {
        task_id: task,
        assignee: "ada".to_owned(),
        by: CappedBy::Board,
        current: 8,
    });
    let expected = serde_json::json!({
        "reclaimed": 1,
        "promoted": 2,
        "crashed": [],
        "no_report": [],
        "timed_out": [],
        "stale": [],
        "rate_limited": [],
        "auto_blocked": [],
        "spawned": [{"task_id": "t_000000000001", "assignee": "ada", "workspace": ""}],
        "auto_assigned_default": [],
        "skipped_unassigned": [],
        "skipped_nonspawnable": [],
        "skipped_per_profile_capped":
            [{"task_id": "t_000000000001", "assignee": "ada", "current": 2}],
        "skipped_capped":
            [{"task_id": "t_000000000001", "assignee": "ada", "by": "board", "current": 8}],
        "skipped_workspace_busy": [],
        "skipped_other_host": [],
        "respawn_guarded": [{"task_id": "t_000000000001", "reason": "backoff", "until": 5}],
        "skipped_locked": false,
        "counts": {
            "crashed": 0, "no_report": 0, "timed_out": 0, "stale": 0, "rate_limited": 0,
            "auto_blocked": 0, "spawned": 1, "auto_assigned_default": 0, "skipped_unassigned": 0,
            "skipped_nonspawnable": 0, "skipped_per_profile_capped": 9, "skipped_capped": 1,
            "skipped_workspace_busy": 0, "skipped_other_host": 0, "respawn_guarded": 1,
        },
    });
    assert_eq!(serde_json::to_value(&result).unwrap(), expected);
}
