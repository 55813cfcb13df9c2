//! Lanes are counted as tasks come and go; here they are counted anew.

use std::collections::BTreeMap;

use proptest::prelude::*;
use vestal_board::store::Lane;
use vestal_board::testing::{Place, profile, task};
use vestal_board::{HostName, LaneKey, LaneShare, Status, Task, Time};

use crate::place;

/// What can change about a task as far as lanes are concerned.
#[derive(Debug, Clone)]
struct Shape {
    status: Status,
    assignee: Option<&'static str>,
    reviewer: Option<&'static str>,
    running_as: Option<&'static str>,
    tenant: Option<&'static str>,
    host: Option<&'static str>,
    wakes: bool,
}

impl Shape {
    fn of(&self, before: Task) -> Task {
        Task {
            status: self.status,
            assignee: self.assignee.map(profile),
            reviewer: self.reviewer.map(profile),
            running_as: self.running_as.map(profile),
            tenant: self.tenant.map(str::to_owned),
            workspace_host: self.host.map(HostName::new),
            wake_at: self.wakes.then_some(Time::from_millis(1)),
            ..before
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Add(Vec<Shape>),
    Change(usize, Shape),
    Delete(usize),
    /// Adds, and then takes it back.
    Abandon(Shape),
    Prune,
}

fn shapes() -> impl Strategy<Value = Shape> {
    let name = || prop::sample::select(vec![None, Some("ada"), Some("grace")]);
    (
        prop::sample::select(Status::ALL.to_vec()),
        name(),
        name(),
        name(),
        prop::sample::select(vec![None, Some("acme")]),
        prop::sample::select(vec![None, Some("here"), Some("there")]),
        any::<bool>(),
    )
        .prop_map(|(status, assignee, reviewer, running_as, tenant, host, wakes)| Shape {
            status,
            assignee,
            reviewer,
            running_as,
            tenant,
            host,
            wakes,
        })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => prop::collection::vec(shapes(), 0..40).prop_map(Step::Add),
        6 => (any::<usize>(), shapes()).prop_map(|(at, shape)| Step::Change(at, shape)),
        2 => any::<usize>().prop_map(Step::Delete),
        1 => shapes().prop_map(Step::Abandon),
        1 => Just(Step::Prune),
    ];
    prop::collection::vec(step, 1..30)
}

/// Counts what is in the lanes by looking at the tasks.
fn recount<'t>(tasks: impl Iterator<Item = &'t Task>) -> Vec<Lane> {
    let mut counts: BTreeMap<LaneKey, [u64; 3]> = BTreeMap::new();
    for (key, share) in tasks.filter_map(Task::lane_share) {
        let at = match share {
            LaneShare::Queued => 0,
            LaneShare::Guarded => 1,
            LaneShare::Running => 2,
        };
        counts.entry(key).or_default()[at] += 1;
    }
    counts
        .into_iter()
        .map(|(key, [queued, guarded, running])| Lane { key, queued, guarded, running })
        .collect()
}

async fn take(place: &Place, model: &mut Vec<Task>, step: Step) {
    let mut write = place.write().await.unwrap();
    match step {
        Step::Add(shapes) => {
            let tasks: Vec<Task> = shapes.iter().map(|shape| shape.of(task("a task"))).collect();
            write.insert_tasks(&tasks).await.unwrap();
            model.extend(tasks);
        }
        Step::Change(at, shape) if !model.is_empty() => {
            let at = at % model.len();
            let after = shape.of(model[at].clone());
            write.update_task(&model[at], &after).await.unwrap();
            model[at] = after;
        }
        Step::Delete(at) if !model.is_empty() => {
            let gone = model.swap_remove(at % model.len());
            write.delete_task(&gone).await.unwrap();
        }
        Step::Abandon(shape) => {
            write.insert_tasks(&[shape.of(task("abandoned"))]).await.unwrap();
            return;
        }
        Step::Prune => {
            let keep = vestal_board::store::Retention {
                events: std::time::Duration::ZERO,
                events_per_task: 0,
                runs_per_task: 0,
            };
            write.prune(&keep).await.unwrap();
        }
        Step::Change(..) | Step::Delete(_) => {}
    }
    write.commit().await.unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn lanes_are_what_a_count_of_all_tasks_gives_after_any_changes(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let place = place().await;
            let mut model = Vec::new();
            for step in steps {
                take(&place, &mut model, step).await;
                let mut read = place.read().await.unwrap();
                assert_eq!(read.lanes().await.unwrap(), recount(model.iter()));
                for lane in read.lanes().await.unwrap() {
                    let queue = read.queue(&lane.key, 1_000).await.unwrap();
                    assert_eq!(queue.len() as u64, lane.queued, "{:?}", lane.key);
                    assert!(queue.is_sorted_by_key(|task| (task.rank(), task.seq)));
                }
            }
        });
    }
}
