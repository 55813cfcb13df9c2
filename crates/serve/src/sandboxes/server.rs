//! The server: an engine, the boards, and the sandboxes that clients have opened.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use vestal_board::boards::Boards;
use vestal_sandbox::{Engine, Overrides, Sandbox, TaskName};

use super::board::ServedBoards;
use super::connection::SandboxConnection;
use super::failure::{FailureKind, SandboxFailure};
use crate::connection::ClientFrames;

/// How long requests that take no time may take once the client is gone.
const BRIEF_WITHIN: Duration = Duration::from_millis(500);

/// Whether sandboxes may be without isolation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IsolationRule {
    /// As the settings say.
    AsSet,
    /// They are refused.
    Required,
}

/// Serves the sandboxes of a profile to any number of connections. Clones are the same server.
#[derive(Clone)]
pub struct SandboxService(Arc<ServerState>);

struct ServerState {
    engine: Engine,
    board: ServedBoards,
    isolation: IsolationRule,
    /// What was opened here, by its whole name: should its instance be gone, it is made again as it
    /// was asked for.
    opened: Mutex<BTreeMap<TaskName, OpenedTask>>,
    tasks: TaskTracker,
    /// Cancelled when the server begins to end.
    gone: CancellationToken,
    /// Cancelled when it waits for nothing any more.
    over: CancellationToken,
}

/// How a sandbox was asked for.
#[derive(Debug, Clone)]
pub(super) struct OpenedTask {
    /// The name without a directory that is mounted, of which the engine makes the whole one.
    pub(super) asked: TaskName,
    pub(super) overrides: Overrides,
}

impl SandboxService {
    /// Returns a server over an engine and the boards, of which the environment may name one.
    pub fn new(
        engine: Engine,
        isolation: IsolationRule,
        boards: Boards,
        board: Option<String>,
    ) -> Self {
        if isolation == IsolationRule::Required {
            engine.require_confinement();
        }
        Self(Arc::new(ServerState {
            engine,
            board: ServedBoards::new(boards, board),
            isolation,
            opened: Mutex::default(),
            tasks: TaskTracker::new(),
            gone: CancellationToken::new(),
            over: CancellationToken::new(),
        }))
    }

    /// Begins to serve a client: what it sends goes into the first, what it is sent comes out of the
    /// second.
    pub fn connect(&self) -> (SandboxConnection, ClientFrames) {
        SandboxConnection::new(self.clone())
    }

    /// Ends: commands that clients wait for are killed, and what runs in the background goes on. What
    /// takes no time is still answered, the rest given up. Returns when every request has ended.
    #[boxed]
    pub async fn shutdown(&self) {
        self.0.gone.cancel();
        self.0.tasks.close();
        if tokio::time::timeout(BRIEF_WITHIN, self.0.tasks.wait()).await.is_err() {
            self.0.over.cancel();
            self.0.tasks.wait().await;
        }
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.0.engine
    }

    pub(super) fn board(&self) -> &ServedBoards {
        &self.0.board
    }

    pub(super) fn is_isolated(&self) -> bool {
        self.0.isolation == IsolationRule::Required
    }

    pub(super) fn tasks(&self) -> &TaskTracker {
        &self.0.tasks
    }

    pub(super) fn gone(&self) -> &CancellationToken {
        &self.0.gone
    }

    pub(super) fn over(&self) -> &CancellationToken {
        &self.0.over
    }

    /// Opens a sandbox: attached to, started, or made.
    pub(super) async fn open(&self, wanted: OpenedTask) -> Result<Sandbox, SandboxFailure> {
        let sandbox = self.attach(Some(wanted.clone()), wanted.asked.clone()).await?;
        self.opened().insert(sandbox.task().clone(), wanted);
        Ok(sandbox)
    }

    /// Returns a sandbox that was opened here, or that is there: a name that is mistyped makes none.
    pub(super) async fn sandbox(&self, task: &TaskName) -> Result<Sandbox, SandboxFailure> {
        let opened = self.opened().get(task).cloned();
        self.attach(opened, task.clone()).await
    }

    /// Forgets how a sandbox was asked for, because it was removed.
    pub(super) fn forget(&self, task: &TaskName) {
        self.opened().remove(task);
    }

    /// Attaches in a task of its own: a request that is given up leaves nothing half-made.
    async fn attach(
        &self,
        opened: Option<OpenedTask>,
        task: TaskName,
    ) -> Result<Sandbox, SandboxFailure> {
        let engine = self.engine().clone();
        let attached = self.tasks().spawn(async move {
            match opened {
                Some(opened) => engine.sandbox_with(&opened.asked, &opened.overrides).await,
                None => engine.existing_sandbox(&task).await,
            }
        });
        let given_up = |error| SandboxFailure::new(FailureKind::Failed, format!("{error}"));
        Ok(attached.await.map_err(given_up)??)
    }

    fn opened(&self) -> std::sync::MutexGuard<'_, BTreeMap<TaskName, OpenedTask>> {
        self.0.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for SandboxService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SandboxService").field("engine", &self.0.engine).finish_non_exhaustive()
    }
}
