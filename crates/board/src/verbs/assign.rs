//! Giving a task to a profile.

use vestal_config::ProfileName;

use super::scene::Scene;
use super::{authority, machine};
use crate::authority::Authority;
use crate::id::TaskId;
use crate::task::Task;
use crate::{Board, Result};

impl Board {
    /// Gives a task to a profile, or to nobody. Its failures are forgotten, and
    /// whatever guard they set. Whether the profile exists is the caller's to say.
    pub async fn assign(
        &self,
        by: &Authority,
        id: &TaskId,
        to: Option<ProfileName>,
    ) -> Result<Task> {
        authority::no_worker(by, "assign", id)?;
        let mut tx = self.write().await?;
        let scene = Scene::find(&mut *tx, id).await?;
        let change = machine::assign(&scene.task, scene.facts(by), to.as_ref(), None)?;
        let moved = scene.apply(&mut *tx, by, change).await?;
        tx.commit().await?;
        Ok(moved.task)
    }
}
