//! A task is put off.

use super::scene::Scene;
use super::{Moved, authority, limits, machine};
use crate::authority::Authority;
use crate::error::Error;
use crate::id::TaskId;
use crate::time::Time;
use crate::{Board, Result};

impl Board {
    /// Puts a task off until a moment, or until somebody unblocks it. The reason
    /// is kept as a comment, too.
    pub async fn schedule(
        &self,
        by: &Authority,
        id: &TaskId,
        reason: &str,
        at: Option<Time>,
    ) -> Result<Moved> {
        let reason = limits::reason(reason)?;
        let mut tx = self.write().await?;
        let scene = Scene::find(&mut *tx, id).await?;
        authority::own(by, "schedule", &scene.task)?;
        if by.fence().is_some() && at.is_some_and(|at| at <= tx.now()) {
            // It would be back at once, and again, without end.
            return Err(Error::Invalid {
                what: "the moment".to_owned(),
                reason: "has passed; a worker puts its task off to a later one".to_owned(),
            });
        }
        authority::gate(by, "schedule", &scene.task)?;
        let change = machine::schedule(&scene.task, scene.facts(by), &reason, at)?;
        let moved = scene.apply(&mut *tx, by, change).await?;
        tx.commit().await?;
        Ok(moved)
    }
}
