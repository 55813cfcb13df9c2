//! A home of its own for each test, and nothing left of it afterwards.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal};
use serde_json::Value;
pub(crate) use vestal_testkit::TEST_TIMEOUT;
use vestal_testkit::TestHome;
pub(crate) use vestal_testkit::engines::BASE_IMAGE as BASE;
use vestal_testkit::engines::EngineApi;
use vestal_testkit::processes::naming;
pub(crate) use vestal_testkit::programs::{ProgramOutcome, RunningProgram, finish};

/// A home, a directory to work in, and the program.
pub(crate) struct ProgramFixture {
    root: TestHome,
    sandboxes: Sandboxes,
}

/// What the sandboxes of a fixture are.
enum Sandboxes {
    /// Processes like any other.
    Local,
    /// Namespaces of this machine's kernel.
    Native,
    /// What the program itself chooses.
    Automatic,
    /// Containers.
    Docker(EngineApi),
}

impl ProgramFixture {
    /// Returns a fixture whose sandboxes are processes.
    pub(crate) fn new() -> Self {
        Self::with(Sandboxes::Local)
    }

    /// Returns a fixture whose sandboxes are native.
    pub(crate) fn native() -> Self {
        Self::with(Sandboxes::Native)
    }

    /// Returns a fixture in which nobody has chosen anything.
    pub(crate) fn automatic() -> Self {
        Self::with(Sandboxes::Automatic)
    }

    /// Returns a fixture whose sandboxes are containers of the engine given to
    /// the tests.
    pub(crate) fn docker() -> Self {
        Self::with(Sandboxes::Docker(EngineApi::docker()))
    }

    /// Returns a fixture whose sandboxes are containers of the Podman engine
    /// given to the tests.
    pub(crate) fn podman() -> Self {
        Self::with(Sandboxes::Docker(EngineApi::podman()))
    }

    fn with(sandboxes: Sandboxes) -> Self {
        let root = TestHome::create();
        fs::create_dir(root.beside("work")).unwrap();
        Self { root, sandboxes }
    }

    /// Returns the engine that the sandboxes' containers are on.
    pub(crate) fn engine(&self) -> &EngineApi {
        match &self.sandboxes {
            Sandboxes::Docker(engine) => engine,
            _ => panic!("no engine in this fixture"),
        }
    }

    /// Returns the label that this home's containers carry; nothing as long as
    /// there is no home.
    pub(crate) fn home_label(&self) -> Option<String> {
        let home: Value =
            serde_json::from_slice(&fs::read(self.home().join("home.json")).ok()?).ok()?;
        Some(format!("vestal-home={}", home["id"].as_str()?))
    }

    /// Returns the names of this home's containers, whatever state they are in.
    pub(crate) fn containers(&self) -> Vec<String> {
        self.home_label().map(|label| self.engine().names_with(&label)).unwrap_or_default()
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.root.vestal()
    }

    /// Returns the home of the user.
    pub(crate) fn user(&self) -> PathBuf {
        self.root.user()
    }

    /// Returns the directory the program is started in.
    pub(crate) fn work(&self) -> PathBuf {
        self.root.beside("work").canonicalize().unwrap()
    }

    /// Returns a call of the program, not started yet.
    pub(crate) fn command<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = self.root.command(env!("CARGO_BIN_EXE_vestal"));
        command
            .args(args)
            .current_dir(self.work())
            .envs(self.environment())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn environment(&self) -> Vec<(&'static str, PathBuf)> {
        let mut environment = vec![
            ("VESTAL_HOME", self.home()),
            ("HOME", self.user()),
            ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".into()),
            ("TERM", "xterm".into()),
        ];
        // Whatever engines this machine has are not looked for.
        let nobody = format!("unix://{}", self.root.beside("no-engine.sock").display());
        match &self.sandboxes {
            Sandboxes::Docker(engine) => environment.extend([
                ("DOCKER_HOST", engine.address().into()),
                ("TERMINAL_ENV", "docker".into()),
                ("TERMINAL_DOCKER_IMAGE", BASE.into()),
            ]),
            Sandboxes::Local => environment
                .extend([("DOCKER_HOST", nobody.into()), ("TERMINAL_ENV", "local".into())]),
            Sandboxes::Native => environment
                .extend([("DOCKER_HOST", nobody.into()), ("TERMINAL_ENV", "native".into())]),
            Sandboxes::Automatic => environment.push(("DOCKER_HOST", nobody.into())),
        }
        environment
    }

    /// Runs the program to its end.
    pub(crate) fn vestal<A: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = A>,
    ) -> ProgramOutcome {
        finish(self.command(args).spawn().unwrap())
    }

    /// Runs the program to its end with this input.
    pub(crate) fn vestal_with<A: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = A>,
        input: &[u8],
    ) -> ProgramOutcome {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // The program may end without having read it all.
                stdin.write_all(input).ok();
            });
            finish(child)
        })
    }

    /// Runs shell text in the sandbox of the task `default`.
    #[track_caller]
    pub(crate) fn run(&self, text: &str) -> ProgramOutcome {
        self.vestal(["run", text])
    }

    /// Starts shell text in the background and returns the job's id.
    #[track_caller]
    pub(crate) fn background(&self, text: &str) -> String {
        let outcome = self.vestal(["run", "--background", text]).exits(0);
        outcome.text().trim().to_owned()
    }

    /// Starts the program and leaves it running.
    pub(crate) fn start<A: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = A>,
    ) -> RunningProgram {
        RunningProgram::start(self.command(args))
    }

    /// Returns what is known of a job.
    #[track_caller]
    pub(crate) fn job(&self, id: &str) -> Value {
        let jobs = self.vestal(["jobs", "--all", "--json"]).exits(0).json();
        let jobs = jobs.as_array().unwrap();
        jobs.iter()
            .find(|job| job["id"] == id)
            .unwrap_or_else(|| panic!("no {id}: {jobs:?}"))
            .clone()
    }

    /// Returns the guest of the task `default`.
    #[track_caller]
    pub(crate) fn guest(&self) -> Guest {
        let inspected = self.vestal(["inspect", "--json"]).exits(0).json();
        let pid = inspected[0]["locator"]["process"]["pid"].as_i64().unwrap();
        Guest(Pid::from_raw(pid.try_into().unwrap()).unwrap())
    }

    pub(crate) fn tasks(&self) -> Vec<String> {
        let listed = self.vestal(["ps", "--all", "--json"]);
        let listed: Value = serde_json::from_slice(&listed.stdout).unwrap_or_default();
        let tasks = listed.as_array().into_iter().flatten();
        tasks.filter_map(|sandbox| sandbox["task"].as_str().map(str::to_owned)).collect()
    }
}

impl Drop for ProgramFixture {
    fn drop(&mut self) {
        for task in self.tasks() {
            self.vestal(["rm", "-y", "--files", &task]);
        }
        if let (Sandboxes::Docker(engine), Some(label)) = (&self.sandboxes, self.home_label()) {
            engine.clear(&label);
        }
        // Only after a failure is anything left that names this home.
        for pid in naming(self.root.path(), &["cmdline", "environ"]) {
            let pid = Pid::from_raw(pid.cast_signed()).unwrap();
            rustix::process::kill_process(pid, Signal::KILL).ok();
        }
    }
}

/// The first process of a sandbox.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Guest(Pid);

impl Guest {
    pub(crate) fn signal(&self, signal: Signal) {
        rustix::process::kill_process(self.0, signal).unwrap();
    }
}

/// Returns whether a process lives whose number a command printed.
#[track_caller]
pub(crate) fn is_alive(pid: &str) -> bool {
    vestal_testkit::is_alive(pid.parse().unwrap())
}
