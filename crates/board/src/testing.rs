//! What tests stand on: a board in a directory of their own, with a clock that
//! they move, and tasks to put on it.

use std::any::Any;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use vestal_config::ProfileName;

use crate::board::Board;
use crate::id::{HostId, HostName, RunId, TaskId};
use crate::run::{Role, Run};
use crate::store::{Clock, Durability, SqliteOptions, SqliteStore};
use crate::task::{Status, Task, TaskWorkspace};
use crate::time::Time;
use crate::{Error, Result};

/// When tests begin, by their clock: in September 2020.
pub const BEGINNING: Time = Time::from_millis(1_600_000_000_000);

/// A board in a directory, with a clock that stands until it is moved. It
/// answers as the board itself does.
pub struct TestBoard {
    board: Board,
    clock: Clock,
    dir: PathBuf,
    /// What removes the directory when it goes.
    _guard: Box<dyn Any + Send + Sync>,
}

impl TestBoard {
    /// Returns a board in a directory that goes with it, such as
    /// `tempfile::tempdir()` makes.
    pub async fn new<D: AsRef<Path> + Send + Sync + 'static>(dir: D) -> Result<Self> {
        let path = dir.as_ref().to_owned();
        let clock = Clock::at(BEGINNING);
        let board = open(&path, "here", clock.clone()).await?;
        Ok(Self { board, clock, dir: path, _guard: Box::new(dir) })
    }

    /// Returns the same board as another host sees it, by the same clock.
    pub async fn from_host(&self, name: &str) -> Result<Board> {
        open(&self.dir, name, self.clock.clone()).await
    }

    /// Returns the board.
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// Returns the clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns the directory.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Returns the file of the board.
    pub fn file(&self) -> PathBuf {
        file(&self.dir)
    }

    /// Lets time pass, by the board's clock.
    pub fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }
}

impl Deref for TestBoard {
    type Target = Board;

    fn deref(&self) -> &Board {
        &self.board
    }
}

/// Returns where the board of a directory is.
pub fn file(dir: &Path) -> PathBuf {
    dir.join("kanban.db")
}

/// Opens the board of a directory as a host of a name sees it.
pub async fn open(dir: &Path, host: &str, clock: Clock) -> Result<Board> {
    // Nothing here has to survive a loss of power.
    let options = SqliteOptions { durability: Durability::Normal, clock };
    let store = SqliteStore::open(file(dir), options).await?;
    let host = HostId::this(HostName::new(host)).map_err(|source| Error::Io {
        action: "read",
        path: PathBuf::from("/proc"),
        source,
    })?;
    Ok(Board::new(Arc::new(store), "default", dir, host))
}

/// Returns a profile.
#[expect(clippy::expect_used, reason = "a test that misspells a name has failed")]
pub fn profile(name: &str) -> ProfileName {
    ProfileName::new(name).expect("the name of a profile")
}

/// Returns a task as a row: ready since the beginning, for nobody.
#[expect(clippy::expect_used, reason = "a test without randomness has failed")]
pub fn task(title: &str) -> Task {
    Task {
        id: TaskId::generate().expect("randomness"),
        seq: 0,
        title: title.to_owned(),
        body: String::new(),
        assignee: None,
        status: Status::Ready,
        priority: 0,
        tenant: None,
        created_by: "user".to_owned(),
        created_by_run: None,
        depth: 0,
        session_id: None,
        created_at: BEGINNING,
        updated_at: BEGINNING,
        started_at: None,
        completed_at: None,
        queued_at: Some(BEGINNING),
        workspace: TaskWorkspace::Scratch,
        workspace_host: None,
        max_runtime: None,
        max_retries: None,
        skills: Vec::new(),
        model: None,
        result: None,
        idempotency_key: None,
        current_run: None,
        running_as: None,
        block_kind: None,
        block_reason: None,
        block_recurrences: 0,
        gate: false,
        attention: None,
        wake_at: None,
        guard: None,
        needs_review: false,
        reviewer: None,
        pending_parents: 0,
    }
}

/// Returns a run of a task as a row: a person's claim, for an hour.
pub fn run(task: &TaskId) -> Run {
    Run {
        id: RunId::new(0),
        task_id: task.clone(),
        profile: None,
        role: Role::Work,
        owner: "user".to_owned(),
        host: None,
        process: None,
        started_at: BEGINNING,
        expires_at: BEGINNING.after(Duration::from_hours(1)),
        heartbeat_at: None,
        activity_at: None,
        note: None,
        graced: false,
        max_runtime: None,
        stopping: None,
        ended_at: None,
        outcome: None,
        summary: None,
        metadata: None,
        error: None,
        gone: true,
        workspace: None,
        session_id: None,
    }
}
