//! A home of its own for each case.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tokio::process::Command as Process;
use vestal_config::{Environment, Home, Override, Settings};
use vestal_sandbox::{
    CapturedOutput, Command, Engine, EngineOptions, FilesOnRemoval, Sandbox, TaskName,
};
use vestal_testkit::TestHome;
use vestal_testkit::engines::EngineApi;
use vestal_testkit::files::{entries, names};

use super::process::{alive, container_guests, container_process, is_below, processes_of};
use super::toy::{self, ADDRESS};
use super::{ToyMachine, Worker, until};

/// A home, and everything a case makes in it.
#[derive(Debug)]
pub(crate) struct World {
    root: TestHome,
    kind: Kind,
    /// Where the sandboxes are of a world that does not have them itself.
    machine: Option<ToyMachine>,
    own_steps_only: bool,
}

/// What the sandboxes of a world are made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Processes.
    Local,
    /// Namespaces.
    Native,
    /// Containers on this engine.
    Containers(EngineApi),
    /// Processes of a machine that is reached over TCP alone.
    Toy,
}

impl Kind {
    /// Returns whether sandboxes have files of their own.
    pub(crate) fn is_contained(&self) -> bool {
        !matches!(self, Self::Local)
    }

    /// Returns whether those files are in directories of this machine, and a
    /// system of their own is around them.
    pub(crate) fn has_system(&self) -> bool {
        matches!(self, Self::Native | Self::Containers(_))
    }

    /// Returns the name of the backend.
    pub(crate) fn backend(&self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Native => "native",
            Self::Containers(_) => "docker",
            Self::Toy => "toy",
        }
    }
}

impl World {
    /// Returns a world whose sandboxes are on backend `local`.
    pub(crate) fn local() -> Self {
        Self::of(Kind::Local)
    }

    /// Returns a world whose sandboxes are made of namespaces, by whoever runs
    /// this.
    pub(crate) fn native() -> Self {
        Self::of(Kind::Native)
    }

    /// Returns a world whose sandboxes are containers of a Docker engine.
    pub(crate) fn docker() -> Self {
        Self::on(EngineApi::docker())
    }

    /// Returns the same, for walks along the steps that are this backend's own.
    pub(crate) fn docker_steps() -> Self {
        let mut world = Self::docker();
        world.own_steps_only = true;
        world
    }

    /// Returns a world whose sandboxes are containers of Podman, run by root.
    pub(crate) fn podman() -> Self {
        Self::on(EngineApi::podman())
    }

    /// Returns a world whose sandboxes are containers of Podman, run by the
    /// ordinary user who runs this.
    pub(crate) fn rootless() -> Self {
        Self::on(EngineApi::rootless())
    }

    /// Returns a world whose sandboxes are on a machine without a shared
    /// filesystem.
    pub(crate) fn toy() -> Self {
        Self::of(Kind::Toy)
    }

    /// Returns a world whose sandboxes are containers of this engine.
    pub(crate) fn on(engine: EngineApi) -> Self {
        Self::of(Kind::Containers(engine))
    }

    /// Returns another world whose sandboxes are made of the same.
    pub(crate) fn another(&self) -> Self {
        Self::of(self.kind.clone())
    }

    /// Returns a world of this kind.
    pub(crate) fn of(kind: Kind) -> Self {
        let root = TestHome::create();
        let machine = (kind == Kind::Toy).then(|| ToyMachine::start(root.beside("far")));
        Self { root, kind, machine, own_steps_only: false }
    }

    /// Returns whether a walk leaves out the steps that all backends share.
    pub(crate) fn own_steps_only(&self) -> bool {
        self.own_steps_only
    }

    /// Returns what sandboxes are made of.
    pub(crate) fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Returns whether sandboxes have files of their own.
    pub(crate) fn is_contained(&self) -> bool {
        self.kind.is_contained()
    }

    /// Returns whether they have them on this machine, in a system of their own.
    pub(crate) fn has_system(&self) -> bool {
        self.kind.has_system()
    }

    /// Returns the machine that the sandboxes are on.
    pub(crate) fn machine(&self) -> &ToyMachine {
        self.machine.as_ref().expect("only a toy is elsewhere")
    }

    /// Returns the name of the backend.
    pub(crate) fn backend(&self) -> &'static str {
        self.kind.backend()
    }

    /// Returns whether an instance takes changed settings when it is started,
    /// rather than being replaced.
    pub(crate) fn keeps_instances(&self) -> bool {
        !matches!(self.kind, Kind::Containers(_))
    }

    /// Returns the directory that commands start in.
    pub(crate) fn start_dir(&self) -> PathBuf {
        match self.kind {
            Kind::Local => self.user_home(),
            Kind::Native | Kind::Containers(_) => "/workspace".into(),
            Kind::Toy => self.start_files(),
        }
    }

    /// Returns where the files of that directory are on this machine, for the
    /// default task.
    pub(crate) fn start_files(&self) -> PathBuf {
        match self.kind {
            Kind::Local => self.user_home(),
            _ => self.files_dir("default").join("workspace"),
        }
    }

    /// Returns where the files of `~` are on this machine, for the default task.
    pub(crate) fn home_files(&self) -> PathBuf {
        match self.kind {
            Kind::Local => self.user_home(),
            _ => self.files_dir("default").join("home"),
        }
    }

    /// Returns the directory with the files of a task's sandbox and the state of
    /// its guest.
    pub(crate) fn files_dir(&self, task: &str) -> PathBuf {
        match &self.machine {
            Some(machine) => machine.files_dir(&self.engine().key(&task.parse().unwrap()).hash()),
            None => self.sandbox_dir(task),
        }
    }

    /// Returns the directory that the guest of an instance has its socket in.
    pub(crate) fn socket_dir(&self, task: &str, instance: &str) -> PathBuf {
        match &self.machine {
            Some(machine) => machine.instance_dir(instance).join("io"),
            None => self.sandbox_dir(task).join("instances").join(instance).join("io"),
        }
    }

    /// Returns the settings that every engine on this world has. Directories of
    /// the world are where they are inside a container too, so that cases can
    /// meet commands in files.
    fn base_settings(&self) -> Vec<String> {
        let mut settings = vec![format!("terminal.cwd={}", self.user_home().display())];
        if self.kind == Kind::Toy {
            // The settings know no such backend: the engine has no other.
            return settings;
        }
        settings.push(format!("terminal.backend={}", self.backend()));
        if self.is_contained() {
            let root = self.root.path().display();
            if matches!(self.kind, Kind::Containers(_)) {
                settings.push("terminal.docker_image=vestal-test/base:latest".into());
            }
            settings.push(format!("terminal.docker_volumes=[\"{root}:{root}\"]"));
        }
        settings
    }

    /// Returns the Vestal home.
    pub(crate) fn home(&self) -> PathBuf {
        self.root.vestal()
    }

    /// Returns the user's home, which is also where sessions start.
    pub(crate) fn user_home(&self) -> PathBuf {
        self.root.user()
    }

    /// Returns a directory beside both.
    pub(crate) fn scratch(&self, name: &str) -> PathBuf {
        self.root.beside(name)
    }

    fn variables(&self) -> Vec<(String, String)> {
        let mut variables = self.root.variables();
        if let Kind::Containers(engine) = &self.kind {
            variables.push(("DOCKER_HOST".into(), engine.address().to_owned()));
        }
        variables.extend(self.machine.iter().map(|toy| (ADDRESS.into(), toy.address())));
        variables
    }

    /// Returns settings: the world's own environment, `extra` added.
    pub(crate) fn settings(&self, overrides: &[&str], extra: &[(&str, &str)]) -> Settings {
        let mut variables = self.variables();
        variables.extend(extra.iter().map(|(name, value)| ((*name).into(), (*value).into())));
        let base = self.base_settings();
        let overrides = base.iter().map(String::as_str).chain(overrides.iter().copied());
        let overrides = overrides
            .map(|text| Override::parse(&vestal_sandbox::schema(), text).unwrap())
            .collect();
        Settings::load(
            &vestal_sandbox::schema(),
            Home::at(self.home()),
            Environment::from_pairs(variables),
            overrides,
        )
    }

    /// Returns a new engine on the home, as another process would have.
    pub(crate) fn engine(&self) -> Engine {
        self.engine_with(&[])
    }

    /// Returns a new engine with these settings.
    pub(crate) fn engine_with(&self, overrides: &[&str]) -> Engine {
        self.engine_in(overrides, &[])
    }

    /// Returns a new engine with these settings and variables.
    pub(crate) fn engine_in(&self, overrides: &[&str], variables: &[(&str, &str)]) -> Engine {
        toy::open(self.settings(overrides, variables), EngineOptions::default()).unwrap()
    }

    /// Returns the sandbox of the default task through a new engine.
    pub(crate) async fn sandbox(&self) -> Sandbox {
        self.engine().sandbox(&TaskName::default_task()).await.unwrap()
    }

    /// Runs shell text in the session `main`.
    pub(crate) async fn run(&self, text: &str) -> CapturedOutput {
        self.sandbox().await.run(Command::shell(text).session("main")).await.unwrap()
    }

    /// Starts another process.
    pub(crate) fn worker(&self, words: &[&str]) -> Worker {
        self.worker_with(words, &[])
    }

    /// Starts another process with these variables.
    pub(crate) fn worker_with(&self, words: &[&str], extra: &[(&str, &str)]) -> Worker {
        Worker::start(self.worker_process(words, extra))
    }

    /// Starts another process in a directory.
    pub(crate) fn worker_in(&self, dir: &Path, words: &[&str]) -> Worker {
        let mut process = self.worker_process(words, &[]);
        process.current_dir(dir);
        Worker::start(process)
    }

    fn worker_process(&self, words: &[&str], extra: &[(&str, &str)]) -> Process {
        let mut process = Process::new(super::user::worker());
        process
            .arg(self.home())
            .args(self.base_settings().iter().flat_map(|setting| ["--set", setting]))
            .args(words)
            .env_clear()
            .envs(self.variables())
            .envs(extra.iter().copied());
        process
    }

    /// Returns the directory of a task's sandbox.
    pub(crate) fn sandbox_dir(&self, task: &str) -> PathBuf {
        let engine = self.engine();
        let task: TaskName = task.parse().unwrap();
        engine.sandboxes_dir().join(engine.key(&task).dir_name())
    }

    /// Returns the pids of all guests that say they are of this world and live.
    pub(crate) fn guests(&self) -> Vec<u32> {
        if let Some(machine) = &self.machine {
            return machine.instances().iter().filter_map(|id| machine.guest(id)).collect();
        }
        if self.is_contained() {
            return container_guests(self.root.path());
        }
        let mut pids = Vec::new();
        for sandbox in entries(&self.home().join("sandboxes")) {
            for instance in entries(&sandbox.join("instances")) {
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

    /// Returns a process by the number that its sandbox knows it by.
    pub(crate) fn process(&self, inside: u32) -> u32 {
        if self.has_system() {
            container_process(self.root.path(), inside).expect("it runs")
        } else {
            inside
        }
    }

    /// Returns the engine of a world of containers.
    pub(crate) fn containers(&self) -> &EngineApi {
        match &self.kind {
            Kind::Containers(engine) => engine,
            Kind::Local | Kind::Native | Kind::Toy => panic!("this world has no containers"),
        }
    }

    /// Returns all containers of this home, or what instances have in place of
    /// one: a directory with all that is theirs. Processes have nothing.
    pub(crate) fn own_containers(&self) -> Vec<Value> {
        match (&self.kind, self.home_label()) {
            (Kind::Containers(engine), Some(label)) => engine.containers_with(&label),
            (Kind::Native, _) => self.own_instances(),
            (Kind::Toy, _) => {
                self.machine().instances().iter().map(|id| json!({ "Id": id })).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns the directories of instances, as an engine would list them.
    fn own_instances(&self) -> Vec<Value> {
        let mut found = Vec::new();
        for sandbox in entries(&self.home().join("sandboxes")) {
            let record = std::fs::read(sandbox.join("sandbox.json")).unwrap_or_default();
            let record: Value = serde_json::from_slice(&record).unwrap_or_default();
            let instances = sandbox.join("instances");
            let mut ids = names(&instances);
            // Processes are not marked this way.
            ids.retain(|id| instances.join(id).join("instance.json").exists());
            for id in ids {
                found.push(json!({ "Id": id, "Labels": { "vestal-key": record["key"] } }));
            }
        }
        found
    }

    /// Returns the label that containers and volumes of this home have.
    fn home_label(&self) -> Option<String> {
        let bytes = std::fs::read(self.home().join("home.json")).ok()?;
        let written: Value = serde_json::from_slice(&bytes).ok()?;
        Some(format!("vestal-home={}", written["id"].as_str()?))
    }

    /// Returns the names of what is in the directory of a task's sandbox.
    pub(crate) fn left_of(&self, task: &str) -> Vec<String> {
        names(&self.sandbox_dir(task))
    }

    /// Returns the ids of a task's instances that have a directory.
    pub(crate) fn instances_of(&self, task: &str) -> Vec<String> {
        names(&self.sandbox_dir(task).join("instances"))
    }

    /// Checks that of the default task's sandbox there is nothing but the files
    /// that outlive its instances, which containers have, and processes have
    /// not.
    pub(crate) fn assert_only_files_left(&self) {
        if self.machine.is_some() {
            assert_eq!(self.own_containers(), Vec::<Value>::new());
            assert_eq!(names(&self.files_dir("default")), ["home", "workspace"]);
        } else if self.is_contained() {
            let mut left = self.left_of("default");
            left.retain(|name| !["instances", "lock", "sandbox.json"].contains(&&**name));
            assert_eq!(left, ["home", "workspace"]);
            let instances = entries(&self.sandbox_dir("default").join("instances"));
            assert_eq!(instances, Vec::<PathBuf>::new());
            assert_eq!(self.own_containers(), Vec::<Value>::new());
        } else {
            assert!(!self.sandbox_dir("default").exists());
        }
    }

    /// Removes everything and checks that nothing is left: the promise that
    /// every case ends with.
    pub(crate) async fn finish(self) {
        let engine = self.engine();
        let instances = self.own_instances();
        let listed = engine.list().await.unwrap().into_iter().map(|summary| summary.task);
        let mut tasks: Vec<TaskName> = listed.map(|task| task.parse().unwrap()).collect();
        // Files without a sandbox are in no list; where they are they have the
        // name of their task.
        tasks.extend(names(&self.home().join("sandboxes")).iter().flat_map(|name| name.parse()));
        tasks.push(TaskName::default_task());
        for task in tasks {
            match engine.remove(&task, FilesOnRemoval::Remove).await {
                Ok(_) | Err(vestal_sandbox::Error::NoSandbox { .. }) => {}
                Err(error) => panic!("cannot remove {task}: {error}"),
            }
        }
        until("no process of this world is left", || async {
            processes_of(self.root.path()).is_empty()
        })
        .await;
        assert_eq!(entries(&self.home().join("sandboxes")), Vec::<PathBuf>::new());
        assert_eq!(control_groups(&instances), Vec::<PathBuf>::new());
        if let Some(machine) = &self.machine {
            assert_eq!(machine.instances(), Vec::<String>::new());
            assert_eq!(names(&self.root.path().join("far/files")), Vec::<String>::new());
        }
        if let (Kind::Containers(engine), Some(label)) = (&self.kind, self.home_label()) {
            // One whose owner was killed is removed by the engine, in its time.
            until("no container is left", || async { engine.containers_with(&label).is_empty() })
                .await;
            assert_eq!(engine.volumes_with(&label), Vec::<String>::new());
        }
    }
}

impl Drop for World {
    /// Ends what a failed case left running.
    fn drop(&mut self) {
        for pid in self.guests() {
            let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).ok();
        }
        for group in control_groups(&self.own_instances()) {
            // The kernel lets go of the last process a moment after its end.
            for _ in 0..100 {
                if std::fs::remove_dir(&group).is_ok() || !group.exists() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        }
        if let (Kind::Containers(engine), Some(label)) = (self.kind.clone(), self.home_label()) {
            // What goes wrong here is not to hide why the case failed.
            std::thread::spawn(move || engine.clear(&label)).join().ok();
        }
    }
}

/// Returns the control groups of this machine that have the name of one of
/// these instances.
fn control_groups(instances: &[Value]) -> Vec<PathBuf> {
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    let paths: Vec<&str> = own.lines().filter_map(|line| line.splitn(3, ':').nth(2)).collect();
    let mut left = Vec::new();
    for mount in entries(Path::new("/sys/fs/cgroup")) {
        for path in paths.iter().map(|path| path.trim_start_matches('/')) {
            let names = instances.iter().map(|own| own["Id"].as_str().unwrap());
            let groups = names.map(|id| mount.join(path).join(format!("vestal-{id}")));
            left.extend(groups.filter(|group| group.exists()));
        }
    }
    left
}

fn guest_pid(instance: &Path) -> Option<u32> {
    let bytes = std::fs::read(instance.join("io/guest.json")).ok()?;
    let said: Value = serde_json::from_slice(&bytes).ok()?;
    let pid = u32::try_from(said["pid"].as_u64()?).ok()?;
    alive(pid).then_some(pid)
}
