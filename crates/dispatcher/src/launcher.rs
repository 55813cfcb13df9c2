//! How worker processes are launched: the trait, the launcher of this program, and the environment of a worker.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use async_trait::async_trait;
use tokio::process::{Child, Command};
use vestal_board::dispatch::FailurePolicy;
use vestal_board::log::{self, LogPolicy};
use vestal_board::{HostName, RunId, TaskId};
use vestal_config::{Environment, ProfileName};
use vestal_process::ProcessId;

use crate::workspace::{WorkspaceDir, WorkspaceError};

/// Starts workers, and processes that clean up after them.
#[async_trait]
pub trait Launcher: Send + Sync + 'static {
    /// Starts the worker of a run. On an error nothing was started.
    async fn launch(&self, spec: &LaunchSpec) -> Result<Launched, LaunchError>;

    /// Starts a process that cleans up the sandbox of a worker that is gone.
    async fn sweep(&self, spec: &LaunchSpec) -> Result<Child, LaunchError>;
}

/// What a worker is launched with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchSpec {
    /// The board.
    pub board: String,
    /// The board's directory on this host, with its logs.
    pub dir: PathBuf,
    /// The task.
    pub task: TaskId,
    /// The run.
    pub run: RunId,
    /// The profile that works.
    pub profile: ProfileName,
    /// This host, as the board knows it.
    pub host: HostName,
    /// The task's tenant.
    pub tenant: Option<String>,
    /// Its workspace.
    pub workspace: WorkspaceDir,
    /// How long its lease lasts without renewal.
    pub lease: Duration,
    /// What happens to its task if it fails; `None` for a clean-up.
    pub failures: Option<FailurePolicy>,
}

/// A worker that was started.
#[derive(Debug)]
pub struct Launched {
    /// Which process it is.
    pub process: ProcessId,
    /// The handle to wait for it.
    pub child: Child,
}

/// Why a worker could not be started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// Its workspace could not be made.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// Its log could not be opened.
    #[error("cannot open the log {}: {source}", path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The program could not be started.
    #[error("cannot start {}: {source}", program.display())]
    Program {
        /// The program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Starts workers as `vestal -p <profile> kanban worker …`.
#[derive(Debug, Clone)]
pub struct ProgramLauncher {
    /// The program.
    pub program: PathBuf,
    /// The root of all profiles, which is the working directory of workers.
    pub root: PathBuf,
    /// The dispatcher's environment; workers get an allowed part of it.
    pub environment: Environment,
    /// Further variables that workers get: those that the settings name, and those that choose what
    /// every process of the program uses, such as a proxy.
    pub passthrough: Vec<String>,
    /// How their logs are rotated.
    pub log: LogPolicy,
}

impl ProgramLauncher {
    /// Returns what workers get of the dispatcher's environment. Their settings are read with it.
    pub fn inherited(&self) -> Environment {
        Environment::from_pairs(inherited(&self.environment, &self.passthrough))
    }

    fn start(&self, spec: &LaunchSpec, more: &[&str]) -> Result<Child, LaunchError> {
        let open = || {
            let file = log::open(&spec.dir, &spec.task, self.log)?;
            Ok((file.try_clone()?, file))
        };
        let (stdout, stderr) = open().map_err(|source: io::Error| LaunchError::Log {
            path: log::log_path(&spec.dir, &spec.task),
            source,
        })?;
        let mut arguments: Vec<OsString> =
            vec!["-p".into(), spec.profile.as_str().into(), "kanban".into(), "worker".into()];
        arguments.extend(more.iter().map(OsString::from));
        arguments.extend(["--board".into(), spec.board.as_str().into()]);
        arguments.extend(["--task".into(), spec.task.as_str().into()]);
        arguments.extend(["--run".into(), spec.run.to_string().into()]);
        Command::new(&self.program)
            .args(arguments)
            .env_clear()
            .envs(environment(&self.environment, &self.passthrough, &self.root, spec))
            .current_dir(&self.root)
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            // A group of its own at once, so that no signal to the dispatcher's group reaches it. The
            // worker then starts a session.
            .process_group(0)
            .kill_on_drop(false)
            .spawn()
            .map_err(|source| self.failed(source))
    }

    fn failed(&self, source: io::Error) -> LaunchError {
        LaunchError::Program { program: self.program.clone(), source }
    }
}

#[async_trait]
impl Launcher for ProgramLauncher {
    async fn launch(&self, spec: &LaunchSpec) -> Result<Launched, LaunchError> {
        let mut child = self.start(spec, &[])?;
        // It has not been waited for, so the pid is still its own, even if it ended.
        let process = match child.id().map(ProcessId::of_child) {
            Some(Ok(Some(process))) => Ok(process),
            Some(Err(error)) => Err(error),
            Some(Ok(None)) | None => Err(io::Error::other("it is not in /proc")),
        };
        match process {
            Ok(process) => Ok(Launched { process, child }),
            Err(error) => {
                // A worker that could not be identified later must not run.
                if let Err(error) = child.kill().await {
                    tracing::warn!(%error, "cannot kill a worker that could not be identified");
                }
                Err(self.failed(error))
            }
        }
    }

    async fn sweep(&self, spec: &LaunchSpec) -> Result<Child, LaunchError> {
        self.start(spec, &["--sweep"])
    }
}

/// Variables that every program needs; none holds a secret.
const COMMON: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "TZ",
    "TMPDIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NO_PROXY",
];

const TASK: &str = "VESTAL_KANBAN_TASK";
const RUN: &str = "VESTAL_KANBAN_RUN";

/// Returns the environment of a worker: the allowed part of the dispatcher's, and the variables that
/// describe the run. It has no secrets; a worker reads those of its own profile.
pub(crate) fn environment(
    dispatcher: &Environment,
    passthrough: &[String],
    root: &Path,
    spec: &LaunchSpec,
) -> BTreeMap<OsString, OsString> {
    let mut variables: BTreeMap<OsString, OsString> = inherited(dispatcher, passthrough).collect();
    let mut set = |name: &str, value: &OsStr| {
        variables.insert(name.into(), value.to_owned());
    };
    set("VESTAL_HOME", root.as_os_str());
    set("VESTAL_PROFILE", spec.profile.as_str().as_ref());
    set(TASK, spec.task.as_str().as_ref());
    set(RUN, spec.run.to_string().as_ref());
    set("VESTAL_KANBAN_BOARD", spec.board.as_ref());
    set("VESTAL_KANBAN_HOST", spec.host.as_str().as_ref());
    // The worker must know the real length: with a longer one it would renew too late.
    set("VESTAL_KANBAN_LEASE_SECONDS", spec.lease.as_secs().max(1).to_string().as_ref());
    // A worker applies the same failure policy as its dispatcher.
    if let Some(failures) = &spec.failures {
        for (name, value) in [
            ("VESTAL_KANBAN_FAILURE_LIMIT", u64::from(failures.budgets.crashed)),
            ("VESTAL_KANBAN_NO_REPORT_LIMIT", u64::from(failures.budgets.no_report)),
            ("VESTAL_KANBAN_RETRY_BACKOFF_SECONDS", failures.backoff.first.as_secs()),
            ("VESTAL_KANBAN_RATE_LIMIT_COOLDOWN_SECONDS", failures.rate_limit_cooldown.as_secs()),
        ] {
            set(name, value.to_string().as_ref());
        }
    }
    if let Some(path) = &spec.workspace.path {
        set("VESTAL_KANBAN_WORKSPACE", path.as_os_str());
    }
    if let Some(branch) = &spec.workspace.branch {
        set("VESTAL_KANBAN_BRANCH", branch.as_ref());
    }
    if let Some(tenant) = &spec.tenant {
        set("VESTAL_TENANT", tenant.as_ref());
    }
    variables
}

/// Returns the allowed part of the dispatcher's environment.
fn inherited(
    dispatcher: &Environment,
    passthrough: &[String],
) -> impl Iterator<Item = (OsString, OsString)> {
    dispatcher
        .iter()
        .filter(|(name, _)| name.to_str().is_some_and(|name| is_allowed(name, passthrough)))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
}

/// Returns the variables by which processes of a run are recognised.
pub(crate) fn marks(task: &vestal_board::TaskId, run: vestal_board::RunId) -> Vec<OsString> {
    vec![format!("{TASK}={task}").into(), format!("{RUN}={run}").into()]
}

fn is_allowed(name: &str, passthrough: &[String]) -> bool {
    COMMON.contains(&name)
        || name == "no_proxy"
        || name.starts_with("LC_")
        || passthrough.iter().any(|allowed| allowed == name)
}

#[cfg(test)]
#[path = "launcher_tests.rs"]
mod tests;
