//! All about a task.

use crate::event::Event;
use crate::id::TaskId;
use crate::run::Run;
use crate::store::{Read, Relative};
use crate::task::{Attachment, Comment, Failure, Task};
use crate::{Board, Result};

/// Events that are shown.
const EVENTS: u32 = 20;
/// Comments and runs that are shown: more than a person reads, and no more than
/// a screen can be waited for.
const MANY: u32 = 1000;

/// All about a task.
#[derive(Debug, Clone, PartialEq)]
pub struct Sheet {
    /// The task.
    pub task: Task,
    /// What was last said about the work.
    pub latest_summary: Option<String>,
    /// The tasks it waits for, finished or not.
    pub parents: Vec<Relative>,
    /// The tasks that wait for it.
    pub children: Vec<Relative>,
    /// What was said, oldest first.
    pub comments: Vec<Comment>,
    /// What happened last, oldest first.
    pub events: Vec<Event>,
    /// The attempts, oldest first.
    pub runs: Vec<Run>,
    /// Its files.
    pub attachments: Vec<Attachment>,
    /// How often it failed since it was last set on its way.
    pub failures: Vec<Failure>,
}

impl Board {
    /// Returns all about a task.
    pub async fn show(&self, id: &TaskId) -> Result<Sheet> {
        let mut tx = self.read().await?;
        sheet(&mut *tx, id).await
    }
}

async fn sheet(tx: &mut (dyn Read + '_), id: &TaskId) -> Result<Sheet> {
    let task = super::scene::find(tx, id).await?;
    let runs = tx.runs(id, MANY).await?;
    Ok(Sheet {
        latest_summary: latest_summary(&runs),
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

/// Returns what was last said about the work.
pub(super) fn latest_summary(runs: &[Run]) -> Option<String> {
    runs.iter().rev().find_map(|run| run.summary.clone())
}
