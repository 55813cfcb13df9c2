//! Lanes and queues.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use vestal_board::store::Lane;
use vestal_board::testing::{BEGINNING, TestBoard, profile, run, task};
use vestal_board::{HostName, Kind, LaneKey, LaneShare, NewTaskEvent, Run, Status, Task, Time};

use crate::{add_all, change, place};

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

async fn take(place: &TestBoard, model: &mut Vec<Task>, step: Step) {
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

fn lane(profile: &str, tenant: &str, host: &str) -> LaneKey {
    LaneKey { profile: profile.to_owned(), tenant: tenant.to_owned(), host: host.to_owned() }
}

fn titles(tasks: &[Task]) -> Vec<&str> {
    tasks.iter().map(|task| task.title.as_str()).collect()
}

#[tokio::test]
async fn a_queue_is_by_rank_and_then_by_age_and_only_of_its_lane() {
    let place = place().await;
    let ready =
        |title: &str, priority| Task { assignee: Some(profile("ada")), priority, ..task(title) };
    let tasks = [
        ready("a", 0),
        ready("b", 0),
        ready("high", 3),
        ready("low", -3),
        Task { tenant: Some("acme".to_owned()), ..ready("tenant", 0) },
        Task { workspace_host: Some(HostName::new("there")), ..ready("elsewhere", 0) },
        Task { wake_at: Some(BEGINNING), ..ready("guarded", 9) },
        Task { status: Status::Todo, ..ready("todo", 9) },
        Task { status: Status::Review, reviewer: Some(profile("ada")), ..task("review") },
        task("nobody's"),
    ];
    add_all(&place, &tasks).await;
    let mut read = place.read().await.unwrap();
    let queue = read.queue(&lane("ada", "", ""), 9).await.unwrap();
    assert_eq!(titles(&queue), ["high", "a", "b", "review", "low"]);
    let queue = read.queue(&lane("ada", "", ""), 2).await.unwrap();
    assert_eq!(titles(&queue), ["high", "a"]);
    let queue = read.queue(&lane("ada", "acme", ""), 9).await.unwrap();
    assert_eq!(titles(&queue), ["tenant"]);
    let queue = read.queue(&lane("ada", "", "there"), 9).await.unwrap();
    assert_eq!(titles(&queue), ["elsewhere"]);
    let queue = read.queue(&lane("", "", ""), 9).await.unwrap();
    assert_eq!(titles(&queue), ["nobody's"]);
    assert_eq!(titles(&read.queue(&lane("grace", "", ""), 9).await.unwrap()), [""; 0]);
}

#[tokio::test]
async fn tasks_come_due_when_their_moment_has_come() {
    let place = place().await;
    let at = |title: &str, seconds, status| Task {
        status,
        wake_at: Some(BEGINNING.after(Duration::from_secs(seconds))),
        ..task(title)
    };
    let tasks = [
        at("late", 20, Status::Scheduled),
        at("soon", 10, Status::Blocked),
        at("guarded", 15, Status::Ready),
        task("never"),
    ];
    add_all(&place, &tasks).await;
    assert_eq!(titles(&place.read().await.unwrap().due(9).await.unwrap()), [""; 0]);
    let moment = place.read().await.unwrap().next_moment().await.unwrap();
    assert_eq!(moment, Some(BEGINNING.after(Duration::from_secs(10))));
    place.advance(Duration::from_secs(15));
    let mut read = place.read().await.unwrap();
    assert_eq!(titles(&read.due(9).await.unwrap()), ["soon", "guarded"]);
    assert_eq!(titles(&read.due(1).await.unwrap()), ["soon"]);
    assert_eq!(titles(&read.guarded(9).await.unwrap()), ["guarded"]);
}

#[tokio::test]
async fn the_next_moment_may_be_the_end_of_a_lease() {
    let place = place().await;
    assert_eq!(place.read().await.unwrap().next_moment().await.unwrap(), None);
    let work = task("work");
    add_all(&place, std::slice::from_ref(&work)).await;
    let mut write = place.write().await.unwrap();
    let open = Run { expires_at: Time::from_millis(7), ..run(&work.id) };
    let ended = Run {
        expires_at: Time::from_millis(5),
        ended_at: Some(BEGINNING),
        gone: false,
        ..run(&work.id)
    };
    write.insert_run(&open).await.unwrap();
    write.insert_run(&ended).await.unwrap();
    assert_eq!(write.next_moment().await.unwrap(), Some(Time::from_millis(7)));
}

#[tokio::test]
async fn running_tasks_are_those_that_are_worked_on() {
    let place = place().await;
    let calm = Task { status: Status::Running, ..task("calm") };
    let odd = Task {
        attention: Some("odd".to_owned()),
        ..Task { status: Status::Running, ..task("odd") }
    };
    add_all(&place, &[task("ready"), calm.clone(), odd]).await;
    assert_eq!(titles(&place.read().await.unwrap().running().await.unwrap()), ["calm", "odd"]);
    change(&place, &calm, &Task { status: Status::Done, ..calm.clone() }).await;
    assert_eq!(titles(&place.read().await.unwrap().running().await.unwrap()), ["odd"]);
}

#[tokio::test]
async fn tasks_are_counted_by_status_and_assignee() {
    let place = place().await;
    let ada = |status| Task { status, assignee: Some(profile("ada")), ..task("hers") };
    let noticed = Task { attention: Some("look".to_owned()), ..ada(Status::Done) };
    add_all(
        &place,
        &[ada(Status::Ready), ada(Status::Done), noticed, task("nobody's"), ada(Status::Archived)],
    )
    .await;
    let counts = place.read().await.unwrap().counts().await.unwrap();
    let ada = Some("ada".to_owned());
    assert_eq!(
        counts,
        [
            (Status::Ready, None, 1),
            (Status::Ready, ada.clone(), 1),
            (Status::Done, ada.clone(), 2),
            (Status::Archived, ada, 1),
        ]
    );
}

#[tokio::test]
async fn the_oldest_in_the_queue_is_known() {
    let place = place().await;
    assert_eq!(place.read().await.unwrap().oldest_queued().await.unwrap(), None);
    let since = |title: &str, millis, status| Task {
        queued_at: Some(Time::from_millis(millis)),
        status,
        ..task(title)
    };
    let tasks = [
        since("new", 9, Status::Ready),
        since("old", 5, Status::Ready),
        since("done", 1, Status::Done),
    ];
    add_all(&place, &tasks).await;
    let oldest = place.read().await.unwrap().oldest_queued().await.unwrap();
    assert_eq!(oldest, Some(Time::from_millis(5)));
}

#[tokio::test]
async fn tasks_that_were_blocked_long_ago_and_often_are_found() {
    let place = place().await;
    let at = |seconds| BEGINNING.after(Duration::from_secs(seconds));
    let blocked = |title: &str, seconds| Task {
        status: Status::Blocked,
        updated_at: at(seconds),
        ..task(title)
    };
    let tasks = [
        blocked("new", 30),
        blocked("old", 20),
        Task { attention: Some("look".to_owned()), ..blocked("older", 10) },
        task("ready"),
    ];
    add_all(&place, &tasks).await;
    let mut write = place.write().await.unwrap();
    for (task, times) in [(&tasks[0], 1), (&tasks[1], 3)] {
        for _ in 0..times {
            let event = NewTaskEvent {
                task: task.id.clone(),
                run: None,
                kind: Kind::Blocked,
                payload: serde_json::json!({}),
            };
            write.add_events(&[event]).await.unwrap();
        }
    }
    write.commit().await.unwrap();
    let mut read = place.read().await.unwrap();
    assert_eq!(titles(&read.blocked_before(at(20), 9).await.unwrap()), ["older", "old"]);
    let often = read.blocked_repeatedly(BEGINNING, 2, 9).await.unwrap();
    assert_eq!(often, [(tasks[1].id.clone(), 3)]);
    assert_eq!(read.blocked_repeatedly(at(1), 2, 9).await.unwrap(), []);
}
