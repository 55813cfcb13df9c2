//! What is read of a board is enough for the plan of the whole of it.

use proptest::prelude::*;
use vestal_board::dispatch::{Bucket, Caps, Policy, Shown};
use vestal_board::{HostName, NewTask, Workspace};

use crate::stage::{Stage, person, profile};

const PROFILES: [&str; 4] = ["", "ada", "grace", "missing"];

fn new_task(number: u32) -> NewTask {
    // Whatever the number's digits say, in place of a random choice.
    let pick = |divisor: u32, of: u32| (number / divisor) % of;
    let name = PROFILES[usize::try_from(pick(1, 4)).unwrap()];
    NewTask {
        title: format!("task {number}"),
        assignee: (!name.is_empty()).then(|| profile(name)),
        tenant: [None, Some("acme"), Some("umbra")][usize::try_from(pick(4, 3)).unwrap()]
            .map(str::to_owned),
        priority: i64::from(pick(12, 5)),
        workspace: match pick(60, 4) {
            0 => Workspace::Dir { path: "/srv/site".into() },
            1 => Workspace::Dir { path: "/srv/site/below".into() },
            _ => Workspace::Scratch,
        },
        ..NewTask::default()
    }
}

/// Reports whether a bucket is what is shown of a whole one.
fn is_shown_of<T: Clone + PartialEq>(part: &Bucket<T>, whole: &Bucket<T>, shown: usize) -> bool {
    let first = whole.entries.iter().take(shown).cloned().collect::<Vec<_>>();
    part.count == whole.count && part.entries == first
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_plan_of_what_was_read_is_the_plan_of_the_whole_board(
        numbers in proptest::collection::vec(0..240_u32, 0..60),
        slots in proptest::option::of(0..6_u32),
        per_profile in proptest::option::of(1..4_u32),
        per_tenant in proptest::option::of(1..4_u32),
        shown in 0..6_usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let stage = Stage::with(&["ada", "grace"]).await;
            let new = numbers.iter().copied().map(new_task).collect();
            stage.place.create_many(&person(), new).await.unwrap();
            let policy = Policy {
                caps: Caps {
                    board: slots,
                    profile: per_profile,
                    tenant: per_tenant,
                    ..Caps::default()
                },
                shown: Shown::First(u32::try_from(shown).unwrap()),
                ..stage.policy()
            };
            let part = stage.dry(&policy).await;
            let all = stage.dry(&Policy { shown: Shown::All, ..policy.clone() }).await;
            prop_assert_eq!(&part.starts, &all.starts);
            let (part, all) = (part.result, all.result);
            prop_assert!(is_shown_of(&part.spawned, &all.spawned, shown));
            prop_assert!(is_shown_of(&part.skipped_unassigned, &all.skipped_unassigned, shown));
            prop_assert!(is_shown_of(&part.skipped_nonspawnable, &all.skipped_nonspawnable, shown));
            prop_assert!(is_shown_of(&part.skipped_capped, &all.skipped_capped, shown));
            prop_assert!(is_shown_of(
                &part.skipped_per_profile_capped, &all.skipped_per_profile_capped, shown
            ));
            prop_assert!(is_shown_of(
                &part.skipped_workspace_busy, &all.skipped_workspace_busy, shown
            ));
            Ok(())
        })?;
    }
}

#[tokio::test]
async fn tasks_of_another_hosts_directory_are_counted_and_left_to_it() {
    let stage = Stage::with(&["ada"]).await;
    let there = stage.place.from_host("there").await.unwrap();
    let dir = Workspace::Dir { path: "/srv/site".into() };
    let new = NewTask {
        title: "over there".to_owned(),
        assignee: Some(profile("ada")),
        workspace: dir,
        ..NewTask::default()
    };
    there.create_many(&person(), vec![new; 5]).await.unwrap();
    let here = stage.task("ada").await;
    let policy = Policy { shown: Shown::First(2), ..stage.policy() };
    let plan = stage.dispatch(&policy).await;
    assert_eq!(plan.starts.len(), 1);
    assert_eq!(plan.starts[0].task, here);
    assert_eq!(
        (plan.result.skipped_other_host.count, plan.result.skipped_other_host.entries.len()),
        (5, 2)
    );
    let task = there.get(&plan.result.skipped_other_host.entries[0]).await.unwrap();
    assert_eq!(task.workspace_host, Some(HostName::new("there")));
}

#[tokio::test]
async fn a_task_behind_many_whose_directory_is_busy_gets_its_slot() {
    let stage = Stage::with(&["ada"]).await;
    let at_site = NewTask {
        title: "at the site".to_owned(),
        assignee: Some(profile("ada")),
        workspace: Workspace::Dir { path: "/srv/site".into() },
        ..NewTask::default()
    };
    stage.place.create_many(&person(), vec![at_site; 300]).await.unwrap();
    let other = |new: &mut NewTask| new.workspace = Workspace::Dir { path: "/srv/other".into() };
    let behind = stage.task_with("ada", other).await;
    let policy = Policy {
        caps: Caps { board: Some(2), ..Caps::default() },
        shown: Shown::First(3),
        ..stage.policy()
    };
    let plan = stage.dispatch(&policy).await;
    assert_eq!(plan.starts.len(), 2);
    assert_eq!(plan.starts[1].task, behind);
    assert_eq!(plan.result.skipped_workspace_busy.count, 299);
    assert_eq!(plan.result.skipped_workspace_busy.entries.len(), 3);
}
