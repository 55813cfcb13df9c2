//! Whole dispatches, and dry runs.

use std::time::Duration;

use proptest::prelude::*;
use vestal_board::dispatch::{Bucket, Caps, DispatchPolicy, Liveness, Shown};
use vestal_board::{HostName, Initial, NewTask, TaskWorkspace};

use crate::fixture::{LanesFixture, person, profile};

/// Everything that a dispatch could do something about, at once.
async fn busy_board() -> LanesFixture {
    let fixture = LanesFixture::with(&["alpha", "beta"]).await;
    let policy = fixture.policy();
    let overdue =
        fixture.task_with("alpha", |new| new.max_runtime = Some(Duration::from_secs(1))).await;
    let crashed = fixture.task("alpha").await;
    let expired = fixture.task("alpha").await;
    fixture.dispatch(&policy).await;
    fixture.worker_of_ended(&crashed, 70).await;
    let run = fixture.get(&expired).await.current_run.unwrap();
    fixture.worker(run, Liveness::Foreign);
    let at = fixture.place.clock().now().after(Duration::from_secs(5));
    let later = |new: &mut NewTask| new.initial = Initial::At(at);
    fixture.task_with("beta", later).await;
    fixture.place.clock().advance(Duration::from_hours(1));
    fixture.task("").await;
    fixture.tasks("beta", 20).await;
    assert_eq!(fixture.get(&overdue).await.status, vestal_board::Status::Running);
    fixture
}

/// Returns every byte of the board. Another process reads them: a process that closes a
/// file loses all locks of its process on it.
fn bytes(fixture: &LanesFixture) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    let mut dirs = vec![fixture.place.dir().to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.display().to_string();
            if path.is_dir() {
                dirs.push(path);
            } else if !name.ends_with("-shm") {
                // The shared memory beside it holds who is reading just now.
                let read = std::process::Command::new("cat").arg(path).output().unwrap();
                assert!(read.status.success());
                files.push((name, read.stdout));
            }
        }
    }
    files.sort();
    files
}

#[tokio::test]
async fn a_dry_run_changes_no_byte_though_there_is_everything_to_do() {
    let fixture = busy_board().await;
    let (mut policy, _) = fixture.configured("  default_assignee: beta\n  max_spawn: 8\n");
    policy.stale_after = Some(Duration::from_mins(1));
    let before = bytes(&fixture);
    let plan = fixture.dry(&policy).await;
    assert_eq!(bytes(&fixture), before);

    assert_eq!((plan.result.reclaimed, plan.result.promoted), (1, 1));
    assert_eq!((plan.result.crashed.count, plan.result.timed_out.count), (1, 1));
    assert_eq!(plan.result.auto_assigned_default.count, 1);
    assert!(!plan.starts.is_empty());
}

#[tokio::test]
async fn a_dry_run_keeps_to_all_caps() {
    let fixture = LanesFixture::with(&["alpha"]).await;
    fixture.tasks("alpha", 500).await;
    let (policy, _) = fixture.configured("  max_spawn: 8\n  max_in_progress: 9\n");
    let plan = fixture.dry(&policy).await;
    assert_eq!((plan.result.spawned.count, plan.starts.len()), (8, 8));
    assert_eq!(
        (plan.result.skipped_capped.count, plan.result.skipped_capped.entries.len()),
        (492, 100)
    );
}

#[tokio::test]
async fn a_dispatch_does_what_the_dry_run_before_it_showed() {
    let fixture = busy_board().await;
    let (policy, _) = fixture.configured("  default_assignee: beta\n  max_spawn: 8\n");
    let dry = fixture.dry(&policy).await;
    let done = fixture.dispatch(&policy).await;
    assert_eq!(done, dry);
}

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
            0 => TaskWorkspace::Dir { path: "/srv/site".into() },
            1 => TaskWorkspace::Dir { path: "/srv/site/below".into() },
            _ => TaskWorkspace::Scratch,
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
            let fixture = LanesFixture::with(&["ada", "grace"]).await;
            let new = numbers.iter().copied().map(new_task).collect();
            fixture.place.create_many(&person(), new).await.unwrap();
            let policy = DispatchPolicy {
                caps: Caps {
                    board: slots,
                    profile: per_profile,
                    tenant: per_tenant,
                    ..Caps::default()
                },
                shown: Shown::First(u32::try_from(shown).unwrap()),
                ..fixture.policy()
            };
            let part = fixture.dry(&policy).await;
            let all = fixture.dry(&DispatchPolicy { shown: Shown::All, ..policy.clone() }).await;
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
    let fixture = LanesFixture::with(&["ada"]).await;
    let there = fixture.place.from_host("there").await.unwrap();
    let dir = TaskWorkspace::Dir { path: "/srv/site".into() };
    let new = NewTask {
        title: "over there".to_owned(),
        assignee: Some(profile("ada")),
        workspace: dir,
        ..NewTask::default()
    };
    there.create_many(&person(), vec![new; 5]).await.unwrap();
    let here = fixture.task("ada").await;
    let policy = DispatchPolicy { shown: Shown::First(2), ..fixture.policy() };
    let plan = fixture.dispatch(&policy).await;
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
    let fixture = LanesFixture::with(&["ada"]).await;
    let at_site = NewTask {
        title: "at the site".to_owned(),
        assignee: Some(profile("ada")),
        workspace: TaskWorkspace::Dir { path: "/srv/site".into() },
        ..NewTask::default()
    };
    fixture.place.create_many(&person(), vec![at_site; 300]).await.unwrap();
    let other =
        |new: &mut NewTask| new.workspace = TaskWorkspace::Dir { path: "/srv/other".into() };
    let behind = fixture.task_with("ada", other).await;
    let policy = DispatchPolicy {
        caps: Caps { board: Some(2), ..Caps::default() },
        shown: Shown::First(3),
        ..fixture.policy()
    };
    let plan = fixture.dispatch(&policy).await;
    assert_eq!(plan.starts.len(), 2);
    assert_eq!(plan.starts[1].task, behind);
    assert_eq!(plan.result.skipped_workspace_busy.count, 299);
    assert_eq!(plan.result.skipped_workspace_busy.entries.len(), 3);
}
