//! A board with a task on it, and a worker for it that is a real process.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use vestal_board::boards::{Boards, Slug};
use vestal_board::store::Durability;
use vestal_board::{
    Authority, Board, Claim, HostId, HostName, NewTask, Role, Run, RunId, Task, TaskId, TaskSheet,
    log_path,
};
use vestal_config::ProfileName;
use vestal_scripted_model::{Script, ScriptedModel, ScriptedReply};
use vestal_testkit::files::{Fifo, entries};
use vestal_testkit::is_alive;

use crate::chat::fixture::ChatFixture;
use crate::support::{ProgramFixture, ProgramOutcome, TEST_TIMEOUT, finish};

/// A board, and a model that is asked by those who work on it.
pub(super) struct WorkerFixture {
    pub(super) chat: ChatFixture,
    pub(super) board: Board,
    runtime: tokio::runtime::Runtime,
}

impl WorkerFixture {
    /// Returns a fixture whose model says this, and nothing else.
    pub(super) fn replies(replies: impl IntoIterator<Item = ScriptedReply>) -> Self {
        Self::new(Script::replies(replies).strict())
    }

    pub(super) fn new(script: Script) -> Self {
        Self::of(ChatFixture::new(script))
    }

    /// Returns a fixture in a home that was prepared.
    pub(super) fn with_fixture(
        fixture: ProgramFixture,
        replies: impl IntoIterator<Item = ScriptedReply>,
    ) -> Self {
        let model = ScriptedModel::start(Script::replies(replies).strict());
        Self::of(ChatFixture { fixture, model })
    }

    fn of(chat: ChatFixture) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let host = HostId::this(HostName::of_this_machine()).unwrap();
        let boards = Boards::at(chat.fixture.home().join("kanban"), host, Durability::Normal);
        let board = runtime.block_on(boards.open_to_write(&Slug::default_board())).unwrap();
        Self { chat, board, runtime }
    }

    pub(super) fn on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    /// Puts a task on the board.
    pub(super) fn task(&self, new: NewTask) -> TaskId {
        let by = Authority::Person("user".to_owned());
        self.on(self.board.create(&by, new)).unwrap().task.id
    }

    /// Puts a task on the board that any worker can do.
    pub(super) fn some_task(&self) -> TaskId {
        self.task(some())
    }

    /// Takes a task for a worker of the profile `default`.
    pub(super) fn claim(&self, task: &TaskId, role: Role) -> RunId {
        // As a dispatcher would: workers that are not there any more are gone.
        for run in self.show(task).runs.iter().filter(|run| !run.is_open() && !run.gone) {
            if run.process.as_ref().is_none_or(|process| !is_alive(process.pid)) {
                self.on(self.board.run_gone(run.id)).unwrap();
            }
        }
        self.claim_on(self.board.host().clone(), task, role)
    }

    /// Takes a task for a worker of the profile `default` on a host.
    pub(super) fn claim_on(&self, host: HostId, task: &TaskId, role: Role) -> RunId {
        let claim = Claim {
            lease: Duration::from_mins(2),
            profile: Some(ProfileName::default_profile()),
            role,
            host: Some(host.clone()),
        };
        self.on(self.board.claim(&Authority::Dispatcher(host.name), task, claim)).unwrap().id
    }

    /// Returns the worker of a run, not started yet.
    pub(super) fn worker(&self, task: &TaskId, run: RunId) -> Command {
        let run = run.to_string();
        let words = ["kanban", "worker", "--task", task.as_str(), "--run", run.as_str()];
        let mut command = self.chat.command(words);
        // What sandboxes are in this fixture they are for the worker, too.
        command.envs(self.chat.fixture.environment());
        command
    }

    /// Has a worker work on a task to its end.
    pub(super) fn work(&self, task: &TaskId) -> ProgramOutcome {
        let run = self.claim(task, Role::Work);
        finish(self.worker(task, run).spawn().unwrap())
    }

    /// Cleans up behind a worker that is gone.
    pub(super) fn sweep(&self, task: &TaskId, run: RunId) -> ProgramOutcome {
        let mut command = self.worker(task, run);
        command.arg("--sweep");
        finish(command.spawn().unwrap())
    }

    pub(super) fn get(&self, task: &TaskId) -> Task {
        self.on(self.board.get(task)).unwrap()
    }

    pub(super) fn show(&self, task: &TaskId) -> TaskSheet {
        self.on(self.board.show(task)).unwrap()
    }

    pub(super) fn last_run(&self, task: &TaskId) -> Run {
        self.show(task).runs.pop().unwrap()
    }

    pub(super) fn log(&self, task: &TaskId) -> String {
        std::fs::read_to_string(log_path(self.board.dir(), task)).unwrap()
    }

    /// Returns the scratch places there are, of all sandboxes.
    pub(super) fn scratch_places(&self) -> Vec<PathBuf> {
        let sandboxes = entries(&self.chat.fixture.home().join("sandboxes"));
        sandboxes.iter().flat_map(|dir| entries(&dir.join("workspace/kanban"))).collect()
    }

    /// Returns the jobs that run in all sandboxes.
    pub(super) fn running_jobs(&self) -> Value {
        self.chat.vestal(["jobs", "--json"]).exits(0).json()
    }

    /// Makes a pipe in the directory that tests look at.
    pub(super) fn pipe(&self, name: &str) -> Fifo {
        Fifo::create(self.chat.fixture.work().join(name))
    }

    /// Waits until a run is as it should be.
    pub(super) fn until(&self, task: &TaskId, is_so: impl Fn(&Run) -> bool) -> Run {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            let run = self.last_run(task);
            if is_so(&run) {
                return run;
            }
            assert!(Instant::now() < deadline, "{run:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A task for the profile `default`.
pub(super) fn some() -> NewTask {
    NewTask {
        title: "Write the report".to_owned(),
        body: "Two pages.".to_owned(),
        assignee: Some(ProfileName::default_profile()),
        ..NewTask::default()
    }
}

pub(super) fn complete() -> ScriptedReply {
    ScriptedReply::tool_call("kanban_complete", json!({"summary": "It is written."}))
}
