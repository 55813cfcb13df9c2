//! A home of its own for each case, on an engine.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use serde_json::Value;
use tokio::process::Command as Process;
use vestal_config::{Environment, Home, Override, Settings};
use vestal_sandbox::{
    CapturedOutput, Command, Engine, EngineOptions, FilesOnRemoval, ProgressSink, Sandbox, TaskName,
};
use vestal_testkit::TestHome;

use super::process::{processes_of, until};
use super::{EngineApi, Proxy, Worker};

/// A home, and everything a case makes in it and on an engine.
#[derive(Debug)]
pub(crate) struct EngineFixture {
    root: TestHome,
    /// The engine itself, for the test to ask.
    pub(crate) api: EngineApi,
    /// Where the code under test finds the engine.
    host: String,
    settings: Vec<String>,
}

impl EngineFixture {
    /// Returns a fixture on the Docker engine that all tests share.
    pub(crate) fn docker() -> Self {
        Self::on(EngineApi::docker().address())
    }

    /// Returns a fixture on the Podman engine that all tests share.
    pub(crate) fn podman() -> Self {
        Self::on(EngineApi::podman().address())
    }

    /// Returns a fixture on an engine.
    pub(crate) fn on(host: &str) -> Self {
        let fixture = Self {
            root: TestHome::create(),
            api: EngineApi::at(host),
            host: host.to_owned(),
            settings: Vec::new(),
        };
        fixture.image("base")
    }

    /// Returns another fixture on the same engine.
    pub(crate) fn beside(&self) -> Self {
        Self::on(&self.host)
    }

    /// Returns the fixture with this test image.
    pub(crate) fn image(self, name: &str) -> Self {
        self.set(&format!("terminal.docker_image=vestal-test/{name}:latest"))
    }

    /// Returns the fixture with this setting, for every process in it.
    pub(crate) fn set(mut self, setting: &str) -> Self {
        let (key, _) = setting.split_once('=').unwrap();
        self.settings.retain(|old| old.split_once('=').unwrap().0 != key);
        self.settings.push(setting.to_owned());
        self
    }

    /// Puts a proxy between the code under test and the engine.
    pub(crate) fn proxied(mut self) -> (Self, Proxy) {
        let proxy = Proxy::new(&self.root.path().join("proxy.sock"), &self.host);
        self.host = proxy.host();
        (self, proxy)
    }

    /// Returns the Vestal home.
    pub(crate) fn home(&self) -> PathBuf {
        self.root.vestal()
    }

    /// Returns the user's home.
    pub(crate) fn user_home(&self) -> PathBuf {
        self.root.user()
    }

    /// Returns a path beside both.
    pub(crate) fn scratch(&self, name: &str) -> PathBuf {
        self.root.beside(name)
    }

    fn variables(&self) -> Vec<(String, String)> {
        let mut variables = self.root.variables();
        variables.push(("DOCKER_HOST".to_owned(), self.host.clone()));
        variables
    }

    fn base_settings(&self) -> impl Iterator<Item = &str> {
        std::iter::once("terminal.backend=docker").chain(self.settings.iter().map(String::as_str))
    }

    /// Returns the settings of a process in this fixture.
    pub(crate) fn settings(&self, overrides: &[&str]) -> Settings {
        let overrides = self.base_settings().chain(overrides.iter().copied());
        let overrides = overrides
            .map(|text| Override::parse(&vestal_sandbox::schema(), text).unwrap())
            .collect();
        let environment = Environment::from_pairs(self.variables());
        Settings::load(&vestal_sandbox::schema(), Home::at(self.home()), environment, overrides)
    }

    /// Returns a new engine on the home, as another process would have.
    pub(crate) fn engine(&self) -> Engine {
        self.engine_with(&[])
    }

    /// Returns a new engine with these settings.
    pub(crate) fn engine_with(&self, overrides: &[&str]) -> Engine {
        Engine::open(self.settings(overrides)).unwrap()
    }

    /// Returns a new engine that takes another container engine for its.
    pub(crate) fn engine_at(&self, host: &str) -> Engine {
        let mut variables = self.variables();
        variables.retain(|(name, _)| name != "DOCKER_HOST");
        variables.push(("DOCKER_HOST".into(), host.into()));
        let environment = Environment::from_pairs(variables);
        let overrides = self
            .base_settings()
            .map(|text| Override::parse(&vestal_sandbox::schema(), text).unwrap())
            .collect();
        Engine::open(Settings::load(
            &vestal_sandbox::schema(),
            Home::at(self.home()),
            environment,
            overrides,
        ))
        .unwrap()
    }

    /// Returns a new engine on a further profile of the home.
    pub(crate) fn engine_of(&self, profile: &str) -> Engine {
        let mut variables = self.variables();
        variables.push(("VESTAL_HOME".into(), self.home().to_str().unwrap().into()));
        let environment = Environment::from_pairs(variables);
        std::fs::create_dir_all(self.home().join("profiles").join(profile)).unwrap();
        let home = Home::locate(&environment, Some(profile)).unwrap();
        let overrides = self
            .base_settings()
            .map(|text| Override::parse(&vestal_sandbox::schema(), text).unwrap())
            .collect();
        Engine::open(Settings::load(&vestal_sandbox::schema(), home, environment, overrides))
            .unwrap()
    }

    /// Returns a new engine that reports what takes long.
    pub(crate) fn engine_reporting(&self, overrides: &[&str], progress: ProgressSink) -> Engine {
        let options = EngineOptions { progress, ..EngineOptions::default() };
        Engine::open_with(self.settings(overrides), options).unwrap()
    }

    /// Returns the sandbox of the default task through a new engine.
    pub(crate) async fn sandbox(&self) -> Sandbox {
        self.engine().sandbox(&TaskName::default_task()).await.unwrap()
    }

    /// Returns what shell text prints that must succeed.
    pub(crate) async fn out(&self, text: &str) -> String {
        out(&self.sandbox().await, text).await
    }

    /// Starts another process.
    pub(crate) fn worker(&self, words: &[&str]) -> Worker {
        Worker::start(self.process(env!("CARGO_BIN_EXE_sandbox-worker"), &[], words))
    }

    /// Starts another process with these variables.
    pub(crate) fn worker_with(&self, words: &[&str], extra: &[(&str, &str)]) -> Worker {
        let mut process = self.process(env!("CARGO_BIN_EXE_sandbox-worker"), &[], words);
        process.envs(extra.iter().copied());
        Worker::start(process)
    }

    /// Gives the fixture to another user and returns what starts processes as
    /// that one.
    pub(crate) fn give_to(&self, user: u32) -> Owner<'_> {
        let program = self.scratch("worker");
        std::fs::copy(env!("CARGO_BIN_EXE_sandbox-worker"), &program).unwrap();
        for path in [self.root.path(), &self.user_home(), &program] {
            std::os::unix::fs::chown(path, Some(user), Some(user)).unwrap();
        }
        Owner { fixture: self, user, program: program.to_str().unwrap().to_owned() }
    }

    /// Starts another process by way of `program`, which gets the worker and
    /// its arguments after its own.
    pub(crate) fn worker_under(&self, program: &str, own: &[&str], words: &[&str]) -> Worker {
        let mut before = own.to_vec();
        before.push(env!("CARGO_BIN_EXE_sandbox-worker"));
        Worker::start(self.process(program, &before, words))
    }

    fn process(&self, program: &str, before: &[&str], words: &[&str]) -> Process {
        let mut process = Process::new(program);
        process
            .args(before)
            .arg(self.home())
            .args(self.base_settings().flat_map(|setting| ["--set", setting]))
            .args(words)
            .env_clear()
            .envs(self.variables());
        process
    }

    /// Returns the directory of a task's sandbox.
    pub(crate) fn sandbox_dir(&self, task: &str) -> PathBuf {
        let engine = self.engine();
        let task: TaskName = task.parse().unwrap();
        engine.sandboxes_dir().join(engine.key(&task).dir_name())
    }

    /// Returns the workspace of the default task on the host.
    pub(crate) fn workspace(&self) -> PathBuf {
        self.sandbox_dir("default").join("workspace")
    }

    /// Returns the labels of this home and of its further profiles, as far as
    /// they are there.
    fn labels(&self) -> Vec<String> {
        let profiles = std::fs::read_dir(self.home().join("profiles")).into_iter().flatten();
        let profiles = profiles.flatten().map(|profile| profile.path());
        let label = |home: PathBuf| {
            let text = std::fs::read_to_string(home.join("home.json")).ok()?;
            let home: Value = serde_json::from_str(&text).unwrap();
            Some(format!("vestal-home={}", home["id"].as_str().unwrap()))
        };
        std::iter::once(self.home()).chain(profiles).filter_map(label).collect()
    }

    /// Returns what the engine lists of this home.
    pub(crate) fn containers(&self) -> Vec<Value> {
        self.labels().iter().flat_map(|label| self.api.containers_with(label)).collect()
    }

    /// Returns the names of the containers of this home.
    pub(crate) fn names(&self) -> Vec<String> {
        let name =
            |listed: Value| listed["Names"][0].as_str().unwrap().trim_start_matches('/').to_owned();
        self.containers().into_iter().map(name).collect()
    }

    /// Returns what the engine says of the one container of this home.
    pub(crate) fn container(&self) -> Value {
        let mut listed = self.containers();
        let listed = match listed.len() {
            1 => listed.remove(0),
            _ => panic!("there should be one container: {listed:#?}"),
        };
        self.api.inspect(listed["Id"].as_str().unwrap()).unwrap()
    }

    /// Returns the id of the one container of this home.
    pub(crate) fn container_id(&self) -> String {
        self.container()["Id"].as_str().unwrap().to_owned()
    }

    /// Returns the host's number of its first process.
    pub(crate) fn first_process(&self) -> u32 {
        let pid = self.container()["State"]["Pid"].as_u64().unwrap();
        u32::try_from(pid).unwrap()
    }

    /// Returns the volumes of this home.
    pub(crate) fn volumes(&self) -> Vec<String> {
        self.labels().iter().flat_map(|label| self.api.volumes_with(label)).collect()
    }

    /// Returns the names of the images that were made for this home.
    pub(crate) fn images(&self) -> Vec<String> {
        let home = |label: &String| label.strip_prefix("vestal-home=").unwrap().to_owned();
        let repositories = self.labels().iter().map(home).collect::<Vec<_>>();
        let images = |home: &String| self.api.images_in(&format!("localhost/vestal/{home}"));
        repositories.iter().flat_map(images).collect()
    }

    /// Removes everything and checks that nothing is left, of which every case
    /// has to convince.
    pub(crate) async fn finish(self) {
        let engine = self.engine();
        let listed = engine.list().await.unwrap().into_iter().map(|summary| summary.task);
        // Of sandboxes that end with their process files may be left, which no
        // list shows.
        for task in listed.chain(["default".to_owned()]) {
            let task: TaskName = task.parse().unwrap();
            match engine.remove(&task, FilesOnRemoval::Remove).await {
                Ok(_) | Err(vestal_sandbox::Error::NoSandbox { .. }) => {}
                Err(error) => panic!("cannot remove {task}: {error}"),
            }
        }
        self.is_empty().await;
    }

    /// Checks that nothing is left of this fixture.
    pub(crate) async fn is_empty(&self) {
        assert_eq!(self.containers(), Vec::<Value>::new(), "containers are left");
        assert_eq!(self.volumes(), Vec::<String>::new(), "volumes are left");
        assert_eq!(self.images(), Vec::<String>::new(), "images are left");
        until("no process of this fixture is left", || async {
            processes_of(self.root.path()).is_empty()
        })
        .await;
        let sandboxes = self.home().join("sandboxes");
        let left: Vec<_> = std::fs::read_dir(&sandboxes).into_iter().flatten().flatten().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

impl Drop for EngineFixture {
    /// Removes what a failed case left.
    fn drop(&mut self) {
        if self.api.try_ask("GET", "/_ping", None).is_none() {
            return;
        }
        for container in self.containers() {
            self.api.remove(container["Id"].as_str().unwrap());
        }
        for image in self.images() {
            self.api.try_ask("DELETE", &format!("/images/{image}"), None);
        }
        for volume in self.volumes() {
            self.api.remove_volume(&volume);
        }
    }
}

/// An ordinary user that a fixture belongs to.
#[derive(Debug)]
pub(crate) struct Owner<'a> {
    fixture: &'a EngineFixture,
    user: u32,
    program: String,
}

impl Owner<'_> {
    /// Starts a process of this user's.
    pub(crate) fn worker(&self, words: &[&str]) -> Worker {
        let user = self.user.to_string();
        let own = ["--reuid", &user, "--regid", &user, "--clear-groups", &self.program];
        Worker::start(self.fixture.process("setpriv", &own, words))
    }

    /// Returns what shell text prints that must succeed.
    pub(crate) async fn out(&self, text: &str) -> String {
        let printed = self.worker(&["run", "default", text]).done().await;
        assert_eq!(printed["code"], 0, "{text}: {printed}");
        printed["stdout"].as_str().unwrap().to_owned()
    }

    /// Returns the files in the fixture that are not this user's.
    pub(crate) fn foreign_files(&self) -> Vec<PathBuf> {
        let mut foreign = Vec::new();
        let mut to_see = vec![self.fixture.root.path().to_owned()];
        while let Some(path) = to_see.pop() {
            let metadata = path.symlink_metadata().unwrap();
            if metadata.is_dir() {
                to_see.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
            if metadata.uid() != self.user || metadata.gid() != self.user {
                foreign.push(path);
            }
        }
        foreign
    }
}

/// Runs shell text in the session `main`.
pub(crate) async fn run(sandbox: &Sandbox, text: &str) -> CapturedOutput {
    sandbox.run(Command::shell(text).session("main")).await.unwrap()
}

/// Returns what shell text prints that must succeed.
pub(crate) async fn out(sandbox: &Sandbox, text: &str) -> String {
    let output = run(sandbox, text).await;
    assert_eq!(output.exit.code, Some(0), "{text}: {}", output.stderr.text());
    output.stdout.text()
}
