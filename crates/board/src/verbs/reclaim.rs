//! Taking a task from its holder.

use super::scene::Scene;
use super::{Moved, authority, limits, machine};
use crate::authority::Authority;
use crate::id::TaskId;
use crate::{Board, Result};

impl Board {
    /// Takes a task from its holder, whose worker has to be stopped. It can be taken
    /// up again at once.
    pub async fn reclaim(&self, by: &Authority, id: &TaskId, reason: &str) -> Result<Moved> {
        let reason = limits::optional_reason(reason)?;
        let mut tx = self.write().await?;
        let scene = Scene::find(&mut *tx, id).await?;
        authority::no_worker(by, "reclaim", id)?;
        let change = machine::reclaim(&scene.task, scene.facts(by), &reason)?;
        let moved = scene.apply(&mut *tx, by, change).await?;
        tx.commit().await?;
        Ok(moved)
    }
}
