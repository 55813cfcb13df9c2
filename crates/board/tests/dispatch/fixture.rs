//! A board, the profiles there are, and a dispatcher whose workers are made up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use vestal_board::dispatch::{
    BoardSnapshot, Caps, DispatchPlan, DispatchPolicy, DispatchView, FailurePolicy, Liveness,
    OutsideLoad, Repair, Shown, plan,
};
use vestal_board::testing::TestBoard;
use vestal_board::verbs::steps;
use vestal_board::{
    Authority, Claim, Fence, NewTask, Run, RunEnd, RunId, RunProcess, Task, TaskId, settings,
};
use vestal_config::{Environment, Home, Override, ProfileName, Settings};

pub(crate) struct LanesFixture {
    pub(crate) place: TestBoard,
    profiles: BTreeSet<String>,
    /// What becomes of workers; those that are not named live.
    lives: Mutex<BTreeMap<RunId, Liveness>>,
}

pub(crate) fn person() -> Authority {
    Authority::Person("user".to_owned())
}

pub(crate) fn profile(name: &str) -> ProfileName {
    ProfileName::new(name).unwrap()
}

impl LanesFixture {
    /// Returns an empty board with these profiles.
    pub(crate) async fn with(profiles: &[&str]) -> Self {
        Self {
            place: TestBoard::new(tempfile::tempdir().unwrap()).await.unwrap(),
            profiles: profiles.iter().map(|&name| name.to_owned()).collect(),
            lives: Mutex::new(BTreeMap::new()),
        }
    }

    /// Returns a policy without caps.
    pub(crate) fn policy(&self) -> DispatchPolicy {
        DispatchPolicy {
            host: self.place.host().clone(),
            caps: Caps::default(),
            default_assignee: None,
            lease: std::time::Duration::from_mins(15),
            stale_after: None,
            failures: FailurePolicy::default(),
            shown: Shown::First(100),
        }
    }

    /// Returns the policy of these settings, and what is said about them. The
    /// cap of the host is out of the way: it depends on the machine.
    pub(crate) fn configured(&self, kanban: &str) -> (DispatchPolicy, Vec<String>) {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("config.yaml"), format!("kanban:\n{kanban}")).unwrap();
        let none: [(&str, &str); 0] = [];
        let environment = Environment::from_pairs(none);
        let host_cap =
            Override::parse(&vestal_board::schema(), "kanban.max_in_progress_per_host=1000")
                .unwrap();
        let settings = Settings::load(
            &vestal_board::schema(),
            Home::at(home.path()),
            environment,
            vec![host_cap],
        );
        settings::policy(&settings, self.place.host().clone()).unwrap()
    }

    /// Makes a task.
    pub(crate) async fn task(&self, assignee: &str) -> TaskId {
        self.task_with(assignee, |_| {}).await
    }

    /// Makes a task with something special about it.
    pub(crate) async fn task_with(
        &self,
        assignee: &str,
        with: impl FnOnce(&mut NewTask),
    ) -> TaskId {
        let assignee = (!assignee.is_empty()).then(|| profile(assignee));
        let mut new = NewTask { title: "a task".to_owned(), assignee, ..NewTask::default() };
        with(&mut new);
        self.place.create(&person(), new).await.unwrap().task.id
    }

    /// Makes many tasks.
    pub(crate) async fn tasks(&self, assignee: &str, count: usize) -> Vec<TaskId> {
        let assignee = (!assignee.is_empty()).then(|| profile(assignee));
        let new = NewTask { title: "a task".to_owned(), assignee, ..NewTask::default() };
        let created = self.place.create_many(&person(), vec![new; count]).await.unwrap();
        created.into_iter().map(|created| created.task.id).collect()
    }

    pub(crate) async fn get(&self, id: &TaskId) -> Task {
        self.place.get(id).await.unwrap()
    }

    /// Returns the names of a task's events.
    pub(crate) async fn events(&self, id: &TaskId) -> Vec<String> {
        let mut read = self.place.read().await.unwrap();
        let events = read.events(id, 1_000).await.unwrap();
        events.into_iter().map(|event| event.kind).collect()
    }

    /// Says what becomes of a worker.
    pub(crate) fn worker(&self, run: RunId, life: Liveness) {
        self.lives.lock().unwrap_or_else(PoisonError::into_inner).insert(run, life);
    }

    /// Says that the worker of a task ended with an exit code.
    pub(crate) async fn worker_of_ended(&self, id: &TaskId, code: i32) {
        let run = self.get(id).await.current_run.unwrap();
        self.worker(run, Liveness::Gone { code: Some(code) });
    }

    fn life(&self, run: &Run) -> Liveness {
        let known = self.lives.lock().unwrap_or_else(PoisonError::into_inner);
        let otherwise = if run.host.is_some() { Liveness::Alive } else { Liveness::Person };
        known.get(&run.id).copied().unwrap_or(otherwise)
    }

    /// Reads the board as a dispatcher does.
    pub(crate) async fn snapshot(&self, policy: &DispatchPolicy) -> BoardSnapshot {
        let mut read = self.place.read().await.unwrap();
        let life = |run: &Run| self.life(run);
        let view = DispatchView {
            profiles: self.profiles.clone(),
            outside: OutsideLoad::default(),
            busy_elsewhere: BTreeSet::new(),
            life: &life,
        };
        BoardSnapshot::take(&mut *read, policy, view).await.unwrap()
    }

    /// Plans, and does nothing.
    pub(crate) async fn dry(&self, policy: &DispatchPolicy) -> DispatchPlan {
        plan(&self.snapshot(policy).await, policy)
    }

    /// Plans, and does what was planned, with workers that are only written down.
    pub(crate) async fn dispatch(&self, policy: &DispatchPolicy) -> DispatchPlan {
        let plan = self.dry(policy).await;
        let by = Authority::Dispatcher(policy.host.name.clone());
        let mut tx = self.place.write().await.unwrap();
        for repair in &plan.repairs {
            match repair {
                Repair::Extend { run } => {
                    assert!(steps::extend_in(&mut *tx, *run, policy.lease).await.unwrap());
                }
                Repair::Stop { run, outcome, reason } | Repair::End { run, outcome, reason } => {
                    let (outcome, error) = (*outcome, reason.clone());
                    let end = RunEnd { outcome, error, exit_code: None };
                    steps::end_run_in(&mut *tx, *run, &end, &policy.failures).await.unwrap();
                    steps::gone_in(&mut *tx, *run).await.unwrap();
                }
                Repair::Gone { run } => steps::gone_in(&mut *tx, *run).await.unwrap(),
            }
        }
        for id in &plan.wakes {
            assert!(steps::wake_in(&mut *tx, &by, id).await.unwrap().is_some());
        }
        for id in &plan.assigns {
            let to = policy.default_assignee.as_ref().unwrap();
            assert!(steps::assign_default_in(&mut *tx, &by, id, to).await.unwrap().is_some());
        }
        let mut fences = Vec::new();
        for start in &plan.starts {
            let claim = Claim {
                lease: policy.lease,
                profile: Some(start.profile.clone()),
                role: start.role,
                host: Some(policy.host.clone()),
            };
            let run = steps::claim_in(&mut *tx, &by, &start.task, &claim).await.unwrap();
            let (task, profile) = (start.task.clone(), start.profile.clone());
            fences.push(Fence { task, run: run.id, profile });
        }
        tx.commit().await.unwrap();
        for fence in &fences {
            let process = RunProcess { host: policy.host.clone(), pid: 12345, start: 1 };
            self.place.started(fence, process, "").await.unwrap();
        }
        plan
    }
}

/// Returns whose tasks are started.
pub(crate) fn started(plan: &DispatchPlan) -> Vec<&str> {
    plan.starts.iter().map(|start| start.profile.as_str()).collect()
}

/// Returns how many of them are this one's.
pub(crate) fn count(names: &[&str], name: &str) -> usize {
    names.iter().filter(|other| **other == name).count()
}

/// Returns whose tasks are held back because they are at their cap.
pub(crate) fn at_their_cap(plan: &DispatchPlan) -> Vec<&str> {
    plan.result
        .skipped_per_profile_capped
        .entries
        .iter()
        .map(|(_, name, _)| name.as_str())
        .collect()
}
