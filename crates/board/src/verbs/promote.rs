//! A person wants a task worked on now.

use super::scene::Scene;
use super::{Moved, authority, limits, machine};
use crate::authority::Authority;
use crate::id::TaskId;
use crate::{Board, Result};

/// How a task is made ready.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Promotion {
    /// Why; it may be empty.
    pub reason: String,
    /// Whether it need not wait for the tasks it is linked to.
    pub force: bool,
    /// Whether it is only to be found out what would come of it.
    pub dry_run: bool,
}

impl Board {
    /// Makes a task ready, whatever it waited for; for unfinished tasks it is
    /// linked to only with `force`. Its failures are forgotten, and whatever
    /// guard they set.
    pub async fn promote(
        &self,
        by: &Authority,
        id: &TaskId,
        promotion: Promotion,
    ) -> Result<Moved> {
        let reason = limits::optional_reason(&promotion.reason)?;
        let mut tx = self.write().await?;
        let scene = Scene::find(&mut *tx, id).await?;
        authority::person(by, "promote", &scene.task)?;
        let parents = if scene.task.pending_parents > 0 {
            let parents = tx.parents(id).await?.into_iter();
            parents.filter(|one| !one.status.satisfies_children()).map(|one| one.id).collect()
        } else {
            Vec::new()
        };
        let facts = scene.facts(by);
        let change = machine::promote(&scene.task, facts, &reason, promotion.force, &parents)?;
        let moved = scene.apply(&mut *tx, by, change).await?;
        // What is not committed did not happen.
        if !promotion.dry_run {
            tx.commit().await?;
        }
        Ok(moved)
    }
}
