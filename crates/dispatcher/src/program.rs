//! Workers that are this program.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;

use async_trait::async_trait;
use tokio::process::{Child, Command};
use vestal_board::log::{self, LogPolicy};
use vestal_config::Environment;
use vestal_process::ProcessId;

use crate::environment::environment;
use crate::launch::{LaunchError, Launched, Launcher, Order};

/// Starts workers as `vestal -p <profile> kanban worker …`.
#[derive(Debug, Clone)]
pub struct ProgramLauncher {
    /// The program.
    pub program: PathBuf,
    /// The root of all profiles; workers start in it, never where the
    /// dispatcher happens to be.
    pub root: PathBuf,
    /// The dispatcher's environment, of which workers get a part.
    pub environment: Environment,
    /// Variables of it that workers get besides those every program needs.
    pub passthrough: Vec<String>,
    /// What is kept of their logs.
    pub log: LogPolicy,
}

impl ProgramLauncher {
    fn start(&self, order: &Order, more: &[&str]) -> Result<Child, LaunchError> {
        let open = || {
            let file = log::open(&order.dir, &order.task, self.log)?;
            Ok((file.try_clone()?, file))
        };
        let (stdout, stderr) = open().map_err(|source: io::Error| LaunchError::Log {
            path: log::log_path(&order.dir, &order.task),
            source,
        })?;
        let mut arguments: Vec<OsString> =
            vec!["-p".into(), order.profile.as_str().into(), "kanban".into(), "worker".into()];
        arguments.extend(more.iter().map(OsString::from));
        arguments.extend(["--board".into(), order.board.as_str().into()]);
        arguments.extend(["--task".into(), order.task.as_str().into()]);
        arguments.extend(["--run".into(), order.run.to_string().into()]);
        Command::new(&self.program)
            .args(arguments)
            .env_clear()
            .envs(environment(&self.environment, &self.passthrough, &self.root, order))
            .current_dir(&self.root)
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            // At once, so that no signal to the dispatcher's group reaches it;
            // the worker goes on to lead a session.
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
    async fn launch(&self, order: &Order) -> Result<Launched, LaunchError> {
        let mut child = self.start(order, &[])?;
        // It is not waited for yet, so the number is its own, even if it ended.
        let process = match child.id().map(ProcessId::of_child) {
            Some(Ok(Some(process))) => Ok(process),
            Some(Err(error)) => Err(error),
            Some(Ok(None)) | None => Err(io::Error::other("it is not in /proc")),
        };
        match process {
            Ok(process) => Ok(Launched { process, child }),
            Err(error) => {
                // A worker that nobody could find again must not run.
                if let Err(error) = child.kill().await {
                    tracing::warn!(%error, "cannot kill a worker that was started in vain");
                }
                Err(self.failed(error))
            }
        }
    }

    async fn sweep(&self, order: &Order) -> Result<Child, LaunchError> {
        self.start(order, &["--sweep"])
    }
}
