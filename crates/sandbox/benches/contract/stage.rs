//! Where the measuring happens: a home of its own, removed at the end.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use vestal_config::{Environment, Home, Override, Settings};
use vestal_sandbox::{Engine, FilesOnRemoval, Sandbox, TaskName};

use crate::Result;
use crate::containers::Api;

/// What sandboxes are made of.
#[derive(Debug, Clone)]
pub(crate) enum Ground {
    /// Processes of the user.
    Local,
    /// Namespaces.
    Native,
    /// Containers.
    Containers {
        /// Whose.
        name: &'static str,
        /// The engine's address.
        host: String,
    },
}

impl Ground {
    const fn name(&self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Native => "native",
            Self::Containers { name, .. } => name,
        }
    }

    /// Returns the settings of the home. A guest that outlives even a killed
    /// benchmark ends by itself.
    const fn config(&self) -> &'static str {
        match self {
            Self::Local => "terminal:\n  backend: local\n  retention_seconds: 600\n",
            Self::Native => "terminal:\n  backend: native\n  retention_seconds: 600\n",
            Self::Containers { .. } => {
                "terminal:\n  backend: docker\n  docker_image: vestal-test/base:latest\n  \
                 retention_seconds: 600\n"
            }
        }
    }

    fn host(&self) -> Option<&str> {
        match self {
            Self::Local | Self::Native => None,
            Self::Containers { host, .. } => Some(host),
        }
    }
}

/// Variables that commands get on both sides: few and fixed, so that numbers
/// do not depend on who measures.
const VARIABLES: [&str; 5] = ["PATH", "HOME", "USER", "LANG", "TERM"];

/// The home and what is needed to act in it.
#[derive(Debug, Clone)]
pub(crate) struct Stage {
    pub(crate) engine: Engine,
    ground: Ground,
    home: PathBuf,
    environment: Environment,
    /// Found once, so that the alternative does not pay for a search each time.
    bash: PathBuf,
}

impl Stage {
    fn open(home: &Path, ground: &Ground, overrides: &[&str]) -> Result<Self> {
        let whole = Environment::capture();
        let own = VARIABLES.iter().filter_map(|name| Some((*name, whole.get(name)?.to_owned())));
        let host = ground.host().map(|host| ("DOCKER_HOST", host.into()));
        let environment = Environment::from_pairs(own.chain(host));
        let overrides =
            overrides.iter().map(|text| Override::parse(&vestal_sandbox::schema(), text));
        let overrides = overrides.collect::<std::result::Result<_, _>>()?;
        let settings = Settings::load(
            &vestal_sandbox::schema(),
            Home::at(home),
            environment.clone(),
            overrides,
        );
        let bash = find_program("bash", &environment).ok_or("bash is not installed")?;
        Ok(Self {
            engine: Engine::open(settings)?,
            ground: ground.clone(),
            home: home.to_owned(),
            environment,
            bash,
        })
    }

    /// Returns the same stage for a process with other settings.
    pub(crate) fn with(&self, setting: &str) -> Result<Self> {
        Self::open(&self.home, &self.ground, &[setting])
    }

    /// Returns the name of a row that is measured here.
    pub(crate) fn label(&self, what: &str) -> String {
        format!("{}: {what}", self.ground.name())
    }

    /// Returns the home, which is removed at the end.
    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    /// Returns where a program is that commands would find.
    pub(crate) fn find_program(&self, name: &str) -> Option<PathBuf> {
        find_program(name, &self.environment)
    }

    /// Returns the sandbox of a task, made if need be.
    pub(crate) async fn sandbox(&self, task: &str) -> Result<Sandbox> {
        Ok(self.engine.sandbox(&task.parse::<TaskName>()?).await?)
    }

    /// Returns a command with the same environment as those in the sandbox.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().envs(self.environment.iter()).stdin(Stdio::null());
        command
    }

    /// Returns `bash -c text`, to be spawned as anybody would.
    pub(crate) fn bash_command(&self, text: &str) -> Command {
        let mut command = self.command(&self.bash);
        command.args(["-c", text]);
        command
    }

    /// Runs `bash -c text` and takes its output.
    pub(crate) fn bash(&self, text: &str) -> Result<()> {
        let output = self.bash_command(text).output()?;
        if output.status.success() { Ok(()) } else { Err("bash -c failed".into()) }
    }

    /// Removes every sandbox of the home.
    async fn clear(&self) -> Result<()> {
        let mut problem = None;
        for summary in self.engine.list().await? {
            let task = summary.task.parse::<TaskName>()?;
            if let Err(error) = self.engine.remove(&task, FilesOnRemoval::Remove).await {
                problem = Some(error);
            }
        }
        problem.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Removes what is left in the engine, which is a fault to tell of.
    fn clear_engine(&self) -> Result<()> {
        let Some(host) = self.ground.host() else {
            return Ok(());
        };
        let left = Api::at(host)?.remove_all_of(&self.home)?;
        if left == 0 { Ok(()) } else { Err(format!("{left} containers were left").into()) }
    }
}

fn find_program(name: &str, environment: &Environment) -> Option<PathBuf> {
    let path = environment.get("PATH").unwrap_or_default();
    std::env::split_paths(path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// Owns the home, and removes it with all that lives in it, whatever happens.
#[derive(Debug)]
pub(crate) struct Theatre {
    /// As in the program `vestal`: all there is to do is to wait.
    runtime: Runtime,
    stage: Stage,
    home: Option<TempDir>,
}

impl Theatre {
    pub(crate) fn open(ground: &Ground) -> Result<Self> {
        // On the disk that the build is on: where homes are, unlike memory,
        // recording a job durably has its price.
        let home =
            tempfile::Builder::new().prefix("contract-").tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
        std::fs::write(home.path().join("config.yaml"), ground.config())?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let stage = Stage::open(home.path(), ground, &[])?;
        Ok(Self { runtime, stage, home: Some(home) })
    }

    /// Measures something, unless a signal says to stop.
    pub(crate) fn perform<T>(&self, act: impl AsyncFnOnce(Stage) -> Result<T>) -> Result<T> {
        self.runtime.block_on(unless_stopped(act(self.stage.clone())))
    }

    /// Measures something in a runtime of several threads, where the caller and
    /// the connection are not on the same one.
    pub(crate) fn perform_threaded<T>(
        &self,
        act: impl AsyncFnOnce(Stage) -> Result<T>,
    ) -> Result<T> {
        let runtime = Builder::new_multi_thread().enable_all().build()?;
        let home = self.home.as_ref().ok_or("the home is gone")?;
        let stage = Stage::open(home.path(), &self.stage.ground, &[])?;
        runtime.block_on(unless_stopped(act(stage)))
    }

    /// Removes everything and tells if that failed.
    pub(crate) fn close(mut self) -> Result<()> {
        self.clear()
    }

    fn clear(&mut self) -> Result<()> {
        let Some(home) = self.home.take() else {
            return Ok(());
        };
        let cleared = self.runtime.block_on(self.stage.clear());
        let cleared = cleared.and(self.stage.clear_engine());
        home.close()?;
        cleared
    }
}

impl Drop for Theatre {
    fn drop(&mut self) {
        // After a failure or a panic, of which the caller hears anyway.
        self.clear().ok();
    }
}

async fn unless_stopped<T>(act: impl Future<Output = Result<T>>) -> Result<T> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    tokio::select! {
        result = act => result,
        _ = interrupt.recv() => Err("stopped by SIGINT".into()),
        _ = terminate.recv() => Err("stopped by SIGTERM".into()),
        _ = hang_up.recv() => Err("stopped by SIGHUP".into()),
    }
}
