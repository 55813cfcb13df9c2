//! What it takes to start a worker.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use tokio::process::Child;
use vestal_board::dispatch::FailurePolicy;
use vestal_board::{HostName, RunId, TaskId};
use vestal_config::ProfileName;
use vestal_process::ProcessId;

use crate::workspace::{Place, WorkspaceError};

/// Starts workers, and has cleaned up what they leave.
#[async_trait]
pub trait Launcher: Send + Sync + 'static {
    /// Starts the worker of a run. When it fails, nothing was started.
    async fn launch(&self, order: &Order) -> Result<Launched, LaunchError>;

    /// Has cleaned up, in its sandbox, what a worker left that is gone. It
    /// returns as soon as that goes on by itself.
    async fn sweep(&self, order: &Order) -> Result<Child, LaunchError>;
}

/// What a worker is started for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// The board.
    pub board: String,
    /// Where this host keeps the board's logs.
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
    /// Where it works.
    pub place: Place,
    /// How long its lease lasts without being renewed.
    pub lease: Duration,
    /// What becomes of its task if it fails; none: it has nothing to say about that.
    pub failures: Option<FailurePolicy>,
}

/// A worker that was started.
#[derive(Debug)]
pub struct Launched {
    /// Which process it is.
    pub process: ProcessId,
    /// The same, for its parent.
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
