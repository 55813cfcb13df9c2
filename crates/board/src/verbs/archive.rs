//! A task is put away.

use super::scene::Scene;
use super::{Moved, authority, machine};
use crate::authority::Authority;
use crate::id::TaskId;
use crate::{Board, Result};

impl Board {
    /// Puts a task away. If it is being worked on, that ends; tasks that wait for it
    /// need not any more.
    pub async fn archive(&self, by: &Authority, id: &TaskId) -> Result<Moved> {
        let mut tx = self.write().await?;
        let scene = Scene::find(&mut *tx, id).await?;
        authority::person(by, "archive", &scene.task)?;
        let change = machine::archive(&scene.task, scene.facts(by))?;
        let moved = scene.apply(&mut *tx, by, change).await?;
        tx.commit().await?;
        Ok(moved)
    }
}
