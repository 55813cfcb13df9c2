//! The board as an agent's tools see it: as a worker that holds a task, or for a person.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use vestal_agent::tools::BadArgument;
use vestal_board::boards::{Boards, Slug};
use vestal_board::verbs::Heartbeat;
use vestal_board::{Authority, Board, Error, Fence, Role, TaskId, Time};

use crate::tools::{BoardArgument, TaskArgument, ToolError};

/// The board as an agent may use it. Clones share their state.
#[derive(Clone)]
pub struct AgentBoard {
    inner: Arc<ContextState>,
}

struct ContextState {
    caller: BoardCaller,
    reported: Mutex<Option<ReportedState>>,
    changed: Notify,
}

enum BoardCaller {
    /// A worker that holds a task.
    Worker { board: Board, fence: Fence, role: Role, lease: Duration },
    /// A chat that acts for a person.
    Person { boards: Boards, choice: Option<String>, name: String, opened: OpenedBoards },
}

/// Boards that were opened.
type OpenedBoards = tokio::sync::Mutex<BTreeMap<Slug, Board>>;

/// What a worker's tools have reported about its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReportedState {
    /// The task is done or handed over for review, or its review is done.
    Finished,
    /// The task waits for a person, a time or another task.
    Waits,
    /// Another run holds the task.
    Lost,
}

impl AgentBoard {
    /// Returns the context of a worker; `lease` is how long its claim lasts without renewal.
    pub fn for_worker(board: Board, fence: Fence, role: Role, lease: Duration) -> Self {
        Self::new(BoardCaller::Worker { board, fence, role, lease })
    }

    /// Returns the context of a chat. `choice` is the board that the environment names.
    pub fn for_person(boards: Boards, choice: Option<String>, name: String) -> Self {
        Self::new(BoardCaller::Person { boards, choice, name, opened: OpenedBoards::default() })
    }

    fn new(caller: BoardCaller) -> Self {
        let inner = ContextState { caller, reported: Mutex::new(None), changed: Notify::new() };
        Self { inner: Arc::new(inner) }
    }

    /// Returns the role of a worker's run; `None` for a person.
    pub(crate) fn role(&self) -> Option<Role> {
        match &self.inner.caller {
            BoardCaller::Worker { role, .. } => Some(*role),
            BoardCaller::Person { .. } => None,
        }
    }

    /// Returns the worker's hold on its task.
    pub(crate) fn fence(&self) -> Result<&Fence, ToolError> {
        match &self.inner.caller {
            BoardCaller::Worker { fence, .. } => Ok(fence),
            BoardCaller::Person { .. } => Err(ToolError::from("only a worker can do this")),
        }
    }

    /// Returns who a change is made by.
    pub(crate) fn authority(&self) -> Authority {
        match &self.inner.caller {
            BoardCaller::Worker { fence, .. } => Authority::Worker(fence.clone()),
            BoardCaller::Person { name, .. } => Authority::Person(name.clone()),
        }
    }

    /// Returns the board that a call names, for writing.
    pub(crate) async fn board(&self, named: &BoardArgument) -> Result<Board, ToolError> {
        match self.find_board(named, BoardAccess::Write).await? {
            Some(board) => Ok(board),
            None => Err(ToolError::from("there is no such board")),
        }
    }

    /// Returns the board that a call names, for reading. It is not created for that.
    pub(crate) async fn board_to_read(&self, named: &BoardArgument) -> Result<Board, ToolError> {
        match self.find_board(named, BoardAccess::Read).await? {
            Some(board) => Ok(board),
            None => Err(ToolError::from("the board is empty: there is no task on it yet")),
        }
    }

    async fn find_board(
        &self,
        named: &BoardArgument,
        access: BoardAccess,
    ) -> Result<Option<Board>, ToolError> {
        let named = named.name();
        let (boards, choice, opened) = match &self.inner.caller {
            BoardCaller::Worker { board, .. } => return own_board(board, named).map(Some),
            BoardCaller::Person { boards, choice, opened, .. } => (boards, choice, opened),
        };
        let slug = match named {
            Some(name) => Slug::new(name).map_err(|error| ToolError::from(error.to_string()))?,
            None => boards.current(choice.as_deref()).await?.slug,
        };
        let mut opened = opened.lock().await;
        if let Some(board) = opened.get(&slug) {
            return Ok(Some(board.clone()));
        }
        let board = match access {
            BoardAccess::Read => boards.open_to_read(&slug).await?,
            BoardAccess::Write => Some(boards.open_to_write(&slug).await?),
        };
        if let Some(board) = &board {
            opened.insert(slug, board.clone());
        }
        Ok(board)
    }

    /// Renews a worker's lease and records activity.
    pub(crate) async fn beat(
        &self,
        board: &Board,
        note: Option<String>,
    ) -> Result<Time, ToolError> {
        let (fence, lease) = match &self.inner.caller {
            BoardCaller::Worker { fence, lease, .. } => (fence, *lease),
            BoardCaller::Person { .. } => return Err(ToolError::from("only a worker can do this")),
        };
        Ok(board.heartbeat(fence, Heartbeat { lease, activity: true, note }).await?)
    }

    /// Returns the task that a call names; a worker's own by default.
    pub(crate) async fn task(
        &self,
        board: &Board,
        named: &TaskArgument,
    ) -> Result<TaskId, ToolError> {
        match (named.name(), &self.inner.caller) {
            (Some(name), _) => Ok(board.find(name).await?),
            (None, BoardCaller::Worker { fence, .. }) => Ok(fence.task.clone()),
            (None, BoardCaller::Person { .. }) => Err(BadArgument::missing("task_id").into()),
        }
    }

    /// Records what was reported, if it is about the worker's own task.
    pub(crate) fn report(&self, task: &TaskId, reported: ReportedState) {
        if let BoardCaller::Worker { fence, .. } = &self.inner.caller
            && fence.task == *task
        {
            self.note(reported);
        }
    }

    /// Records an error that ends the run.
    pub(crate) fn note_error(&self, error: &Error) {
        if let Error::Fenced { .. } = error {
            self.note(ReportedState::Lost);
        }
    }

    fn note(&self, reported: ReportedState) {
        // The first report counts. After it the worker does not hold the task any more, and the
        // store refuses what else it tries.
        self.inner.reported.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reported);
        self.inner.changed.notify_waiters();
    }

    /// Returns what was reported so far.
    pub(crate) fn reported(&self) -> Option<ReportedState> {
        *self.inner.reported.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a report.
    pub(crate) async fn until_reported(&self) -> ReportedState {
        loop {
            let changed = self.inner.changed.notified();
            if let Some(reported) = self.reported() {
                return reported;
            }
            changed.await;
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BoardAccess {
    Read,
    Write,
}

/// A worker may only use the board of its task.
fn own_board(board: &Board, named: Option<&str>) -> Result<Board, ToolError> {
    match named {
        Some(name) if !name.eq_ignore_ascii_case(board.slug()) => Err(ToolError::from(format!(
            "a worker can use only its own board, {}, not {name:?}",
            board.slug()
        ))),
        _ => Ok(board.clone()),
    }
}

impl std::fmt::Debug for AgentBoard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentBoard").field("authority", &self.authority()).finish_non_exhaustive()
    }
}
