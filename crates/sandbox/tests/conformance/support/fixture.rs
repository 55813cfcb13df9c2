//! A home of its own for each case.

mod leftovers;

use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};

use tokio::process::Command as Process;
use vestal_config::{Environment, Home, Override, Settings};
use vestal_sandbox::{CapturedOutput, Command, Engine, EngineOptions, Sandbox, TaskName};
use vestal_testkit::TestHome;
use vestal_testkit::engines::{EngineApi, given};
use vestal_testkit::files::entries;
use vestal_testkit::kubernetes::KubernetesNamespace;

use super::Worker;
use super::engine::{self, TOY_ADDRESS};
use super::machine::Machine;

/// A home, and everything a case makes in it.
#[derive(Debug)]
pub(crate) struct BackendFixture {
    /// Where the sandboxes are of a fixture that does not have them itself. It ends before its
    /// directory is removed.
    machine: Option<Machine>,
    root: TestHome,
    kind: Kind,
    own_steps_only: bool,
}

/// What the sandboxes of a fixture are made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Processes.
    Local,
    /// Namespaces.
    Native,
    /// Containers on this engine.
    Containers(EngineApi),
    /// Containers that Apptainer builds of this kind of image.
    Apptainer(ImageKind),
    /// Processes of a machine that is reached over TCP alone.
    Toy,
    /// Processes of a machine that is reached over ssh alone.
    Ssh,
    /// The same in namespaces of their own.
    SshIsolated,
    /// Containers of the engine of a machine that is reached over ssh alone.
    SshContainers(EngineApi),
    /// Pods of a Kubernetes cluster.
    Kubernetes,
}

/// What images of Apptainer are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ImageKind {
    /// A SIF file, which is mounted by the kernel or by fuse.
    File,
    /// A directory.
    Directory,
}

impl Kind {
    /// Returns whether sandboxes have files of their own.
    pub(crate) fn is_contained(&self) -> bool {
        !matches!(self, Self::Local)
    }

    /// Returns whether those files are in directories of this machine, and a
    /// system of their own is around them.
    pub(crate) fn has_system(&self) -> bool {
        matches!(self, Self::Native | Self::Containers(_) | Self::Apptainer(_))
    }

    /// Returns whether sandboxes are made of processes of the user who runs them, with
    /// this machine's network.
    pub(crate) fn is_of_its_user(&self) -> bool {
        matches!(self, Self::Native | Self::Apptainer(_))
    }

    /// Returns the engine that the sandboxes are containers of.
    pub(crate) fn engine(&self) -> Option<&EngineApi> {
        match self {
            Self::Containers(engine) | Self::SshContainers(engine) => Some(engine),
            Self::Local
            | Self::Native
            | Self::Apptainer(_)
            | Self::Toy
            | Self::Ssh
            | Self::SshIsolated
            | Self::Kubernetes => None,
        }
    }

    /// Returns the name of the backend.
    pub(crate) fn backend(&self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Native => "native",
            Self::Containers(_) => "docker",
            Self::Apptainer(_) => "apptainer",
            Self::Toy => "toy",
            Self::Ssh | Self::SshIsolated => "ssh",
            Self::SshContainers(_) => "ssh-docker",
            Self::Kubernetes => "kubernetes",
        }
    }
}

impl BackendFixture {
    /// Returns a fixture whose sandboxes are on backend `local`.
    pub(crate) fn local() -> Self {
        Self::of(Kind::Local)
    }

    /// Returns a fixture whose sandboxes are made of namespaces, by the user who runs
    /// this.
    pub(crate) fn native() -> Self {
        Self::of(Kind::Native)
    }

    /// Returns a fixture whose sandboxes are containers of a Docker engine.
    pub(crate) fn docker() -> Self {
        Self::on(EngineApi::docker())
    }

    /// Returns the same, for walks along the steps that are this backend's own.
    pub(crate) fn docker_steps() -> Self {
        let mut fixture = Self::docker();
        fixture.own_steps_only = true;
        fixture
    }

    /// Returns a fixture whose sandboxes are containers of Podman, run by root.
    pub(crate) fn podman() -> Self {
        Self::on(EngineApi::podman())
    }

    /// Returns a fixture whose sandboxes are containers of Podman, run by the
    /// ordinary user who runs this.
    pub(crate) fn rootless() -> Self {
        Self::on(EngineApi::rootless())
    }

    /// Returns a fixture whose sandboxes are containers that Apptainer builds of a SIF
    /// file, for the user who runs this.
    pub(crate) fn apptainer() -> Self {
        Self::of(Kind::Apptainer(ImageKind::File))
    }

    /// Returns the same, of a directory.
    pub(crate) fn apptainer_directory() -> Self {
        Self::of(Kind::Apptainer(ImageKind::Directory))
    }

    /// Returns a fixture whose sandboxes are on a machine without a shared
    /// filesystem.
    pub(crate) fn toy() -> Self {
        Self::of(Kind::Toy)
    }

    /// Returns a fixture whose sandboxes are on a machine with an ssh server.
    pub(crate) fn ssh() -> Self {
        Self::of(Kind::Ssh)
    }

    /// Returns a fixture whose sandboxes are pods.
    pub(crate) fn kubernetes() -> Self {
        Self::of(Kind::Kubernetes)
    }

    /// Returns the same on a machine with these options of `ssh-host start`.
    pub(crate) fn ssh_with(options: &[&str]) -> Self {
        let root = TestHome::create();
        let machine = Some(Machine::with_ssh(&root, options));
        Self { root, kind: Kind::Ssh, machine, own_steps_only: false }
    }

    /// Returns a fixture whose sandboxes are kept apart from the machine that they are on.
    pub(crate) fn ssh_isolated() -> Self {
        Self::of(Kind::SshIsolated)
    }

    /// Returns a fixture whose sandboxes are containers of the engine of a machine with an ssh
    /// server.
    pub(crate) fn ssh_containers() -> Self {
        Self::of(Kind::SshContainers(EngineApi::docker()))
    }

    /// Returns the same for this user of the machine.
    pub(crate) fn ssh_isolated_for(user: &str) -> Self {
        let root = TestHome::create();
        let machine = Some(Machine::isolating(&root, user));
        Self { root, kind: Kind::SshIsolated, machine, own_steps_only: false }
    }

    /// Checks that nothing of the default task was left by what failed.
    pub(crate) fn nothing_was_made(&self) {
        let mut left = self.left_of("default");
        left.retain(|name| name != "lock");
        assert_eq!(left, Vec::<String>::new());
        assert_eq!(self.machine().instances(), Vec::<String>::new());
        assert_eq!(self.machine().host().processes(), Vec::<u32>::new());
    }

    /// Returns a fixture whose sandboxes are containers of this engine.
    pub(crate) fn on(engine: EngineApi) -> Self {
        Self::of(Kind::Containers(engine))
    }

    /// Returns another fixture whose sandboxes are made of the same.
    pub(crate) fn another(&self) -> Self {
        Self::of(self.kind.clone())
    }

    /// Returns a fixture of this kind.
    pub(crate) fn of(kind: Kind) -> Self {
        let root = match kind {
            Kind::Kubernetes => TestHome::create_in(&KubernetesNamespace::shared_root()),
            _ => TestHome::create(),
        };
        let machine = Machine::of(&kind, &root);
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
    pub(crate) fn machine(&self) -> &Machine {
        self.machine.as_ref().expect("only some are elsewhere")
    }

    /// Returns whether they are on another machine.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.machine.is_some()
    }

    /// Returns the name of the backend.
    pub(crate) fn backend(&self) -> &'static str {
        self.kind.backend()
    }

    /// Returns whether an instance takes changed settings when it is started,
    /// rather than being replaced.
    pub(crate) fn keeps_instances(&self) -> bool {
        self.kind.engine().is_none()
    }

    /// Returns the directory that commands start in.
    pub(crate) fn start_dir(&self) -> PathBuf {
        match self.kind {
            Kind::Local => self.user_home(),
            Kind::Native
            | Kind::Containers(_)
            | Kind::Apptainer(_)
            | Kind::SshIsolated
            | Kind::SshContainers(_)
            | Kind::Kubernetes => "/workspace".into(),
            Kind::Toy | Kind::Ssh => self.machine().seen_there(&self.start_files()),
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
            // The socket is in the pod; what can be in its guest's way is its state.
            Some(Machine::Kubernetes(namespace)) => {
                namespace.state_dir(&self.engine().key(&task.parse().unwrap()).hash())
            }
            Some(machine) => machine.instance_dir(instance).join("io"),
            None => self.sandbox_dir(task).join("instances").join(instance).join("io"),
        }
    }

    /// Returns the settings that every engine on this fixture has. Directories of
    /// the fixture are where they are inside a container too, so that cases can
    /// meet commands in files.
    fn base_settings(&self) -> Vec<String> {
        let mut settings = vec![format!("terminal.cwd={}", self.user_home().display())];
        if self.kind == Kind::Toy {
            // The settings know no such backend: the engine has no other.
            return settings;
        }
        settings.push(format!("terminal.backend={}", self.backend()));
        if let Some(machine) = &self.machine {
            settings.extend(machine.settings(self.root.path()));
            if matches!(self.kind, Kind::SshContainers(_)) {
                let root = self.root.path().display();
                // As people have it: the machine is what they name.
                settings.retain(|setting| !setting.starts_with("terminal.backend="));
                settings.extend([
                    "terminal.backend=ssh".to_owned(),
                    "terminal.ssh_isolation=docker".to_owned(),
                    "terminal.docker_image=vestal-test/base:latest".to_owned(),
                    format!("terminal.docker_volumes=[\"{root}:{root}\"]"),
                ]);
            }
            if self.kind == Kind::SshIsolated {
                settings.push("terminal.ssh_isolation=native".into());
            }
            return settings;
        }
        if self.is_contained() {
            let root = self.root.path().display();
            if matches!(self.kind, Kind::Containers(_)) {
                settings.push("terminal.docker_image=vestal-test/base:latest".into());
            }
            if let Kind::Apptainer(image) = self.kind {
                settings.extend(apptainer_settings(image));
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

    /// Returns a place where cases meet commands of the default task, by its path here and by
    /// the one that commands know it by.
    pub(crate) fn meeting_place(&self, name: &str) -> (PathBuf, PathBuf) {
        if self.kind != Kind::SshIsolated {
            return (self.scratch(name), self.scratch(name));
        }
        // Of this machine they see their workspace alone.
        let home = self.machine().host().home();
        let owner = std::fs::metadata(home).unwrap();
        let workspace = self.start_files();
        std::fs::create_dir_all(&workspace).unwrap();
        let ours = workspace.ancestors().take_while(|dir| *dir != home);
        for dir in ours {
            chown(dir, Some(owner.uid()), Some(owner.gid())).unwrap();
        }
        (workspace.join(name), self.start_dir().join(name))
    }

    /// Gives what a case has made in a sandbox's files to the user whose they are.
    pub(crate) fn hand_over(&self, path: &Path) {
        if self.kind != Kind::SshIsolated {
            return;
        }
        let owner = std::fs::metadata(self.machine().host().home()).unwrap();
        std::os::unix::fs::lchown(path, Some(owner.uid()), Some(owner.gid())).unwrap();
        if path.symlink_metadata().unwrap().is_dir() {
            for below in entries(path) {
                self.hand_over(&below);
            }
        }
    }

    fn variables(&self) -> Vec<(String, String)> {
        let mut variables = self.root.variables();
        if let Kind::Containers(engine) = &self.kind {
            variables.push(("DOCKER_HOST".into(), engine.address().to_owned()));
        }
        let address = self.machine.as_ref().and_then(Machine::address);
        variables.extend(address.map(|address| (TOY_ADDRESS.into(), address)));
        variables
    }

    /// Returns settings: the fixture's own environment, `extra` added.
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
        engine::open(self.settings(overrides, variables), EngineOptions::default()).unwrap()
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
}

/// Returns the settings that name the program and the image that the tests are given.
fn apptainer_settings(image: ImageKind) -> [String; 2] {
    let images = PathBuf::from(given("VESTAL_TEST_APPTAINER_IMAGES"));
    let image = images.join(match image {
        ImageKind::File => "base.sif",
        ImageKind::Directory => "base",
    });
    // Who runs inside of the root already has the program there.
    let program = if is_in_apptainer_root() {
        "apptainer".to_owned()
    } else {
        given("VESTAL_TEST_APPTAINER")
    };
    [
        format!("terminal.singularity_binary={program}"),
        format!("terminal.singularity_image={}", image.display()),
    ]
}

/// Returns whether this process runs in the root that has Apptainer.
fn is_in_apptainer_root() -> bool {
    Path::new("/usr/bin/apptainer").exists()
}
