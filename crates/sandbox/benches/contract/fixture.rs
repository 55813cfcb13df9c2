//! Where the measuring happens: a home of its own, removed at the end.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use vestal_config::{Environment, Home, Override, Settings};
use vestal_sandbox::{Engine, FilesOnRemoval, Sandbox, TaskName};

use vestal_testkit::ssh::HOST;

use crate::Result;
use crate::containers::Api;

/// What sandboxes are made of.
#[derive(Debug, Clone)]
pub(crate) enum BenchBackend {
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
    /// Another machine.
    Ssh {
        /// The `ssh_config` that knows it.
        config: PathBuf,
    },
    /// Pods of a cluster.
    Kubernetes {
        namespace: String,
        /// The kubeconfig that leads there.
        config: PathBuf,
    },
}

impl BenchBackend {
    const fn name(&self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Native => "native",
            Self::Containers { name, .. } => name,
            Self::Ssh { .. } => "ssh",
            Self::Kubernetes { .. } => "kubernetes",
        }
    }

    /// Returns the settings of the home. A guest that outlives even a killed
    /// benchmark ends by itself.
    fn config(&self) -> String {
        let own = match self {
            Self::Local => "backend: local".to_owned(),
            Self::Native => "backend: native".to_owned(),
            Self::Containers { .. } => {
                "backend: docker\n  docker_image: vestal-test/base:latest".to_owned()
            }
            Self::Ssh { config } => {
                format!("backend: ssh\n  ssh_host: {HOST}\n  ssh_config: {}", config.display())
            }
            Self::Kubernetes { namespace, config } => format!(
                "backend: kubernetes\n  kubernetes_namespace: {namespace}\n  \
                 kubernetes_image: vestal-test/base:latest\n  kubernetes_storage_size: 64\n  \
                 kubernetes_config: {}",
                config.display()
            ),
        };
        format!("terminal:\n  {own}\n  retention_seconds: 600\n")
    }

    fn host(&self) -> Option<&str> {
        match self {
            Self::Local | Self::Native | Self::Ssh { .. } | Self::Kubernetes { .. } => None,
            Self::Containers { host, .. } => Some(host),
        }
    }
}

/// Variables that commands get on both sides: few and fixed, so that numbers
/// do not depend on who measures.
const VARIABLES: [&str; 5] = ["PATH", "HOME", "USER", "LANG", "TERM"];

/// The home and what is needed to act in it.
#[derive(Debug, Clone)]
pub(crate) struct ContractBench {
    pub(crate) engine: Engine,
    backend: BenchBackend,
    home: PathBuf,
    environment: Environment,
    /// Found once, so that the alternative does not pay for a search each time.
    bash: PathBuf,
}

impl ContractBench {
    fn open(home: &Path, backend: &BenchBackend, overrides: &[&str]) -> Result<Self> {
        let whole = Environment::capture();
        let own = VARIABLES.iter().filter_map(|name| Some((*name, whole.get(name)?.to_owned())));
        let host = backend.host().map(|host| ("DOCKER_HOST", host.into()));
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
            backend: backend.clone(),
            home: home.to_owned(),
            environment,
            bash,
        })
    }

    /// Returns the same bench for a process with other settings.
    pub(crate) fn with(&self, setting: &str) -> Result<Self> {
        Self::open(&self.home, &self.backend, &[setting])
    }

    /// Returns the name of a row that is measured here.
    pub(crate) fn label(&self, what: &str) -> String {
        format!("{}: {what}", self.backend.name())
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

    /// Removes what is left in the engine, which is a fault to report.
    fn clear_engine(&self) -> Result<()> {
        let Some(host) = self.backend.host() else {
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
pub(crate) struct BenchHome {
    /// As in the program `vestal`: all there is to do is to wait.
    runtime: Runtime,
    bench: ContractBench,
    home: Option<TempDir>,
}

impl BenchHome {
    pub(crate) fn open(backend: &BenchBackend) -> Result<Self> {
        // On the disk that the build is on: where homes are, unlike memory,
        // recording a job durably has its price.
        let home =
            tempfile::Builder::new().prefix("contract-").tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
        std::fs::write(home.path().join("config.yaml"), backend.config())?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let bench = ContractBench::open(home.path(), backend, &[])?;
        Ok(Self { runtime, bench, home: Some(home) })
    }

    /// Measures something, unless a signal says to stop.
    pub(crate) fn measure<T>(
        &self,
        measurement: impl AsyncFnOnce(ContractBench) -> Result<T>,
    ) -> Result<T> {
        self.runtime.block_on(unless_stopped(measurement(self.bench.clone())))
    }

    /// Measures something in a runtime of several threads, where the caller and
    /// the connection are not on the same one.
    pub(crate) fn measure_threaded<T>(
        &self,
        measurement: impl AsyncFnOnce(ContractBench) -> Result<T>,
    ) -> Result<T> {
        let runtime = Builder::new_multi_thread().enable_all().build()?;
        let home = self.home.as_ref().ok_or("the home is gone")?;
        let bench = ContractBench::open(home.path(), &self.bench.backend, &[])?;
        runtime.block_on(unless_stopped(measurement(bench)))
    }

    /// Removes everything and tells if that failed.
    pub(crate) fn close(mut self) -> Result<()> {
        self.clear()
    }

    fn clear(&mut self) -> Result<()> {
        let Some(home) = self.home.take() else {
            return Ok(());
        };
        let cleared = self.runtime.block_on(self.bench.clear());
        let cleared = cleared.and(self.bench.clear_engine());
        home.close()?;
        cleared
    }
}

impl Drop for BenchHome {
    fn drop(&mut self) {
        // After a failure or a panic, of which the caller hears anyway.
        self.clear().ok();
    }
}

async fn unless_stopped<T>(measurement: impl Future<Output = Result<T>>) -> Result<T> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    tokio::select! {
        result = measurement => result,
        _ = interrupt.recv() => Err("stopped by SIGINT".into()),
        _ = terminate.recv() => Err("stopped by SIGTERM".into()),
        _ = hang_up.recv() => Err("stopped by SIGHUP".into()),
    }
}
