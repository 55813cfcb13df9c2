//! A home with boards, dispatchers in it, and workers that do what the bodies of
//! their tasks say.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use vestal_board::boards::{Boards, Make, Slug};
use vestal_board::dispatch::{Backoff, Caps, DispatchPolicy, FailurePolicy, Shown};
use vestal_board::store::Durability;
use vestal_board::{
    Authority, Board, HostId, HostName, LogPolicy, NewTask, Outcome, Run, Status, Task, TaskId,
    log_path,
};
use vestal_config::{Environment, ProfileName};
use vestal_dispatcher::{
    DispatchEvent, Dispatcher, DispatcherOptions, GcPolicy, OpenBoards, ProgramLauncher,
};
use vestal_process::{EndTimeouts, ProcessId, start_time};
use vestal_testkit::processes::with_variable;
use vestal_testkit::programs::RunningProgram;
use vestal_testkit::{until, wait_until};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_board-worker");
/// Longer than anything takes on a slow machine.
const LONG: Duration = Duration::from_mins(1);

pub(crate) struct DispatcherFixture {
    dir: tempfile::TempDir,
    pub(crate) board: Board,
    pub(crate) boards: Boards,
}

pub(crate) fn person() -> Authority {
    Authority::Person("user".to_owned())
}

impl DispatcherFixture {
    pub(crate) async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let host = HostId::this(HostName::new("one")).unwrap();
        let root = dir.path().canonicalize().unwrap();
        let boards = Boards::at(root.join("kanban"), host, Durability::Normal);
        let board = boards.open(&Slug::default_board(), Make::IfMissing).await.unwrap();
        Self { dir, board, boards }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// Makes a task whose worker does what the lines say.
    pub(crate) async fn task(&self, lines: &[&str]) -> TaskId {
        self.task_with(lines, |_| {}).await
    }

    pub(crate) async fn task_with(
        &self,
        lines: &[&str],
        with: impl FnOnce(&mut NewTask),
    ) -> TaskId {
        let mut new = NewTask {
            title: "a task".to_owned(),
            body: lines.join("\n"),
            assignee: Some(ProfileName::new("ada").unwrap()),
            ..NewTask::default()
        };
        with(&mut new);
        self.board.create(&person(), new).await.unwrap().task.id
    }

    pub(crate) fn policy(&self) -> DispatchPolicy {
        DispatchPolicy {
            host: self.boards.host().clone(),
            caps: Caps::default(),
            default_assignee: None,
            lease: LONG,
            stale_after: None,
            failures: FailurePolicy {
                backoff: Backoff { first: LONG, most: LONG },
                ..FailurePolicy::default()
            },
            shown: Shown::First(100),
        }
    }

    pub(crate) fn environment() -> Environment {
        Environment::from_pairs([
            ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ("OPENAI_API_KEY", "the-dispatchers-secret"),
            ("CHOSEN", "passed on"),
        ])
    }

    pub(crate) fn launcher(&self) -> ProgramLauncher {
        ProgramLauncher {
            program: PROGRAM.into(),
            root: self.root(),
            environment: Self::environment(),
            passthrough: vec!["CHOSEN".to_owned()],
            log: LogPolicy::default(),
        }
    }

    pub(crate) fn options(&self, printed: &EventLog) -> DispatcherOptions {
        let printed = printed.clone();
        DispatcherOptions {
            lock: self.path("kanban/dispatch.lock"),
            policy: self.policy(),
            room: None,
            launcher: Arc::new(self.launcher()),
            profiles: Arc::new(|| BTreeSet::from(["ada".to_owned()])),
            environment: Self::environment(),
            timeouts: EndTimeouts { grace: Duration::from_millis(100), kill: LONG },
            interval: LONG,
            retention: None,
            on_event: Arc::new(move |what| printed.0.lock().unwrap().push(what)),
        }
    }

    pub(crate) fn gc_policy() -> GcPolicy {
        GcPolicy {
            retention: vestal_board::store::Retention {
                events: LONG,
                events_per_task: 50,
                runs_per_task: 20,
            },
            logs: Some(Duration::from_hours(24)),
            trees: Duration::ZERO,
            environment: Self::environment(),
            dry_run: false,
        }
    }

    /// Returns a dispatcher that is asked once at a time.
    pub(crate) fn dispatcher(
        &self,
        with: impl FnOnce(&mut DispatcherOptions),
    ) -> (Dispatcher, EventLog) {
        let heard = EventLog::default();
        let mut options = self.options(&heard);
        with(&mut options);
        (Dispatcher::new(options), heard)
    }

    /// Starts a dispatcher that watches.
    pub(crate) fn watch(&self, with: impl FnOnce(&mut DispatcherOptions)) -> Watching {
        let (dispatcher, heard) = self.dispatcher(with);
        let open = OpenBoards::new(self.boards.clone(), None);
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let shutdown = async {
                stopped.await.ok();
            };
            dispatcher.watch(&open, shutdown).await.unwrap();
        });
        Watching { stop: Some(stop), task: Some(task), heard }
    }

    /// Starts a dispatcher as a process of its own, and returns once it is up.
    pub(crate) fn process(&self, arguments: &[&str], failpoint: Option<&str>) -> RunningProgram {
        let mut command = Command::new(PROGRAM);
        command
            .args(["dispatch", "--root"])
            .arg(self.root())
            .args(arguments)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .stdin(Stdio::null());
        if let Some(failpoint) = failpoint {
            command.env("VESTAL_FAILPOINT", failpoint);
        }
        for (flag, value) in [
            ("--host", "one"),
            ("--lock", "dispatch.lock"),
            ("--lease", "60000"),
            ("--grace", "100"),
            ("--interval", "60000"),
        ] {
            if !arguments.contains(&flag) {
                command.args([flag, value]);
            }
        }
        let mut dispatcher = RunningProgram::start(command);
        assert_eq!(dispatcher.line(), "up");
        dispatcher.discard_output();
        dispatcher
    }

    pub(crate) async fn get(&self, id: &TaskId) -> Task {
        self.board.get(id).await.unwrap()
    }

    pub(crate) async fn runs(&self, id: &TaskId) -> Vec<Run> {
        self.board.read().await.unwrap().runs(id, 100).await.unwrap()
    }

    pub(crate) async fn events(&self, id: &TaskId) -> Vec<String> {
        let events = self.board.read().await.unwrap().events(id, 1000).await.unwrap();
        events.into_iter().map(|event| event.kind).collect()
    }

    /// Waits until something is true of a task and its runs; each change of the
    /// board is a moment to look.
    pub(crate) async fn until(
        &self,
        id: &TaskId,
        what: &str,
        is: impl Fn(&Task, &[Run]) -> bool,
    ) -> (Task, Vec<Run>) {
        let mut changes = self.board.changes().unwrap();
        let looked = async {
            loop {
                let (task, runs) = (self.get(id).await, self.runs(id).await);
                if is(&task, &runs) {
                    return (task, runs);
                }
                changes.next().await.unwrap();
            }
        };
        match tokio::time::timeout(LONG, looked).await {
            Ok(found) => found,
            Err(_) => {
                let (task, runs) = (self.get(id).await, self.runs(id).await);
                let (events, log) = (self.events(id).await, self.log(id));
                panic!("not {what}: {task:?}\n{runs:?}\n{events:?}\n{log}")
            }
        }
    }

    /// Waits until the worker of a task was started, and returns its run.
    pub(crate) async fn until_running(&self, id: &TaskId) -> Run {
        let started = |_: &Task, runs: &[Run]| {
            runs.last().is_some_and(|run| run.is_open() && run.process.is_some())
        };
        self.until(id, "running", started).await.1.pop().unwrap()
    }

    /// Waits until the last run of a task ended so, with proof.
    pub(crate) async fn until_ended(&self, id: &TaskId, outcome: Outcome) -> Run {
        let ended = |_: &Task, runs: &[Run]| {
            runs.last().is_some_and(|run| run.outcome == Some(outcome) && run.gone)
        };
        self.until(id, &format!("ended as {outcome}"), ended).await.1.pop().unwrap()
    }

    pub(crate) async fn until_status(&self, id: &TaskId, status: Status) -> Task {
        self.until(id, status.as_str(), |task, _| task.status == status).await.0
    }

    pub(crate) fn log(&self, id: &TaskId) -> String {
        fs::read_to_string(log_path(self.board.dir(), id)).unwrap_or_default()
    }
}

/// Starts a process that locks a file and stops.
pub(crate) fn hold_lock(path: &Path) -> RunningProgram {
    let mut command = Command::new(PROGRAM);
    command.arg("hold-lock").arg(path).env_clear();
    let holder = RunningProgram::start(command);
    wait_until("it has the lock", || vestal_process::is_stopped(holder.pid()));
    holder
}

/// Waits for a file that a worker writes, and returns what is in it.
pub(crate) async fn until_file(path: &Path) -> String {
    let text = || fs::read_to_string(path).unwrap_or_default();
    until(&format!("{} is written", path.display()), || text().ends_with('\n')).await;
    text()
}

pub(crate) fn is_alive(run: &Run) -> bool {
    let process = run.process.as_ref().unwrap();
    start_time(process.pid) == Some(process.start)
}

pub(crate) fn kill(run: &Run) {
    let process = run.process.as_ref().unwrap();
    let id = ProcessId {
        pid: process.pid,
        start: process.start,
        boot: vestal_process::boot_id().unwrap(),
    };
    id.handle().unwrap().unwrap().kill().unwrap();
}

fn wait<T>(what: impl Future<Output = T>) -> T {
    tokio::task::block_in_place(|| Handle::current().block_on(what))
}

/// Ends whatever workers are left, however a test ends.
impl Drop for DispatcherFixture {
    fn drop(&mut self) {
        let mark = format!("VESTAL_HOME={}", self.root().display());
        for pid in with_variable(&mark) {
            if let Ok(Some(process)) = ProcessId::of_child(pid)
                && let Ok(Some(handle)) = process.handle()
            {
                handle.kill().ok();
                // What it writes in its last moment would stay.
                wait(handle.ended_within(LONG)).ok();
            }
        }
    }
}

/// What a dispatcher said.
#[derive(Clone, Default)]
pub(crate) struct EventLog(Arc<Mutex<Vec<DispatchEvent>>>);

impl EventLog {
    pub(crate) fn all(&self) -> Vec<DispatchEvent> {
        self.0.lock().unwrap().clone()
    }
}

/// A dispatcher that watches.
pub(crate) struct Watching {
    stop: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<()>>,
    pub(crate) heard: EventLog,
}

impl Watching {
    /// Tells it to end, and waits for that.
    pub(crate) async fn end(mut self) {
        self.stop.take().unwrap().send(()).unwrap();
        self.task.take().unwrap().await.unwrap();
    }
}

/// Waits for the end: a launch that is under way would write below the home
/// while that is removed.
impl Drop for Watching {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(task) = self.task.take() {
            wait(task).ok();
        }
    }
}
