//! Making a task wait for another no more.

use serde_json::json;

use super::{authority, scene};
use crate::authority::Authority;
use crate::error::Error;
use crate::event::{Kind, NewEvent};
use crate::id::TaskId;
use crate::task::Task;
use crate::{Board, Result};

impl Board {
    /// Makes `child` wait for `parent` no more, and returns it.
    pub async fn unlink(&self, by: &Authority, parent: &TaskId, child: &TaskId) -> Result<Task> {
        authority::no_worker(by, "unlink", child)?;
        let mut tx = self.write().await?;
        let waited_for = scene::find(&mut *tx, parent).await?;
        let task = scene::find(&mut *tx, child).await?;
        if !tx.unlink(parent, child).await? {
            return Err(Error::Invalid {
                what: "the link".to_owned(),
                reason: format!("is not there: {child} does not wait for {parent}"),
            });
        }
        let event = NewEvent {
            task: child.clone(),
            run: None,
            kind: Kind::Unlinked,
            payload: json!({ "parent": parent, "child": child, "by": by.name() }),
        };
        tx.tell(&[event]).await?;
        if !waited_for.status.satisfies_children() {
            scene::release(&mut *tx, &task).await?;
        }
        let task = scene::find(&mut *tx, child).await?;
        tx.commit().await?;
        Ok(task)
    }
}
