//! Taking over tasks of another program's board.

use std::collections::{BTreeMap, BTreeSet};

use async_recursion::async_recursion as boxed;
use serde_json::{Value, json};

use super::limits;
use crate::event::{Kind, NewTaskEvent};
use crate::id::{Authority, TaskId};
use crate::run::Run;
use crate::store::Write;
use crate::task::{BlockKind, Status, Task};
use crate::time::Time;
use crate::{Board, Result};

/// A task of another board, with what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdoptedTask {
    /// The task, by a name that is made from the one it has there, so that it is known again.
    pub task: Task,
    /// Tasks that it waits for; those that are neither here nor adopted with it are left out.
    pub parents: Vec<TaskId>,
    /// The comments: by whom, and when.
    pub comments: Vec<(String, String, Time)>,
    /// Attempts that have ended, by their worker's account.
    pub runs: Vec<AdoptedRun>,
    /// Where it comes from, for the record.
    pub origin: Value,
}

/// An attempt that ended on another board. Its number is given here.
pub type AdoptedRun = Run;

impl AdoptedTask {
    /// Refuses a task that no board takes, whatever is on it.
    pub fn check(&self) -> Result<()> {
        checked(self.clone()).map(drop)
    }
}

impl Board {
    /// Adds tasks of another board, all or none, with their names, times, links, comments and attempts.
    /// One whose name is taken here is left as it is, and a key that another task has is left out. Returns
    /// the names of those that were added.
    ///
    /// Where a task stands follows from its status there and its parents here: nothing that was being
    /// worked on is running, and nothing is ready before its parents are done.
    #[boxed]
    pub async fn adopt(&self, by: &Authority, tasks: Vec<AdoptedTask>) -> Result<Vec<TaskId>> {
        let mut tx = self.write().await?;
        let mut new: BTreeMap<TaskId, AdoptedTask> = BTreeMap::new();
        for adopted in tasks {
            if tx.task(&adopted.task.id).await?.is_none() {
                let adopted = checked(adopted)?;
                new.entry(adopted.task.id.clone()).or_insert(adopted);
            }
        }
        without_cycles(&mut new);
        let mut links = Vec::new();
        let statuses: BTreeMap<TaskId, Status> =
            new.iter().map(|(id, own)| (id.clone(), own.task.status)).collect();
        for own in new.values_mut() {
            let mut pending = 0;
            for parent in std::mem::take(&mut own.parents) {
                let status = match statuses.get(&parent) {
                    Some(status) => Some(*status),
                    None => tx.task(&parent).await?.map(|task| task.status),
                };
                let Some(status) = status else { continue };
                pending += u32::from(!status.satisfies_children());
                links.push((parent, own.task.id.clone()));
            }
            settle(&mut own.task, pending, tx.now());
        }
        own_keys(&mut *tx, &mut new).await?;
        let mut ordered: Vec<&AdoptedTask> = new.values().collect();
        ordered.sort_by_key(|own| (own.task.created_at, own.task.id.clone()));
        let tasks: Vec<Task> = ordered.iter().map(|own| own.task.clone()).collect();
        tx.insert_tasks(&tasks).await?;
        for (parent, child) in &links {
            tx.link(parent, child).await?;
        }
        let mut events = Vec::new();
        for own in &ordered {
            for (author, body, at) in &own.comments {
                tx.comment_at(&own.task.id, author, body, *at).await?;
            }
            for run in &own.runs {
                tx.insert_run(run).await?;
            }
            events.push(NewTaskEvent {
                task: own.task.id.clone(),
                run: None,
                kind: Kind::Created,
                payload: json!({
                    "assignee": own.task.assignee.as_ref().map(vestal_config::ProfileName::as_str),
                    "status": own.task.status,
                    "by": by.name(),
                    "origin": own.origin,
                }),
            });
        }
        tx.add_events(&events).await?;
        let ids = ordered.iter().map(|own| own.task.id.clone()).collect();
        tx.commit().await?;
        Ok(ids)
    }
}

/// Takes idempotency keys away that another task has: the same key may mean one task only.
async fn own_keys(
    tx: &mut (dyn Write + '_),
    tasks: &mut BTreeMap<TaskId, AdoptedTask>,
) -> Result<()> {
    let mut taken = BTreeSet::new();
    for own in tasks.values_mut() {
        let Some(key) = own.task.idempotency_key.clone() else { continue };
        if own.task.status == Status::Archived {
            continue;
        }
        if tx.task_with_key(&key).await?.is_some() || !taken.insert(key) {
            own.task.idempotency_key = None;
        }
    }
    Ok(())
}

/// Returns a task in the shape that the board keeps.
fn checked(own: AdoptedTask) -> Result<AdoptedTask> {
    let AdoptedTask { task, mut parents, comments, runs, origin } = own;
    let mut seen = BTreeSet::new();
    parents.retain(|parent| *parent != task.id && seen.insert(parent.clone()));
    parents.truncate(limits::MAX_PARENTS);
    let task = Task {
        title: limits::title(&task.title)?,
        body: limits::body("the body", &task.body)?,
        tenant: limits::optional_name("the tenant", task.tenant.as_deref())?,
        priority: limits::priority(task.priority)?,
        workspace: limits::workspace(&task.workspace)?,
        max_runtime: limits::max_runtime(task.max_runtime)?,
        max_retries: limits::max_retries(task.max_retries)?,
        skills: limits::skills(&task.skills)?,
        model: limits::optional_name("the model", task.model.as_deref())?,
        idempotency_key: limits::key(task.idempotency_key.as_deref())?,
        session_id: limits::optional_name("the conversation", task.session_id.as_deref())?,
        created_by: limits::name("who makes it", &task.created_by)?,
        ..task
    };
    Ok(AdoptedTask { task, parents, comments, runs, origin })
}

/// Takes links out that would make a task wait for itself.
fn without_cycles(tasks: &mut BTreeMap<TaskId, AdoptedTask>) {
    let mut kept: BTreeMap<TaskId, Vec<TaskId>> = BTreeMap::new();
    for (id, own) in tasks.iter_mut() {
        own.parents.retain(|parent| {
            let mut open = vec![parent.clone()];
            let mut seen = BTreeSet::new();
            while let Some(next) = open.pop() {
                if next == *id {
                    return false;
                }
                if seen.insert(next.clone()) {
                    open.extend(kept.get(&next).into_iter().flatten().cloned());
                }
            }
            kept.entry(id.clone()).or_default().push(parent.clone());
            true
        });
    }
}

/// Settles where a task stands here.
fn settle(task: &mut Task, pending: u32, now: Time) {
    task.pending_parents = pending;
    task.status = match task.status {
        // Its worker is another program's.
        Status::Running => Status::Blocked,
        Status::Ready | Status::Todo if pending > 0 => Status::Todo,
        Status::Ready | Status::Todo => Status::Ready,
        other => other,
    };
    if task.status == Status::Blocked {
        task.gate = true;
        task.block_kind.get_or_insert(BlockKind::NeedsInput);
    }
    task.queued_at = matches!(task.status, Status::Ready).then_some(now);
    task.updated_at = now;
    (task.current_run, task.running_as, task.guard) = (None, None, None);
}
