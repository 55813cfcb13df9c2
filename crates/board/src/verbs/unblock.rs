//! A person lets a task go on.

use super::scene::Scene;
use super::{Moved, authority, limits, machine};
use crate::authority::Authority;
use crate::id::TaskId;
use crate::{Board, Result};

impl Board {
    /// Lets a task go on that waits for a person, or for a moment. Its failures are
    /// forgotten, and whatever guard they set.
    pub async fn unblock(
        &self,
        by: &Authority,
        id: &TaskId,
        reason: Option<&str>,
    ) -> Result<Moved> {
        let reason = reason.map(limits::reason).transpose()?;
        let mut tx = self.write().await?;
        let scene = Scene::find(&mut *tx, id).await?;
        authority::person(by, "unblock", &scene.task)?;
        let change = machine::unblock(&scene.task, scene.facts(by), reason.as_deref())?;
        let moved = scene.apply(&mut *tx, by, change).await?;
        tx.commit().await?;
        Ok(moved)
    }
}
