//! Whose tools they are, and what they may do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use vestal_agent::tools::{Arguments, BadArgument};
use vestal_board::boards::{Boards, Slug};
use vestal_board::verbs::Heartbeat;
use vestal_board::{Authority, Board, Error, Fence, Role, TaskId, Time};

use crate::tools::Trouble;

/// Where an agent sits at the board. Cheap to clone; clones are the same.
#[derive(Clone)]
pub struct Desk {
    inner: Arc<Inner>,
}

struct Inner {
    seat: Seat,
    said: Mutex<Option<Said>>,
    changed: Notify,
}

enum Seat {
    /// It works on a task, as long as it holds it.
    Worker { board: Board, fence: Fence, role: Role, lease: Duration },
    /// It talks to somebody, and acts in their name.
    Person { boards: Boards, choice: Option<String>, name: String, opened: Opened },
}

/// Boards that were opened.
type Opened = tokio::sync::Mutex<BTreeMap<Slug, Board>>;

/// What a worker's tools came to, as far as the whole run is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    /// The task is done, or waits to be looked at, or was looked at.
    Finished,
    /// The task waits: for a person, a moment, or another task.
    Waits,
    /// The task is somebody else's.
    Lost,
}

impl Desk {
    /// Returns the desk of a worker whose lease lasts so long without being renewed.
    pub fn of_worker(board: Board, fence: Fence, role: Role, lease: Duration) -> Self {
        Self::new(Seat::Worker { board, fence, role, lease })
    }

    /// Returns the desk of an agent that talks to somebody. `choice` is the
    /// board that the environment names.
    pub fn of_person(boards: Boards, choice: Option<String>, name: String) -> Self {
        Self::new(Seat::Person { boards, choice, name, opened: Opened::default() })
    }

    fn new(seat: Seat) -> Self {
        let inner = Inner { seat, said: Mutex::new(None), changed: Notify::new() };
        Self { inner: Arc::new(inner) }
    }

    /// Returns what a worker's run is for; nothing for a person's.
    pub(crate) fn role(&self) -> Option<Role> {
        match &self.inner.seat {
            Seat::Worker { role, .. } => Some(*role),
            Seat::Person { .. } => None,
        }
    }

    /// Returns the worker's hold on its task.
    pub(crate) fn fence(&self) -> Result<&Fence, Trouble> {
        match &self.inner.seat {
            Seat::Worker { fence, .. } => Ok(fence),
            Seat::Person { .. } => Err(Trouble::from("only a worker can do this")),
        }
    }

    /// Returns in whose name a change is made.
    pub(crate) fn authority(&self) -> Authority {
        match &self.inner.seat {
            Seat::Worker { fence, .. } => Authority::Worker(fence.clone()),
            Seat::Person { name, .. } => Authority::Person(name.clone()),
        }
    }

    /// Returns the board that is meant, to be changed.
    pub(crate) async fn board(&self, arguments: &Arguments) -> Result<Board, Trouble> {
        match self.find_board(arguments, Access::Write).await? {
            Some(board) => Ok(board),
            None => Err(Trouble::from("there is no such board")),
        }
    }

    /// Returns the board that is meant, to be looked at: one that is not there
    /// is not made for that.
    pub(crate) async fn board_to_read(&self, arguments: &Arguments) -> Result<Board, Trouble> {
        match self.find_board(arguments, Access::Read).await? {
            Some(board) => Ok(board),
            None => Err(Trouble::from("the board is empty: there is no task on it yet")),
        }
    }

    async fn find_board(
        &self,
        arguments: &Arguments,
        access: Access,
    ) -> Result<Option<Board>, Trouble> {
        let named = arguments.optional_text("board")?;
        let named = named.as_deref().map(str::trim).filter(|name| !name.is_empty());
        let (boards, choice, opened) = match &self.inner.seat {
            Seat::Worker { board, .. } => return own_board(board, named).map(Some),
            Seat::Person { boards, choice, opened, .. } => (boards, choice, opened),
        };
        let slug = match named {
            Some(name) => Slug::new(name).map_err(|error| Trouble::from(error.to_string()))?,
            None => boards.current(choice.as_deref()).await?.slug,
        };
        let mut opened = opened.lock().await;
        if let Some(board) = opened.get(&slug) {
            return Ok(Some(board.clone()));
        }
        let board = match access {
            Access::Read => boards.open_to_read(&slug).await?,
            Access::Write => Some(boards.open_to_write(&slug).await?),
        };
        if let Some(board) = &board {
            opened.insert(slug, board.clone());
        }
        Ok(board)
    }

    /// Renews a worker's lease, and says that it got something done.
    pub(crate) async fn beat(&self, board: &Board, note: Option<String>) -> Result<Time, Trouble> {
        let (fence, lease) = match &self.inner.seat {
            Seat::Worker { fence, lease, .. } => (fence, *lease),
            Seat::Person { .. } => return Err(Trouble::from("only a worker can do this")),
        };
        Ok(board.heartbeat(fence, Heartbeat { lease, activity: true, note }).await?)
    }

    /// Returns the task that is meant: a worker's own, unless it names another.
    pub(crate) async fn task(
        &self,
        board: &Board,
        arguments: &Arguments,
    ) -> Result<TaskId, Trouble> {
        let named = arguments.optional_text("task_id")?;
        let named = named.as_deref().map(str::trim).filter(|name| !name.is_empty());
        match (named, &self.inner.seat) {
            (Some(name), _) => Ok(board.find(name).await?),
            (None, Seat::Worker { fence, .. }) => Ok(fence.task.clone()),
            (None, Seat::Person { .. }) => Err(BadArgument::new("`task_id` is required").into()),
        }
    }

    /// Takes note of what the run has come to, if the change was one of the
    /// worker's own task.
    pub(crate) fn reported(&self, task: &TaskId, said: Said) {
        if let Seat::Worker { fence, .. } = &self.inner.seat
            && fence.task == *task
        {
            self.note(said);
        }
    }

    /// Takes note of an error that ends the run.
    pub(crate) fn heed(&self, error: &Error) {
        if let Error::Fenced { .. } = error {
            self.note(Said::Lost);
        }
    }

    fn note(&self, said: Said) {
        // The first word counts: after it the task is not the worker's any more,
        // and what else it tries is refused for that.
        self.inner.said.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(said);
        self.inner.changed.notify_waiters();
    }

    /// Returns what the run has come to so far.
    pub(crate) fn said(&self) -> Option<Said> {
        *self.inner.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the run has come to something.
    pub(crate) async fn until_said(&self) -> Said {
        loop {
            let changed = self.inner.changed.notified();
            if let Some(said) = self.said() {
                return said;
            }
            changed.await;
        }
    }
}

/// What a board is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

/// A worker has its hold on its own board, so that is all it may touch.
fn own_board(board: &Board, named: Option<&str>) -> Result<Board, Trouble> {
    match named {
        Some(name) if !name.eq_ignore_ascii_case(board.slug()) => Err(Trouble::from(format!(
            "a worker works on its own board, {}, and not on {name:?}",
            board.slug()
        ))),
        _ => Ok(board.clone()),
    }
}

impl std::fmt::Debug for Desk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Desk").field("authority", &self.authority()).finish_non_exhaustive()
    }
}
