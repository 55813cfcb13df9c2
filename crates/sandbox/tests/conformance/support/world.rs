//! A home of its own for each case.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command as Process};
use vestal_config::{Environment, Home, Override, Settings};
use vestal_sandbox::{Command, Engine, FilesOnRemoval, Output, Sandbox, Task};

use super::process::{alive, is_below, processes_of};

/// A home, and everything a case makes in it.
#[derive(Debug)]
pub(crate) struct World {
    root: tempfile::TempDir,
    backend: &'static str,
}

impl World {
    /// Returns a world whose sandboxes are on backend `local`.
    pub(crate) fn local() -> Self {
        Self { root: tempfile::tempdir().unwrap(), backend: "local" }
    }

    /// Returns the Vestal home.
    pub(crate) fn home(&self) -> PathBuf {
        self.root.path().join("vestal")
    }

    /// Returns the user's home, which is also where sessions start.
    pub(crate) fn user_home(&self) -> PathBuf {
        let home = self.root.path().join("user");
        std::fs::create_dir_all(&home).unwrap();
        home
    }

    /// Returns a directory beside both.
    pub(crate) fn scratch(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn variables(&self) -> Vec<(String, String)> {
        let path = Environment::capture().get("PATH").unwrap().to_str().unwrap().to_owned();
        vec![("HOME".into(), self.user_home().to_str().unwrap().into()), ("PATH".into(), path)]
    }

    /// Returns settings: the world's own environment, `extra` added.
    pub(crate) fn settings(&self, overrides: &[&str], extra: &[(&str, &str)]) -> Settings {
        let mut variables = self.variables();
        variables.extend(extra.iter().map(|(name, value)| ((*name).into(), (*value).into())));
        let backend = format!("terminal.backend={}", self.backend);
        let cwd = format!("terminal.cwd={}", self.user_home().display());
        let overrides = [&*backend, &*cwd].into_iter().chain(overrides.iter().copied());
        let overrides = overrides.map(|text| Override::parse(text).unwrap()).collect();
        Settings::load(Home::at(self.home()), Environment::from_pairs(variables), overrides)
    }

    /// Returns a new engine on the home, as another process would have.
    pub(crate) fn engine(&self) -> Engine {
        self.engine_with(&[])
    }

    /// Returns a new engine with these settings.
    pub(crate) fn engine_with(&self, overrides: &[&str]) -> Engine {
        Engine::open(self.settings(overrides, &[])).unwrap()
    }

    /// Returns the sandbox of the default task through a new engine.
    pub(crate) async fn sandbox(&self) -> Sandbox {
        self.engine().sandbox(&Task::default_task()).await.unwrap()
    }

    /// Runs shell text in the session `main`.
    pub(crate) async fn run(&self, text: &str) -> Output {
        self.sandbox().await.run(Command::shell(text).session("main")).await.unwrap()
    }

    /// Starts another process.
    pub(crate) fn worker(&self, words: &[&str]) -> Worker {
        self.worker_with(words, &[])
    }

    /// Starts another process with these variables.
    pub(crate) fn worker_with(&self, words: &[&str], extra: &[(&str, &str)]) -> Worker {
        let mut process = Process::new(env!("CARGO_BIN_EXE_sandbox-worker"));
        process
            .arg(self.home())
            .args(["--set", &format!("terminal.backend={}", self.backend)])
            .args(["--set", &format!("terminal.cwd={}", self.user_home().display())])
            .args(words)
            .env_clear()
            .envs(self.variables())
            .envs(extra.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = process.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Worker { child, lines }
    }

    /// Returns the directory of a task's sandbox.
    pub(crate) fn sandbox_dir(&self, task: &str) -> PathBuf {
        let engine = self.engine();
        let task: Task = task.parse().unwrap();
        engine.sandboxes_dir().join(engine.key(&task).dir_name())
    }

    /// Returns the pids of all guests that say they are of this world and live.
    pub(crate) fn guests(&self) -> Vec<u32> {
        let mut pids = Vec::new();
        for sandbox in children(&self.home().join("sandboxes")) {
            for instance in children(&sandbox.join("instances")) {
                if let Some(pid) = guest_pid(&instance) {
                    pids.push(pid);
                }
            }
        }
        pids
    }

    /// Returns the processes of this world that no living guest looks after.
    pub(crate) fn strays(&self) -> Vec<u32> {
        let guests = self.guests();
        processes_of(self.root.path())
            .into_iter()
            .filter(|pid| !guests.contains(pid) && !is_below(*pid, &guests))
            .collect()
    }

    /// Removes everything and checks that nothing is left: the promise that
    /// every case ends with.
    pub(crate) async fn finish(self) {
        let engine = self.engine();
        for summary in engine.list().await.unwrap() {
            let task: Task = summary.task.parse().unwrap();
            match engine.remove(&task, FilesOnRemoval::Remove).await {
                Ok(_) | Err(vestal_sandbox::Error::NoSandbox { .. }) => {}
                Err(error) => panic!("cannot remove {task}: {error}"),
            }
        }
        super::until("no process of this world is left", || async {
            processes_of(self.root.path()).is_empty()
        })
        .await;
    }
}

impl Drop for World {
    /// Ends what a failed case left running.
    fn drop(&mut self) {
        for pid in self.guests() {
            let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).ok();
        }
    }
}

fn children(dir: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn guest_pid(instance: &Path) -> Option<u32> {
    let bytes = std::fs::read(instance.join("io/guest.json")).ok()?;
    let said: Value = serde_json::from_slice(&bytes).ok()?;
    let pid = u32::try_from(said["pid"].as_u64()?).ok()?;
    alive(pid).then_some(pid)
}

/// Another process that uses the same home.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    /// Waits for the next line it prints.
    pub(crate) async fn line(&mut self) -> Value {
        match self.lines.next_line().await.unwrap() {
            Some(line) => serde_json::from_str(&line).unwrap(),
            None => panic!("the worker ended: {}", self.errors().await),
        }
    }

    /// Kills it as a crash would.
    pub(crate) async fn crash(mut self) {
        self.child.kill().await.unwrap();
    }

    /// Waits for its end and returns whether it died of SIGKILL.
    pub(crate) async fn was_killed(mut self) -> bool {
        use std::os::unix::process::ExitStatusExt as _;
        drop(self.child.stdin.take());
        let status = self.child.wait().await.unwrap();
        if status.signal() == Some(9) {
            return true;
        }
        assert!(status.success(), "{}", self.errors().await);
        false
    }

    /// Lets it go on to its end, which must be a good one.
    pub(crate) async fn finish(mut self) {
        drop(self.child.stdin.take());
        let status = self.child.wait().await.unwrap();
        assert!(status.success(), "{}", self.errors().await);
    }

    /// Waits for its end, whichever that is, and returns the next line it has
    /// printed, if any.
    pub(crate) async fn last_word(mut self) -> Option<Value> {
        drop(self.child.stdin.take());
        self.child.wait().await.unwrap();
        let line = self.lines.next_line().await.unwrap()?;
        Some(serde_json::from_str(&line).unwrap())
    }

    async fn errors(&mut self) -> String {
        use tokio::io::AsyncReadExt as _;
        let mut text = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_string(&mut text).await.ok();
        }
        text
    }
}
