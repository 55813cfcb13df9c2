//! Making a task wait for another.

use serde_json::json;

use super::{authority, scene};
use crate::authority::Authority;
use crate::error::Refusal;
use crate::event::{Kind, NewEvent};
use crate::id::TaskId;
use crate::store::Write;
use crate::task::Task;
use crate::{Board, Result};

impl Board {
    /// Makes `child` wait for `parent`, and returns it. If it could be worked on
    /// and the parent is not finished, it has to wait from now on. A link that
    /// is there is left at that.
    pub async fn link(&self, by: &Authority, parent: &TaskId, child: &TaskId) -> Result<Task> {
        let mut tx = self.write().await?;
        authority::at_work(&mut *tx, by).await?;
        let waited_for = scene::find(&mut *tx, parent).await?;
        let mut task = scene::find(&mut *tx, child).await?;
        may_link(by, &task)?;
        refuse_cycle(&mut *tx, parent, child).await?;
        if !tx.link(parent, child).await? {
            return Ok(task);
        }
        let event = NewEvent {
            task: child.clone(),
            run: by.fence().map(|fence| fence.run),
            kind: Kind::Linked,
            payload: json!({ "parent": parent, "child": child, "by": by.name() }),
        };
        tx.tell(&[event]).await?;
        if !waited_for.status.satisfies_children() {
            task = scene::demote(&mut *tx, &task, parent).await?;
        }
        tx.commit().await?;
        Ok(task)
    }
}

/// A worker may make wait what it made itself, and its own task.
fn may_link(by: &Authority, child: &Task) -> Result<()> {
    match by.fence() {
        Some(fence) if fence.task != child.id && child.created_by_run != Some(fence.run) => {
            Err(Refusal::NotYours { verb: "link", task: child.id.clone() }.into())
        }
        _ => Ok(()),
    }
}

async fn refuse_cycle(tx: &mut dyn Write, parent: &TaskId, child: &TaskId) -> Result<()> {
    if parent == child || tx.waits_for(parent, child).await? {
        return Err(Refusal::Cycle { parent: parent.clone(), child: child.clone() }.into());
    }
    Ok(())
}
