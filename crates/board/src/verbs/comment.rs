//! Saying something about a task.

use serde_json::json;

use super::{authority, limits, scene};
use crate::authority::Authority;
use crate::event::{Kind, NewEvent};
use crate::id::TaskId;
use crate::{Board, Result};

impl Board {
    /// Adds a comment to a task and returns its number. A worker may say
    /// something about any task, while it holds its own.
    pub async fn comment(&self, by: &Authority, id: &TaskId, body: &str) -> Result<i64> {
        let body = limits::comment(body)?;
        let author = limits::name("the author", by.name())?;
        let mut tx = self.write().await?;
        authority::at_work(&mut *tx, by).await?;
        scene::find(&mut *tx, id).await?;
        let number = tx.comment(id, &author, &body).await?;
        let event = NewEvent {
            task: id.clone(),
            run: by.fence().filter(|fence| fence.task == *id).map(|fence| fence.run),
            kind: Kind::Commented,
            payload: json!({
                "author": author,
                "len": body.chars().count(),
                "comment": number,
                "person": matches!(by, Authority::Person(_)),
            }),
        };
        tx.tell(&[event]).await?;
        tx.commit().await?;
        Ok(number)
    }
}
