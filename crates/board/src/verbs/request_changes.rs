//! Whoever looked at the work wants it changed.

use super::scene::Scene;
use super::{Moved, authority, limits, machine};
use crate::authority::Authority;
use crate::id::TaskId;
use crate::{Board, Result};

impl Board {
    /// Sends work back that was looked at. The reason is kept as a comment, too.
    pub async fn request_changes(
        &self,
        by: &Authority,
        id: &TaskId,
        reason: &str,
    ) -> Result<Moved> {
        let reason = limits::reason(reason)?;
        let mut tx = self.write().await?;
        let scene = Scene::find(&mut *tx, id).await?;
        authority::own(by, "request changes to", &scene.task)?;
        let change = machine::request_changes(&scene.task, scene.facts(by), &reason)?;
        let moved = scene.apply(&mut *tx, by, change).await?;
        tx.commit().await?;
        Ok(moved)
    }
}
