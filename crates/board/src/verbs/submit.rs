//! The work is done and has to be looked at.

use super::complete::{Completion, refuse, verify};
use super::scene::Scene;
use super::{Moved, authority, machine};
use crate::authority::Authority;
use crate::id::TaskId;
use crate::{Board, Result};

impl Board {
    /// Puts a task among those whose work has to be looked at: by its reviewer,
    /// or by a person.
    pub async fn submit(&self, by: &Authority, id: &TaskId, done: Completion) -> Result<Moved> {
        let done = done.checked()?;
        let mut tx = self.write().await?;
        let scene = Scene::find(&mut *tx, id).await?;
        authority::own(by, "submit", &scene.task)?;
        if let Err(phantoms) = verify(&mut *tx, by, id, &done.created_cards).await {
            return Err(refuse(tx, id, by, &done, phantoms).await);
        }
        let change = machine::submit(&scene.task, scene.facts(by), &done)?;
        let moved = scene.apply(&mut *tx, by, change).await?;
        tx.commit().await?;
        Ok(moved)
    }
}
