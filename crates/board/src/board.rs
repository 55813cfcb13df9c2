//! A board as this process has it open.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use serde::Serialize;

use crate::Result;
use crate::error::Error;
use crate::event::TaskEvent;
use crate::id::{HostId, InvalidTaskId, TaskId};
use crate::run::Run;
use crate::store::{BoardStore, Changes, EventQuery, Read, Relative, TaskQuery, Write};
use crate::task::{Attachment, Comment, FailureCount, Status, Task};
use crate::time::Time;
use crate::verbs::transition;

/// One board. Clones share its connections; any number of processes, on any
/// number of hosts where the store allows it, may have it open.
///
/// What it can be asked is in [`crate::verbs`].
#[derive(Clone)]
pub struct Board {
    shared: Arc<BoardShared>,
}

struct BoardShared {
    store: Arc<dyn BoardStore>,
    slug: String,
    /// Where this host keeps the board's logs, attachments and worktrees.
    dir: PathBuf,
    host: HostId,
}

impl Board {
    /// Returns the board that a store keeps.
    pub fn new(store: Arc<dyn BoardStore>, slug: &str, dir: &Path, host: HostId) -> Self {
        let shared = BoardShared { store, slug: slug.to_owned(), dir: dir.to_owned(), host };
        Self { shared: Arc::new(shared) }
    }

    /// Returns its name.
    pub fn slug(&self) -> &str {
        &self.shared.slug
    }

    /// Returns where this host keeps its logs, attachments and worktrees.
    pub fn dir(&self) -> &Path {
        &self.shared.dir
    }

    /// Returns this host, as the board knows it.
    pub fn host(&self) -> &HostId {
        &self.shared.host
    }

    /// Begins a read transaction: it sees the board at one moment.
    #[boxed]
    pub async fn read(&self) -> Result<Box<dyn Read + '_>> {
        self.shared.store.read().await
    }

    /// Begins a write transaction. Dropped without a commit, it is rolled back.
    #[boxed]
    pub async fn write(&self) -> Result<Box<dyn Write + '_>> {
        self.shared.store.write().await
    }

    /// Returns a stream of changes by any process.
    pub fn changes(&self) -> Result<Box<dyn Changes>> {
        self.shared.store.changes()
    }

    /// Closes it for all clones. Nothing is lost without it; it merges the log into the file.
    #[boxed]
    pub async fn close(&self) -> Result<()> {
        self.shared.store.close().await
    }
}

impl fmt::Debug for Board {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Board").field("slug", &self.slug()).finish_non_exhaustive()
    }
}

/// How many names are shown where a beginning fits several.
const SHOWN: u32 = 6;
/// Events that are shown.
const EVENTS: u32 = 20;
/// Comments and runs that are shown: more than a person reads, and no more than
/// a screen can be waited for.
const MANY: u32 = 1000;

/// All about a task.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskSheet {
    /// The task.
    pub task: Task,
    /// The last report about the work.
    pub latest_summary: Option<String>,
    /// The tasks it waits for, finished or not.
    pub parents: Vec<Relative>,
    /// The tasks that wait for it.
    pub children: Vec<Relative>,
    /// Comments, oldest first.
    pub comments: Vec<Comment>,
    /// What happened last, oldest first.
    pub events: Vec<TaskEvent>,
    /// The attempts, oldest first.
    pub runs: Vec<Run>,
    /// Its files.
    pub attachments: Vec<Attachment>,
    /// How often it failed since it was last set on its way.
    pub failures: Vec<FailureCount>,
}

/// How a board stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BoardStats {
    /// How many tasks there are of each status that has any.
    pub by_status: BTreeMap<Status, u64>,
    /// The same for each profile; those of nobody are left out.
    pub by_assignee: BTreeMap<String, BTreeMap<Status, u64>>,
    /// How long the task has waited for a worker that has waited longest.
    pub oldest_ready_age_seconds: Option<u64>,
    /// Tasks that a person should look at.
    pub needs_attention: u64,
    /// The moment.
    pub now: Time,
}

impl Board {
    /// Returns a task.
    #[boxed]
    pub async fn get(&self, id: &TaskId) -> Result<Task> {
        let mut tx = self.read().await?;
        transition::find(&mut *tx, id).await
    }

    /// Returns the task with this name, or the only one whose name begins so.
    /// The `t_` in front may be left out.
    #[boxed]
    pub async fn find(&self, text: &str) -> Result<TaskId> {
        let wanted = text.trim().to_ascii_lowercase();
        let wanted = if wanted.starts_with("t_") { wanted } else { format!("t_{wanted}") };
        if wanted == "t_" || !TaskId::is_prefix(&wanted) {
            return Err(InvalidTaskId { text: text.chars().take(40).collect() }.into());
        }
        let mut tx = self.read().await?;
        if let Ok(id) = wanted.parse::<TaskId>()
            && tx.task(&id).await?.is_some()
        {
            return Ok(id);
        }
        let mut names = tx.names_like(&wanted, SHOWN).await?;
        match names.len() {
            0 => Err(Error::NotFound { wanted: text.to_owned() }),
            1 => Ok(names.remove(0)),
            _ => Err(Error::Ambiguous { wanted: text.to_owned(), candidates: names }),
        }
    }

    /// Returns tasks.
    #[boxed]
    pub async fn list(&self, query: &TaskQuery) -> Result<Vec<Task>> {
        self.read().await?.list(query).await
    }

    /// Returns all about a task.
    #[boxed]
    pub async fn show(&self, id: &TaskId) -> Result<TaskSheet> {
        let mut tx = self.read().await?;
        let task = transition::find(&mut *tx, id).await?;
        let runs = tx.runs(id, MANY).await?;
        Ok(TaskSheet {
            latest_summary: runs.iter().rev().find_map(|run| run.summary.clone()),
            parents: tx.parents(id).await?,
            children: tx.children(id).await?,
            comments: tx.comments(id, MANY).await?,
            events: tx.events(id, EVENTS).await?,
            attachments: tx.attachments(id).await?,
            failures: tx.failures(id).await?,
            runs,
            task,
        })
    }

    /// Returns how the board stands.
    #[boxed]
    pub async fn stats(&self) -> Result<BoardStats> {
        let mut tx = self.read().await?;
        let now = tx.now();
        let mut by_status = BTreeMap::new();
        let mut by_assignee: BTreeMap<String, BTreeMap<Status, u64>> = BTreeMap::new();
        for (status, assignee, count) in tx.counts().await? {
            *by_status.entry(status).or_default() += count;
            if let Some(assignee) = assignee {
                *by_assignee.entry(assignee).or_default().entry(status).or_default() += count;
            }
        }
        let attention = TaskQuery { needs_attention: true, ..TaskQuery::default() };
        Ok(BoardStats {
            by_status,
            by_assignee,
            oldest_ready_age_seconds: tx.oldest_queued().await?.map(|at| at.until(now).as_secs()),
            needs_attention: tx.count(&attention).await?,
            now,
        })
    }

    /// Returns events of all tasks after a number, oldest first.
    #[boxed]
    pub async fn events_after(&self, query: &EventQuery) -> Result<Vec<TaskEvent>> {
        self.read().await?.events_after(query).await
    }
}
