//! A finished task is taken up anew.

use serde_json::json;

use super::scene::Scene;
use super::{Moved, authority, limits, machine};
use crate::authority::Authority;
use crate::id::TaskId;
use crate::status::Status;
use crate::{Board, Result};

impl Board {
    /// Takes up a task anew that was done or put away. Tasks that wait for it
    /// and could be worked on have to wait again.
    pub async fn reopen(&self, by: &Authority, id: &TaskId, reason: &str) -> Result<Moved> {
        let reason = limits::optional_reason(reason)?;
        let mut tx = self.write().await?;
        let scene = Scene::find(&mut *tx, id).await?;
        authority::no_worker(by, "reopen", id)?;
        let mut change = machine::reopen(&scene.task, scene.facts(by), &reason)?;
        // While a task was put away its key was free for another.
        if let (Status::Archived, Some(key)) = (scene.task.status, &scene.task.idempotency_key)
            && let Some(heir) = tx.task_with_key(key).await?
        {
            change.task.idempotency_key = None;
            for (_, payload) in &mut change.told {
                payload["idempotency_key_now_of"] = json!(heir.id);
            }
        }
        let moved = scene.apply(&mut *tx, by, change).await?;
        tx.commit().await?;
        Ok(moved)
    }
}
