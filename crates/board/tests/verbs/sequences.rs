//! Random sequences of verbs by random people and workers: the board does what
//! the model does, and its counts are right after each step.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError};
use vestal_board::dispatch::FailurePolicy;
use vestal_board::testing::{TestBoard, profile};
use vestal_board::verbs::steps;
use vestal_board::{
    Authority, Block, BlockKind, Fence, Initial, LaneShare, NewTask, Outcome, Promotion, Role,
    RunId, Status, TaskId, Time,
};

use crate::model::{Model, Verb, Who};
use crate::support::{all_gone, ann, claim, dispatcher, done, ended, everything, place, titled};

/// Stands for a moment that is an hour away when its step comes.
const NEVER: Time = Time::from_millis(0);

#[derive(Debug, Clone)]
enum Step {
    Create { parents: Vec<usize>, initial: Initial, needs_review: bool },
    Do { who: Who, verb: Verb, task: usize },
    Link { parent: usize, child: usize },
    Unlink { parent: usize, child: usize },
    Wake,
}

fn verb() -> impl Strategy<Value = Verb> {
    let kind = prop::sample::select(vec![
        None,
        Some(BlockKind::NeedsInput),
        Some(BlockKind::Capability),
        Some(BlockKind::Transient),
        Some(BlockKind::Dependency),
        Some(BlockKind::Gate),
        Some(BlockKind::GaveUp),
    ]);
    prop_oneof![
        6 => Just(Verb::Claim),
        3 => Just(Verb::Complete),
        2 => Just(Verb::Submit),
        2 => Just(Verb::RequestChanges),
        5 => kind.prop_map(Verb::Block),
        2 => any::<bool>().prop_map(Verb::Schedule),
        3 => Just(Verb::Unblock),
        2 => any::<bool>().prop_map(Verb::Promote),
        1 => Just(Verb::Reclaim),
        2 => Just(Verb::Reopen),
        1 => Just(Verb::Archive),
        1 => Just(Verb::Delete),
        1 => Just(Verb::Assign),
        3 => Just(Verb::Crash),
        1 => Just(Verb::TakeBack),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let task = 0..6_usize;
    let who = prop_oneof![
        6 => Just(Who::Person),
        3 => Just(Who::Holder),
        2 => Just(Who::Dispatcher),
        1 => Just(Who::Stale),
    ];
    let initial = prop_oneof![
        6 => Just(Initial::Queue),
        1 => Just(Initial::Blocked),
        1 => Just(Initial::Triage),
        1 => Just(Initial::At(NEVER)),
    ];
    let parents = prop::collection::vec(task.clone(), 0..3);
    prop_oneof![
        2 => (parents, initial, any::<bool>())
            .prop_map(|(parents, initial, needs_review)| Step::Create { parents, initial, needs_review }),
        12 => (who, verb(), task.clone()).prop_map(|(who, verb, task)| Step::Do { who, verb, task }),
        2 => (task.clone(), task.clone()).prop_map(|(parent, child)| Step::Link { parent, child }),
        1 => (task.clone(), task).prop_map(|(parent, child)| Step::Unlink { parent, child }),
        1 => Just(Step::Wake),
    ]
}

/// A board, and what the model thinks of it.
struct Pair {
    place: TestBoard,
    model: Model,
    /// In the order in which they were made.
    names: Vec<TaskId>,
}

impl Pair {
    fn name(&self, index: usize) -> Option<TaskId> {
        (!self.names.is_empty()).then(|| self.names[index % self.names.len()].clone())
    }

    fn authority(&self, who: Who, id: &TaskId) -> Authority {
        let known = &self.model.tasks[id];
        let run = match who {
            Who::Person => return ann(),
            Who::Dispatcher => return dispatcher(),
            Who::Holder => known.runs.last(),
            Who::Stale => known.runs.iter().rev().nth(1),
        };
        let run = run.copied().unwrap_or(RunId::new(1_000_000));
        Authority::Worker(Fence { task: id.clone(), run, profile: profile("alpha") })
    }

    async fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Create { parents, initial, needs_review } => {
                let parents: BTreeSet<TaskId> =
                    parents.iter().filter_map(|index| self.name(*index)).collect();
                let soon = self.place.clock().now().after(Duration::from_hours(1));
                let new = NewTask {
                    parents: parents.iter().cloned().collect(),
                    initial: if *initial == Initial::At(NEVER) {
                        Initial::At(soon)
                    } else {
                        *initial
                    },
                    needs_review: *needs_review,
                    ..titled("t")
                };
                let id = self.place.create(&ann(), new).await.unwrap().task.id;
                self.model.create(&id, parents, *initial, *needs_review);
                self.names.push(id);
            }
            Step::Do { who, verb, task } => {
                if let Some(id) = self.name(*task) {
                    self.act(*who, *verb, &id).await?;
                }
            }
            Step::Link { parent, child } | Step::Unlink { parent, child } => {
                let (Some(parent), Some(child)) = (self.name(*parent), self.name(*child)) else {
                    return Ok(());
                };
                let (wanted, got) = if matches!(step, Step::Link { .. }) {
                    let got = self.place.link(&ann(), &parent, &child).await.is_ok();
                    (self.model.link(&parent, &child), got)
                } else {
                    let got = self.place.unlink(&ann(), &parent, &child).await.is_ok();
                    (self.model.unlink(&parent, &child), got)
                };
                prop_assert_eq!(got, wanted, "{:?} was allowed or not", step);
            }
            Step::Wake => {
                self.place.advance(Duration::from_hours(24));
                let mut tx = self.place.write().await.unwrap();
                for task in tx.due(100).await.unwrap() {
                    steps::wake_in(&mut *tx, &dispatcher(), &task.id).await.unwrap();
                }
                prop_assert_eq!(tx.due(100).await.unwrap(), vec![], "nothing stays due");
                tx.commit().await.unwrap();
                self.model.wake();
            }
        }
        Ok(())
    }

    async fn act(&mut self, who: Who, verb: Verb, id: &TaskId) -> Result<(), TestCaseError> {
        let by = self.authority(who, id);
        let reviewing = self.model.tasks[id].status == Status::Review;
        // Runs are ended by their watcher, whose name is not recorded.
        let who = if matches!(verb, Verb::Crash | Verb::TakeBack) { Who::Person } else { who };
        let result = self.ask(&by, verb, id, reviewing).await;
        let wanted = self.model.does(who, verb, id);
        let got = result.as_ref().map(|_| ()).map_err(ToString::to_string);
        prop_assert_eq!(got.is_ok(), wanted, "{:?} {:?}: {:?}", who, verb, got);
        if verb == Verb::Delete && wanted {
            self.names.retain(|name| name != id);
        }
        if let Ok(Some(run)) = result {
            let known = self.model.tasks.get_mut(id).unwrap();
            known.holder = Some(run);
            known.runs.push(run);
        }
        Ok(())
    }

    async fn ask(
        &self,
        by: &Authority,
        verb: Verb,
        id: &TaskId,
        reviewing: bool,
    ) -> vestal_board::Result<Option<RunId>> {
        let place = &self.place;
        let at = place.clock().now().after(Duration::from_hours(1));
        let role = if reviewing { Role::Review } else { Role::Work };
        let end = |outcome| async move {
            let holder = self.model.tasks[id].holder;
            let run = holder.unwrap_or(RunId::new(1_000_000));
            place.end_run(run, ended(outcome), &FailurePolicy::default()).await.map(drop)
        };
        match verb {
            Verb::Claim => {
                return place.claim(by, id, claim(place, role)).await.map(|run| Some(run.id));
            }
            Verb::Complete => place.complete(by, id, done("done")).await.map(drop)?,
            Verb::Submit => place.submit(by, id, done("done")).await.map(drop)?,
            Verb::RequestChanges => place.request_changes(by, id, "more").await.map(drop)?,
            Verb::Block(kind) => {
                let block = Block { reason: "r".to_owned(), kind };
                place.block(by, id, block).await.map(drop)?;
            }
            Verb::Schedule(timed) => {
                place.schedule(by, id, "later", timed.then_some(at)).await.map(drop)?;
            }
            Verb::Unblock => place.unblock(by, id, None).await.map(drop)?,
            Verb::Promote(force) => {
                let promotion = Promotion { force, ..Promotion::default() };
                place.promote(by, id, promotion).await.map(drop)?;
            }
            Verb::Reclaim => place.reclaim(by, id, "").await.map(drop)?,
            Verb::Reopen => place.reopen(by, id, "").await.map(drop)?,
            Verb::Archive => place.archive(by, id).await.map(drop)?,
            Verb::Delete => place.delete(by, id).await?,
            Verb::Assign => place.assign(by, id, Some(profile("beta"))).await.map(drop)?,
            Verb::Crash => end(Outcome::Crashed).await?,
            Verb::TakeBack => end(Outcome::Reclaimed).await?,
        }
        Ok(None)
    }

    /// Holds the board against the model.
    async fn check(&self) -> Result<(), TestCaseError> {
        all_gone(&self.place).await;
        let tasks = everything(&self.place).await;
        prop_assert_eq!(tasks.len(), self.model.tasks.len());
        let mut lanes: BTreeMap<_, [u64; 3]> = BTreeMap::new();
        for task in &tasks {
            let known = &self.model.tasks[&task.id];
            let id = &task.id;
            prop_assert_eq!(task.status, known.status, "status of {}", id);
            prop_assert_eq!(task.gate, known.gate, "gate of {}", id);
            prop_assert_eq!(task.wake_at.is_some(), known.timed, "moment of {}", id);
            prop_assert_eq!(task.current_run, known.holder, "holder of {}", id);
            let pending = usize::try_from(task.pending_parents).unwrap();
            prop_assert_eq!(pending, self.model.pending(id), "parents of {}", id);
            if let Some((key, share)) = task.lane_share() {
                let slot = match share {
                    LaneShare::Queued => 0,
                    LaneShare::Guarded => 1,
                    LaneShare::Running => 2,
                };
                lanes.entry(key).or_default()[slot] += 1;
            }
        }
        let mut tx = self.place.read().await.unwrap();
        let counted: BTreeMap<_, [u64; 3]> = tx
            .lanes()
            .await
            .unwrap()
            .into_iter()
            .map(|lane| (lane.key, [lane.queued, lane.guarded, lane.running]))
            .collect();
        prop_assert_eq!(counted, lanes, "the lanes are counted right");
        let open: BTreeSet<RunId> =
            tx.live_runs().await.unwrap().into_iter().map(|run| run.id).collect();
        let held: BTreeSet<RunId> = tasks.iter().filter_map(|task| task.current_run).collect();
        let running = tasks.iter().filter(|task| task.status == Status::Running).count();
        prop_assert_eq!(held.len(), running, "each running task has a run of its own");
        prop_assert_eq!(open, held, "a run is open while it holds its task, and not after");
        Ok(())
    }
}

proptest! {
    #![proptest_config(Config { cases: 64, failure_persistence: None, ..Config::default() })]

    #[test]
    fn the_board_does_what_the_model_does(steps in prop::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut pair =
                Pair { place: place().await, model: Model::default(), names: Vec::new() };
            for _ in 0..2 {
                let new = Step::Create {
                    parents: Vec::new(), initial: Initial::Queue, needs_review: false,
                };
                pair.step(&new).await?;
            }
            for step in &steps {
                pair.step(step).await?;
                pair.check().await?;
            }
            Ok::<(), TestCaseError>(())
        })?;
    }
}
