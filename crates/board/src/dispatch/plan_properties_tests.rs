//! What holds for every plan.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::testing::{NOW, PlanInput, capped, dir, name, policy};
use super::super::{Caps, Liveness, OutsideLoad, Shown};
use super::*;
use crate::time::Time;

fn started(plan: &DispatchPlan) -> Vec<TaskId> {
    plan.starts.iter().map(|start| start.task.clone()).collect()
}

fn planned(input: &PlanInput, policy: &DispatchPolicy) -> DispatchPlan {
    plan(&input.snapshot(), policy)
}

/// What a random task is like.
#[derive(Debug, Clone)]
struct Card {
    profile: usize,
    tenant: usize,
    priority: i64,
    age: i64,
    dir: usize,
    state: usize,
}

const PROFILES: [&str; 4] = ["ada", "grace", "joan", "missing"];

fn card() -> impl Strategy<Value = Card> {
    (0..5_usize, 0..3_usize, -20..20_i64, 0..900_000_i64, 0..8_usize, 0..12_usize).prop_map(
        |(profile, tenant, priority, age, dir, state)| Card {
            profile,
            tenant,
            priority,
            age,
            dir,
            state,
        },
    )
}

fn lay(cards: &[Card], outside: OutsideLoad) -> PlanInput {
    let mut input = PlanInput::of(&PROFILES[..3]);
    input.outside = outside;
    for card in cards {
        let profile = PROFILES.get(card.profile).copied().unwrap_or_default();
        let dress = |task: &mut crate::Task| {
            task.tenant = (card.tenant > 0).then(|| format!("tenant{}", card.tenant));
            task.priority = card.priority;
            task.queued_at = Some(Time::from_millis(NOW.millis() - card.age));
            task.workspace = match card.dir {
                1 => dir("/srv/a"),
                2 => dir("/srv/a/b"),
                3 => dir("/srv/c"),
                _ => crate::TaskWorkspace::Scratch,
            };
        };
        let life = match card.state {
            0 | 1 => Liveness::Alive,
            2 => Liveness::Foreign,
            3 => Liveness::Gone { code: Some(143) },
            4 => Liveness::Gone { code: Some(1) },
            5 => Liveness::Unknown,
            _ => {
                input.ready_with(profile, |task| {
                    dress(task);
                    if card.state == 6 {
                        task.status = Status::Scheduled;
                        task.wake_at = Some(NOW);
                    } else if card.state == 7 {
                        task.wake_at = Some(NOW.after(Duration::from_mins(1)));
                    }
                });
                continue;
            }
        };
        let profile = if profile.is_empty() { "ada" } else { profile };
        input.running_with(profile, life, |run, task| {
            dress(task);
            if card.age % 5 == 0 {
                run.expires_at = NOW;
            }
            if card.age % 7 == 0 {
                run.ended_at = Some(NOW);
                task.status = Status::Done;
                task.current_run = None;
            }
        });
    }
    input
}

fn caps() -> impl Strategy<Value = Caps> {
    let cap = || proptest::option::of(1..8_u32);
    (cap(), cap(), cap(), cap(), cap()).prop_map(|(global, host, board, profile, tenant)| Caps {
        global,
        host,
        board,
        profile,
        tenant,
    })
}

/// Counts what a cap counts, in the plainest way there is.
struct PlannedCounts {
    global: u64,
    host: u64,
    board: u64,
    by_profile: BTreeMap<String, u64>,
    by_tenant: BTreeMap<String, u64>,
}

fn counts(input: &PlanInput, plan: &DispatchPlan) -> PlannedCounts {
    let mut counts = PlannedCounts {
        global: input.outside.running,
        host: input.outside.running_here,
        board: 0,
        by_profile: BTreeMap::new(),
        by_tenant: BTreeMap::new(),
    };
    let freed: Vec<_> = plan
        .repairs
        .iter()
        .filter(|repair| matches!(repair, Repair::End { .. } | Repair::Gone { .. }))
        .map(Repair::run)
        .collect();
    let here = super::super::testing::host("here");
    let going =
        input.runs.iter().filter(|watched| !freed.contains(&watched.run.id)).map(|watched| {
            let run = &watched.run;
            let tenant = watched.task.as_ref().and_then(|task| task.tenant.clone());
            (
                run.profile.clone().unwrap().as_str().to_owned(),
                tenant,
                run.host.as_ref() == Some(&here),
            )
        });
    let starts = plan.starts.iter().map(|start| {
        (start.profile.as_str().to_owned(), input.tasks[&start.task].tenant.clone(), true)
    });
    for (profile, tenant, is_here) in going.chain(starts) {
        counts.global += 1;
        counts.board += 1;
        counts.host += u64::from(is_here);
        *counts.by_profile.entry(profile).or_default() += 1;
        if let Some(tenant) = tenant {
            *counts.by_tenant.entry(tenant).or_default() += 1;
        }
    }
    counts
}

proptest! {
    #[test]
    fn no_plan_goes_over_any_cap(cards in vec(card(), 0..40), caps in caps(), outside in 0..3_u64) {
        let input = lay(&cards, OutsideLoad { running: outside, running_here: outside / 2 });
        let plan = planned(&input, &capped(caps));
        let (before, after) = (counts(&input, &DispatchPlan { starts: Vec::new(), ..plan.clone() }), counts(&input, &plan));
        // What is over a cap already may stay so, and nothing is added to it.
        let kept = |cap: Option<u32>, before: u64, after: u64| {
            cap.is_none_or(|cap| after <= u64::from(cap).max(before))
        };
        prop_assert!(kept(caps.global, before.global, after.global));
        prop_assert!(kept(caps.host, before.host, after.host));
        prop_assert!(kept(caps.board, before.board, after.board));
        for (profile, count) in &after.by_profile {
            let before = before.by_profile.get(profile).copied().unwrap_or_default();
            prop_assert!(kept(caps.profile, before, *count), "{}", profile);
        }
        for (tenant, count) in &after.by_tenant {
            let before = before.by_tenant.get(tenant).copied().unwrap_or_default();
            prop_assert!(kept(caps.tenant, before, *count), "{}", tenant);
        }
    }

    #[test]
    fn every_queued_task_is_in_exactly_one_bucket_and_only_such_are_started(
        cards in vec(card(), 0..40),
        caps in caps(),
        default in any::<bool>(),
    ) {
        let input = lay(&cards, OutsideLoad::default());
        let mut policy = capped(caps);
        policy.default_assignee = default.then(|| name("ada"));
        policy.shown = Shown::All;
        let plan = planned(&input, &policy);
        let again = planned(&input, &policy);
        prop_assert_eq!(&plan, &again);

        // Those in the queue, and those that come into it by the plan itself.
        let mut queued: BTreeSet<TaskId> =
            input.tasks.values().filter(|task| task.queue_as().is_some()).map(|task| task.id.clone()).collect();
        queued.extend(plan.wakes.iter().cloned());
        for repair in &plan.repairs {
            let watched = input.runs.iter().find(|watched| watched.run.id == repair.run()).unwrap();
            let unworked = watched.run.process.is_none();
            if unworked && matches!(repair, Repair::End { outcome: Outcome::Reclaimed, .. }) {
                queued.insert(watched.run.task_id.clone());
            }
        }
        let result = &plan.result;
        let reported: Vec<TaskId> = started(&plan)
            .into_iter()
            .chain(result.skipped_unassigned.entries.iter().cloned())
            .chain(result.skipped_nonspawnable.entries.iter().cloned())
            .chain(result.skipped_per_profile_capped.entries.iter().map(|entry| entry.0.clone()))
            .chain(result.skipped_capped.entries.iter().map(|entry| entry.task_id.clone()))
            .chain(result.skipped_workspace_busy.entries.iter().cloned())
            .collect();
        let set: BTreeSet<TaskId> = reported.iter().cloned().collect();
        prop_assert_eq!(set.len(), reported.len(), "none twice");
        prop_assert_eq!(set, queued);
        prop_assert_eq!(result.spawned.count, count(plan.starts.len()));
        prop_assert_eq!(result.skipped_capped.count, count(result.skipped_capped.entries.len()));
    }

    #[test]
    fn no_two_tasks_are_put_into_one_directory(cards in vec(card(), 0..40)) {
        let input = lay(&cards, OutsideLoad::default());
        let plan = planned(&input, &policy());
        let dirs: Vec<_> = plan
            .starts
            .iter()
            .filter_map(|start| input.tasks[&start.task].workspace.path())
            .collect();
        for (index, one) in dirs.iter().enumerate() {
            for other in &dirs[index + 1..] {
                prop_assert!(!one.starts_with(other) && !other.starts_with(one));
            }
        }
    }

    /// Rounds in which all that runs ends, while tasks of high priority keep
    /// coming: those that are there from the beginning all get their turn.
    #[test]
    fn nobody_starves_while_others_keep_coming(
        slots in 1..4_u32,
        flood in 1..6_usize,
        priority in 0..30_i64,
        slow in 1..4_usize,
    ) {
        let mut input = PlanInput::of(&["ada", "grace"]);
        let mut waiting: BTreeSet<TaskId> =
            ["ada", "grace", "ada"].iter().map(|profile| input.ready(profile)).collect();
        let policy = capped(Caps { board: Some(slots), ..Caps::default() });
        let mut rounds = 0;
        while !waiting.is_empty() {
            // Each round takes twenty minutes, which is what makes the newcomers
            // newer: two points of priority a round.
            let now = Time::from_millis(NOW.millis() + rounds * 20 * 60_000);
            for number in 0..flood {
                let profile = if number % slow == 0 { "grace" } else { "ada" };
                input.ready_with(profile, |task| {
                    task.priority = priority;
                    task.queued_at = Some(now);
                });
            }
            for id in started(&planned(&input, &policy)) {
                waiting.remove(&id);
                input.tasks.remove(&id);
            }
            rounds += 1;
            prop_assert!(rounds < 1_000, "{} wait for ever", waiting.len());
        }
    }
}
