//! The board in a real browser: tasks moved by keyboard and by drag, work reviewed line by line, sent
//! back, merged.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, Command};
use vestal_board::boards::{Make, Slug};
use vestal_board::{
    Authority, Board, Fence, NewTask, TaskCompletion, TaskId, TaskWorkspace, settings,
};
use vestal_config::{Environment, Home, ProfileName, Settings};
use vestal_dashboard::gate::Right;
use vestal_dispatcher::{
    DispatchMode, Dispatcher, DispatcherOptions, LaunchError, LaunchSpec, Launched, Launcher,
    STOP_TIMEOUTS, host_lock_path,
};
use vestal_process::ProcessId;

use crate::support::DashboardFixture;
use crate::{WITHIN, browser, say};

/// Starts workers that change files of their working tree and then do nothing.
#[derive(Debug)]
struct ShellWorker(&'static str);

#[async_trait]
impl Launcher for ShellWorker {
    async fn launch(&self, spec: &LaunchSpec) -> Result<Launched, LaunchError> {
        let failed = |source| LaunchError::Program { program: "sh".into(), source };
        let tree = spec.workspace.path.clone().unwrap();
        // One whole step before the process is said to be there.
        let worked = sh(&tree, self.0);
        assert!(worked.0, "{}", worked.1);
        let child = Command::new("sleep")
            .arg("60")
            .stdin(Stdio::null())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let process = ProcessId::of_child(child.id().unwrap()).map_err(failed)?.unwrap();
        Ok(Launched { process, child })
    }

    async fn sweep(&self, _: &LaunchSpec) -> Result<Child, LaunchError> {
        let failed = |source| LaunchError::Program { program: "true".into(), source };
        Command::new("true").spawn().map_err(failed)
    }
}

fn sh(dir: &Path, text: &str) -> (bool, String) {
    let run = Process::new("sh")
        .args(["-ec", text])
        .current_dir(dir)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", "/nonexistent")
        .envs([("GIT_AUTHOR_NAME", "Ada"), ("GIT_AUTHOR_EMAIL", "ada@localhost")])
        .envs([("GIT_COMMITTER_NAME", "Ada"), ("GIT_COMMITTER_EMAIL", "ada@localhost")])
        .output()
        .unwrap();
    let reply = [run.stdout, run.stderr].concat();
    (run.status.success(), String::from_utf8_lossy(&reply).trim().to_owned())
}

/// A fixture with a board, and a repository that tasks get working trees of.
struct Workshop {
    board: Board,
    repository: PathBuf,
    settings: Settings,
}

impl Workshop {
    async fn new(fixture: &DashboardFixture) -> Self {
        let user = fixture.user();
        // A merge in the dashboard is committed as its user.
        std::fs::write(user.join(".gitconfig"), "[user]\nname = Grace\nemail = grace@localhost\n")
            .unwrap();
        let repository = user.join("repository");
        std::fs::create_dir(&repository).unwrap();
        let made = sh(
            &repository,
            "git init -q -b main && mkdir src && printf 'fn main() {\\n    hello();\\n}\\n' > src/main.rs \
             && git add . && git commit -qm first",
        );
        assert!(made.0, "{}", made.1);
        let environment =
            Environment::from_pairs([("HOME", user.to_str().unwrap()), ("PATH", "/usr/bin:/bin")]);
        let home = Home::at(&fixture.home);
        let settings = Settings::load(&vestal_api::schema(), home, environment, Vec::new());
        let boards = settings::boards(&settings).unwrap();
        let board = boards.open(&Slug::default_board(), Make::IfMissing).await.unwrap();
        Self { board, repository, settings }
    }

    async fn create(&self, title: &str, workspace: TaskWorkspace) -> TaskId {
        let assignee = Some(ProfileName::default_profile());
        let needs_review = workspace != TaskWorkspace::Scratch;
        let title = title.to_owned();
        let new = NewTask { title, workspace, assignee, needs_review, ..NewTask::default() };
        self.board.create(&Authority::Person("user".into()), new).await.unwrap().task.id
    }

    /// Adds a task whose work was done by a worker in its working tree and handed in.
    async fn hand_in(&self, title: &str, work: &'static str) -> TaskId {
        let path = self.repository.clone();
        let id = self.create(title, TaskWorkspace::Worktree { path, branch: None }).await;
        self.work(&id, work).await;
        id
    }

    /// Has the dispatcher start a worker of a task, and hands its work in.
    async fn work(&self, id: &TaskId, work: &'static str) {
        let boards = settings::boards(&self.settings).unwrap();
        let (policy, _) = settings::policy(&self.settings, boards.host().clone()).unwrap();
        let dispatcher = Dispatcher::new(DispatcherOptions {
            lock: host_lock_path(&boards),
            policy,
            room: None,
            launcher: Arc::new(ShellWorker(work)),
            profiles: Arc::new(|| BTreeSet::from(["default".to_owned()])),
            environment: self.settings.environment().clone(),
            timeouts: STOP_TIMEOUTS,
            interval: Duration::from_mins(1),
            retention: None,
            on_event: Arc::new(|_| {}),
        });
        let all = std::slice::from_ref(&self.board);
        dispatcher.tick(&self.board, all, DispatchMode::Real).await.unwrap();
        let run = self.board.get(id).await.unwrap().current_run.unwrap();
        let profile = ProfileName::default_profile();
        let worker = Authority::Worker(Fence { task: id.clone(), run, profile });
        let summary = Some("it is done, I think".to_owned());
        let done = TaskCompletion { summary, ..TaskCompletion::default() };
        let moved = self.board.submit(&worker, id, done).await.unwrap();
        let ended = moved.ended.unwrap();
        vestal_dispatcher::stop_worker(&self.board, &ended, None, STOP_TIMEOUTS).await.unwrap();
    }

    fn git(&self, text: &str) -> String {
        let (done, reply) = sh(&self.repository, text);
        assert!(done, "{reply}");
        reply
    }
}

const HOSTILE: &str = "printf 'fn main() {\\n    hello(\"<img src=x onerror=alert(1)>\");\\n}\\n' > src/main.rs && \
    printf '\\033[31mred\\033[0m <script>alert(1)</script>\\n' > notes.txt && \
    printf 'x' > '<b>bold<.txt' && git add -A && git commit -qm work && echo more >> notes.txt";

/// Moves tasks by keyboard and by drag, reviews a diff line by line and sends it back, and merges
/// another task's work into the branch of its repository.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_steers_the_board_and_reviews_what_was_changed() {
    let fixture = DashboardFixture::start().await;
    let shop = Workshop::new(&fixture).await;
    let reviewed = shop.hand_in("Say hello to somebody", HOSTILE).await;
    let merged = shop.hand_in("Add a file", "echo new > added.txt").await;
    shop.create("Move me by keyboard", TaskWorkspace::Scratch).await;
    shop.create("Drag me", TaskWorkspace::Scratch).await;
    let log = vestal_board::log_path(shop.board.dir(), &reviewed);
    std::fs::create_dir_all(log.parent().unwrap()).unwrap();
    std::fs::write(&log, "the worker begins\n").unwrap();
    let mut command = browser(&fixture, "board.mjs");
    command.env("REVIEWED", reviewed.as_str()).env("MERGED", merged.as_str());
    let mut child = command.spawn().expect("node is not installed; scripts/test installs it");
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    say(&mut stdin, &fixture.link(Right::Operator).await).await;
    say(&mut stdin, &fixture.link(Right::Viewer).await).await;
    let story = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            match line.as_str() {
                "write to the log" => {
                    let text = "the worker begins\nand goes on\n";
                    std::fs::write(&log, text).unwrap();
                }
                "work again" => shop.work(&reviewed, "echo again >> notes.txt").await,
                "ask a person" => {
                    fixture.create_blocked_task("Choose a colour", "red or blue?").await;
                }
                "conflict" => {
                    shop.git("echo mine > added.txt");
                }
                "no conflict" => {
                    shop.git("rm added.txt");
                }
                other => {
                    println!("{other}");
                    continue;
                }
            }
            say(&mut stdin, "done").await;
        }
    };
    tokio::time::timeout(WITHIN, story).await.expect("the browser does not come to an end");
    let status = child.wait().await.unwrap();
    let mut reply = String::new();
    child.stderr.take().unwrap().read_to_string(&mut reply).await.unwrap();
    assert!(status.success(), "{reply}");

    assert_eq!(fixture.status_of("Move me by keyboard").await, "blocked");
    assert_eq!(fixture.status_of("Drag me").await, "done");
    assert_eq!(fixture.status_of("Add a file").await, "done");
    assert_eq!(
        shop.git("git log -n 1 --format='%s|%an|%cn' && cat added.txt"),
        "Add a file|Grace|Grace\nnew"
    );
    // The instructions for the next attempt.
    let reported = shop.board.context(&reviewed).await.unwrap();
    assert!(reported.contains("> src/main.rs:2\n"), "{reported}");
    assert!(reported.contains("> greet by name"), "{reported}");
    assert!(reported.contains("> Nearly there."), "{reported}");
    shop.board.close().await.unwrap();
    fixture.stop().await;
}
