//! Finish or undo what a process that died had begun.

use std::sync::Arc;

use vestal_wire::Role;

use super::Inner;
use super::attach::greet;
use crate::backend::{Backend, Instance};
use crate::store::{Intent, SandboxDir};
use crate::{Error, Task};

impl Inner {
    /// Deals with the intent another process left. Only for the holder of the
    /// key's lock: as long as somebody else holds it, the intent is theirs.
    pub(super) async fn recover(&self, task: &Task, dir: &SandboxDir) -> Result<(), Error> {
        if let Some(intent) = dir.read_intent()? {
            tracing::info!(?intent, dir = %dir.path().display(), "a process died over this; recovering");
        }
        self.finish(task, dir).await
    }

    /// Finishes or undoes what is intended, whoever does. Only for the holder of
    /// the key's lock.
    pub(super) async fn finish(&self, task: &Task, dir: &SandboxDir) -> Result<(), Error> {
        let Some(intent) = dir.read_intent()? else {
            return Ok(());
        };
        match intent {
            Intent::Create { instance, backend, .. } => {
                let recorded = dir.read_record()?.and_then(|record| record.instance);
                if recorded.is_none_or(|recorded| recorded.id != instance) {
                    let backend = Arc::clone(self.backend(task, &backend)?);
                    let half_made = unlocated(dir, instance);
                    backend.remove(&half_made).await.map_err(Error::backend(backend.name()))?;
                }
            }
            // Whether it came up is seen by looking. If it did, the record
            // still names the guest before, so that one has to go.
            Intent::Start { instance } => self.end_stray_start(task, dir, &instance).await?,
            Intent::Stop { instance, if_idle } => {
                if let Some(backend) = self.recorded_backend(task, dir)? {
                    let stopping = located(dir, instance)?;
                    if if_idle && answers(&*backend, &stopping).await {
                        return Ok(dir.clear_intent()?);
                    }
                    backend
                        .end(&stopping, super::stop::END_PATIENCE)
                        .await
                        .map_err(Error::backend(backend.name()))?;
                }
            }
            Intent::Remove { files, .. } => {
                return self.finish_removal(task, dir, files).await;
            }
            Intent::Snapshot { name, backend } => {
                self.finish_snapshot(task, dir, &name, &backend).await?;
            }
            Intent::RemoveSnapshot { name, backend } => {
                self.finish_snapshot_removal(task, dir, &name, &backend).await?;
            }
            Intent::Lend { .. } => {}
            Intent::Fork { backend, instance, .. } => {
                return self.finish_fork(task, dir, &backend, instance).await;
            }
            Intent::Restore(change) | Intent::Rebuild(change) => {
                self.finish_change(task, dir, *change).await?;
            }
        }
        dir.clear_intent()?;
        Ok(())
    }

    /// Ends a guest that was started by a process that could not record it.
    /// Nothing can have used it: users go by the record.
    async fn end_stray_start(
        &self,
        task: &Task,
        dir: &SandboxDir,
        instance: &str,
    ) -> Result<(), Error> {
        let Some(backend) = self.recorded_backend(task, dir)? else {
            return Ok(());
        };
        let recorded = located(dir, instance.to_owned())?;
        if answers(&*backend, &recorded).await {
            // The record was written; only the intent was left.
            return Ok(());
        }
        backend
            .end(&recorded, super::stop::END_PATIENCE)
            .await
            .map_err(Error::backend(backend.name()))
    }

    fn recorded_backend(
        &self,
        task: &Task,
        dir: &SandboxDir,
    ) -> Result<Option<Arc<dyn Backend>>, Error> {
        match dir.read_record()? {
            Some(record) => Ok(Some(Arc::clone(self.backend(task, &record.backend)?))),
            None => Ok(None),
        }
    }
}

/// Returns whether an instance's guest greets.
async fn answers(backend: &dyn Backend, instance: &Instance) -> bool {
    greet(backend, instance, Role::Observer).await.is_ok()
}

/// Returns an instance with what the record knows of it.
fn located(dir: &SandboxDir, id: String) -> Result<Instance, Error> {
    let recorded = dir.read_record()?.and_then(|record| record.instance(dir));
    Ok(recorded.filter(|instance| instance.id == id).unwrap_or_else(|| unlocated(dir, id)))
}

/// Returns an instance of which only the id is known.
pub(super) fn unlocated(dir: &SandboxDir, id: String) -> Instance {
    Instance { dir: dir.instance_dir(&id), id, locator: serde_json::Value::Null }
}
