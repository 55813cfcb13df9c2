//! Where the measuring happens: a home of its own, removed at the end.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use vestal_config::{Environment, Home, Settings};
use vestal_sandbox::{Engine, FilesOnRemoval, Sandbox, Task, Terminations};

use crate::Result;

/// Settings of the benchmark's home. A guest that outlives even a killed
/// benchmark ends by itself.
const CONFIG: &str = "terminal:\n  backend: local\n  retention_seconds: 600\n";

/// Variables that commands get on both sides: few and fixed, so that numbers
/// do not depend on who measures.
const VARIABLES: [&str; 5] = ["PATH", "HOME", "USER", "LANG", "TERM"];

/// The home and what is needed to act in it.
#[derive(Debug, Clone)]
pub(crate) struct Stage {
    pub(crate) engine: Engine,
    home: PathBuf,
    environment: Environment,
    /// Found once, so that the alternative does not pay for a search each time.
    bash: PathBuf,
}

impl Stage {
    fn open(home: &Path) -> Result<Self> {
        let whole = Environment::capture();
        let environment = Environment::from_pairs(
            VARIABLES.iter().filter_map(|name| Some((name, whole.get(name)?))),
        );
        let settings = Settings::load(Home::at(home), environment.clone(), Vec::new());
        let bash = find_bash(&environment)?;
        Ok(Self { engine: Engine::open(settings)?, home: home.to_owned(), environment, bash })
    }

    /// Returns the home, which is removed at the end.
    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    /// Returns the sandbox of a task, made if need be.
    pub(crate) async fn sandbox(&self, task: &str) -> Result<Sandbox> {
        Ok(self.engine.sandbox(&task.parse::<Task>()?).await?)
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
            let task = summary.task.parse::<Task>()?;
            if let Err(error) = self.engine.remove(&task, FilesOnRemoval::Remove).await {
                problem = Some(error);
            }
        }
        problem.map_or(Ok(()), |error| Err(error.into()))
    }
}

fn find_bash(environment: &Environment) -> Result<PathBuf> {
    let path = environment.get("PATH").unwrap_or_default();
    std::env::split_paths(path)
        .map(|dir| dir.join("bash"))
        .find(|file| file.is_file())
        .ok_or_else(|| "bash is not installed".into())
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
    pub(crate) fn open() -> Result<Self> {
        // On the disk that the build is on: where homes are, unlike memory,
        // recording a job durably has its price.
        let home =
            tempfile::Builder::new().prefix("contract-").tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
        std::fs::write(home.path().join("config.yaml"), CONFIG)?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let stage = Stage::open(home.path())?;
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
        runtime.block_on(unless_stopped(act(Stage::open(home.path())?)))
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
    let mut terminations = Terminations::listen()?;
    tokio::select! {
        result = act => result,
        signal = terminations.next() => Err(format!("stopped by signal {}", signal.number()).into()),
    }
}
